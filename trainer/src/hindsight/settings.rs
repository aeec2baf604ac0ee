//! settings
use serde::{Deserialize, Serialize};

use super::teacher::TeacherSettings;
use crate::Result;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HindsightSettings {
    pub teacher: TeacherSettings,
}

impl HindsightSettings {
    pub(crate) fn check(&self) -> Result<()> {
        self.teacher.check()
    }
}
