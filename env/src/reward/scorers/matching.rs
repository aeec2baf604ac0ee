//! Does the last answer equal an accepted one, hold one, or share words with one?

use serde::{Deserialize, Serialize};

use crate::reward::normalize::squad;
use crate::reward::overlap::{Overlap, best_hotpot};
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// The options of scorers that match the last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    /// What an answer that is wrong earns (the references' `format_score`).
    #[serde(skip_serializing_if = "is_nothing")]
    pub wrong: f64,
}

fn is_nothing(value: &f64) -> bool {
    *value == 0.0
}

/// What makes an answer right, both normalised by SQuAD's rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reward) enum Rule {
    /// It equals an accepted one.
    Equal,
    /// An accepted one is part of it, even inside a word. One that is empty once normalised is part of everything.
    Part,
}

impl Rule {
    pub fn holds(self, answer: &str, golds: &[String]) -> bool {
        let answer = squad(answer);
        golds.iter().map(|gold| squad(gold)).any(|gold| match self {
            Self::Equal => answer == gold,
            Self::Part => answer.contains(&gold),
        })
    }

    pub fn value(self, answer: &str, golds: &[String]) -> f64 {
        f64::from(u8::from(self.holds(answer, golds)))
    }
}

impl Match {
    pub(in crate::reward) fn score(&self, rule: Rule, answer: Option<String>, scene: &Scene<'_>) -> Verdict {
        let value = match &answer {
            None => 0.0,
            Some(answer) if rule.holds(answer, scene.golds) => 1.0,
            Some(_) => self.wrong,
        };
        Verdict::of(value, answer)
    }
}

/// A share of common words, the best over the accepted answers.
pub(in crate::reward) fn overlap(scene: &Scene<'_>, share: fn(Overlap) -> f64) -> Verdict {
    let answer = scene.last_answer_with_prompt();
    let value = answer.as_deref().map_or(0.0, |answer| share(best_hotpot(answer, scene.golds)));
    Verdict::of(value, answer)
}
