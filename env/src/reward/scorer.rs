//! The scorers by name.

use serde::{Deserialize, Serialize};

use super::{Scene, answer, exact};

/// A scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scorer {
    /// 1 where the last answer equals an accepted one, both normalised (Search-R1, `qa_em.py`).
    Em,
    /// 1 where an accepted answer is part of the last answer, both normalised (Search-R1, `qa_em.py`, `compute_score_subem`).
    SubEm,
}

impl Scorer {
    /// The name, as presets have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Em => "em",
            Self::SubEm => "sub-em",
        }
    }

    pub(super) fn value(self, scene: &Scene<'_>) -> f64 {
        let answer = answer::last(scene);
        let golds = scene.gold.answers();
        let is = |holds: fn(&str, &str) -> bool| {
            f64::from(u8::from(answer.as_deref().is_some_and(|answer| golds.iter().any(|gold| holds(answer, gold)))))
        };
        match self {
            Self::Em => is(exact::equal),
            Self::SubEm => is(exact::contains),
        }
    }
}
