//! NeMo Gym's `google_search`: the first box of the last message is the accepted answer, letter for letter.

use serde::{Deserialize, Serialize};

use crate::reward::python::repr;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// NeMo Gym's reward (`resources_servers/google_search/app.py`). The box is looked for in Python's `repr` of the message, so line
/// ends and backslashes in it are escaped; nothing is normalised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NemoGym {}

impl NemoGym {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let shown = scene.texts().next_back().map(repr).unwrap_or_default();
        let inside = shown.split_once("\\boxed{").and_then(|(_, after)| after.split_once('}'));
        let Some((answer, _)) = inside else { return Verdict::default() };
        let is_right = scene.golds.iter().any(|gold| gold == answer);
        Verdict::of(f64::from(u8::from(is_right)), Some(answer.to_owned()))
    }
}
