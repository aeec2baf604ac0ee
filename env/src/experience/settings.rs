//! Which experience guides rollouts, and how?

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Entry;
use crate::{Error, Result};

/// What guides rollouts: the table `[experience]` of a training run. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperienceSettings {
    /// The experience file; without one there is no guidance until a refresh has made some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// What the prompt shows; the paper has patterns (`e2`) or strategies (`e3`).
    pub planning: Planning,
    /// Entries that the prompt shows at most.
    pub planning_k: usize,
    /// What stands behind the passages of a search; the paper has single cases (`e1`).
    pub step: Step,
    /// The least cosine of a query with an entry's key for the entry to be shown behind the passages.
    pub threshold: f32,
    /// Entries behind the passages of a search at most.
    pub k: usize,
    /// Whether entries made from the very task that is played are left out: they may hold its answer. The paper does not say.
    pub exclude_own: bool,
    /// Experience is built anew from the run's own plays after so many steps; 0 is never. Not in the paper.
    pub refresh_every: u64,
    /// Who writes experience.
    pub distiller: Distiller,
}

/// Levels that the prompt shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Planning {
    /// None.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Patterns.
    #[serde(rename = "e2")]
    E2,
    /// Strategies.
    #[serde(rename = "e3")]
    E3,
    /// Both, the best of all.
    #[serde(rename = "e2+e3")]
    E2AndE3,
}

/// The level that stands behind passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// None.
    #[default]
    None,
    /// What single tasks taught.
    E1,
}

/// Who writes experience.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distiller {
    /// The model that learns.
    #[default]
    #[serde(rename = "self")]
    Own,
    /// Another model.
    Teacher,
    /// Rules, without a model.
    Rules,
}

impl Default for ExperienceSettings {
    /// Nothing is shown; numbers are the paper's, where it says them.
    fn default() -> Self {
        Self {
            file: None,
            planning: Planning::default(),
            planning_k: 5,
            step: Step::default(),
            threshold: 0.8,
            k: 1,
            exclude_own: true,
            refresh_every: 0,
            distiller: Distiller::default(),
        }
    }
}

impl ExperienceSettings {
    /// Those of the paper: patterns in the prompt, and the nearest case at each search.
    pub fn published() -> Self {
        Self { planning: Planning::E2, step: Step::E1, ..Self::default() }
    }

    /// Whether anything is to be shown.
    pub fn guides(&self) -> bool {
        self.planning != Planning::None || self.step != Step::None
    }

    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the key.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str, expected: &str, found: String| Err(Error::invalid(what, expected, found));
        if !(-1.0..=1.0).contains(&self.threshold) {
            return refuse("experience.threshold", "a cosine, from -1 to 1", self.threshold.to_string());
        }
        if self.step != Step::None && self.k == 0 {
            return refuse("experience.k", "1 at least, or `step = \"none\"`", "0".into());
        }
        if self.planning != Planning::None && self.planning_k == 0 {
            return refuse("experience.planning_k", "1 at least, or `planning = \"none\"`", "0".into());
        }
        Ok(())
    }
}

impl Planning {
    /// Whether entries of this level stand in prompts.
    pub fn shows(self, level: u8) -> bool {
        match self {
            Self::None => false,
            Self::E2 => level == 2,
            Self::E3 => level == 3,
            Self::E2AndE3 => level >= 2,
        }
    }
}

impl Step {
    pub(super) fn shows(self, entry: &Entry) -> bool {
        self == Self::E1 && entry.level == 1
    }
}
