//! rLLM: an answer guessed from running text, and F1 where that is enough.

mod guess;
mod patterns;

use serde::{Deserialize, Serialize};

use crate::reward::normalize::squad;
use crate::reward::overlap::hotpot;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;
use crate::text::strip;

/// rLLM's reward (`rllm/rewards/search_reward.py`): 1 for an equal answer, F1 from a threshold on, else 0. The answer is looked
/// for in the last message: a box, bold words, dates, names, numbers, phrases, sentences, whatever is there first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Rllm {
    /// The least F1 that earns something.
    pub threshold: f64,
}

impl Default for Rllm {
    fn default() -> Self {
        Self { threshold: 0.3 }
    }
}

impl Rllm {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let last = scene.texts().next_back().filter(|_| !scene.golds.is_empty());
        let Some(last) = last else { return Verdict::default() };
        let answer = guess::answer(last);
        let normal = squad(&answer);
        let best = scene.best(|gold| {
            let gold = squad(strip(gold));
            if normal == gold { 1.0 } else { hotpot(&normal, &gold).f1 }
        });
        Verdict::of(if best >= self.threshold { best } else { 0.0 }, Some(answer))
    }
}
