//! Tinker's search recipe: the last message says `Answer:` once.

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;
use crate::text::strip;

/// Tinker's reward (`tinker_cookbook/recipes/search_tool/tools.py`): 1 for a right answer, less `format` without one in the form
/// that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tinker {
    /// What a message that does not say `Answer:` exactly once loses.
    pub format: f64,
}

impl Default for Tinker {
    fn default() -> Self {
        Self { format: 0.1 }
    }
}

impl Tinker {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let Some(last) = scene.texts().next_back() else { return Verdict::default() };
        match last.split("Answer:").collect::<Vec<_>>()[..] {
            [_, answer] => {
                let answer = strip(answer);
                Verdict::of(Rule::Equal.value(answer, scene.golds), Some(answer.to_owned()))
            }
            _ => Verdict::of(-self.format, None),
        }
    }
}
