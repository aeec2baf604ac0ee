//! ZeroSearch: F1 of words, without a rule for yes and no.

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::reward::normalize::squad;
use crate::reward::overlap::common_words;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// ZeroSearch's reward (`verl/utils/reward_score/qa_em.py`). It counts on an answer in the prompt: `minimum_spans = 2`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Zerosearch {
    /// What is computed (`reward_function`).
    pub measure: ZerosearchMeasure,
}

/// What ZeroSearch computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ZerosearchMeasure {
    /// F1, as all its scripts have it.
    #[default]
    F1,
    /// Whether an accepted answer is part of the answer; there it is called `em`.
    SubEm,
}

impl Zerosearch {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let answer = scene.last_answer_with_prompt();
        let value = |answer: &str| match self.measure {
            ZerosearchMeasure::SubEm => Rule::Part.value(answer, scene.golds),
            ZerosearchMeasure::F1 => {
                let answer = squad(answer);
                scene.best(|gold| common_words(&answer, &squad(gold)).unwrap_or_default().f1)
            }
        };
        Verdict::of(answer.as_deref().map_or(0.0, value), answer)
    }
}
