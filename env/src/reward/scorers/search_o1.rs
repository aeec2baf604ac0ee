//! Search-o1's evaluation: the last box, compared by equality, containment or F1.

use serde::{Deserialize, Serialize};

use crate::reward::normalize::squad;
use crate::reward::overlap::common_words;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// Search-o1's evaluation of questions and answers (`scripts/evaluate.py`). An answer without a word in common earns nothing by
/// any measure, even where it is equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SearchO1 {
    /// What is computed.
    pub measure: SearchO1Measure,
}

/// What Search-o1 computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SearchO1Measure {
    /// F1 of words, without a rule for yes and no.
    #[default]
    F1,
    /// Equality.
    Em,
    /// Whether an accepted answer is part of it (`acc`).
    SubEm,
}

impl SearchO1 {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let boxed = scene.texts().rev().find_map(|text| last_in_a_line(text, "\\boxed{")).unwrap_or_default();
        let inside = last_in_a_line(boxed, "\\text{").unwrap_or(boxed);
        let answer = inside.trim_matches(['(', ')']);
        let normal = squad(answer);
        let value = scene.best(|gold| {
            let gold = squad(gold);
            let holds = |is_so: bool| f64::from(u8::from(is_so));
            common_words(&normal, &gold).map_or(0.0, |overlap| match self.measure {
                SearchO1Measure::F1 => overlap.f1,
                SearchO1Measure::Em => holds(normal == gold),
                SearchO1Measure::SubEm => holds(normal.contains(&gold)),
            })
        });
        Verdict::of(value, Some(answer.to_owned()))
    }
}

/// In the last line that has it: from behind the first `open` to the last brace.
fn last_in_a_line<'a>(text: &'a str, open: &str) -> Option<&'a str> {
    let in_line = |line: &'a str| Some(line.split_once(open)?.1.rsplit_once('}')?.0);
    text.rsplit('\n').find_map(in_line)
}
