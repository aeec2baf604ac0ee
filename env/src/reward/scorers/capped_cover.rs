//! Does the answer hold an accepted one, and little else? A cover match without a cap pays for listing every answer there is.

use serde::{Deserialize, Serialize};

use crate::reward::normalize::squad;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// 1 where the words of an accepted answer follow each other in the last answer, which has at most some words more; both
/// normalised by SQuAD's rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CappedCover {
    /// Words that the answer may have beside the accepted ones.
    pub more_words: usize,
}

impl Default for CappedCover {
    fn default() -> Self {
        Self { more_words: 5 }
    }
}

impl CappedCover {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let answer = scene.last_answer_with_prompt();
        let value = answer.as_deref().map_or(0.0, |answer| scene.best(|gold| self.covers(answer, gold)));
        Verdict::of(value, answer)
    }

    fn covers(&self, answer: &str, gold: &str) -> f64 {
        let (answer, gold) = (squad(answer), squad(gold));
        if gold.is_empty() || answer.is_empty() {
            return f64::from(u8::from(answer == gold));
        }
        let (answer, gold): (Vec<&str>, Vec<&str>) = (answer.split(' ').collect(), gold.split(' ').collect());
        let fits = answer.len() <= gold.len().saturating_add(self.more_words);
        f64::from(u8::from(fits && answer.windows(gold.len()).any(|run| run == gold)))
    }
}
