//! How answers are made comparable: the three rules that the recipes have.

use serde::{Deserialize, Serialize};

use super::python::{is_punctuation, is_word};
use crate::text::words;

/// A rule that makes answers comparable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Normalizer {
    /// SQuAD's, as nearly every recipe has it: lower case, no ASCII punctuation, no articles, single blanks.
    #[default]
    Squad,
    /// R1-Searcher's (`metric_calc_rule.py`): punctuation becomes a blank, and so do `_`, `‘`, `’`, `´` and `` ` ``.
    R1Searcher,
    /// ASearcher's for F1 (`AReaL/ASearcher/utils/rewards.py`): punctuation becomes a blank, articles stay.
    Asearcher,
}

impl Normalizer {
    /// The normalised answer.
    pub fn apply(self, answer: &str) -> String {
        match self {
            Self::Squad => {
                let plain: String = answer.to_lowercase().chars().filter(|&c| !is_punctuation(c)).collect();
                single_blanks(&without_articles(&plain))
            }
            Self::R1Searcher => {
                // `_` goes first, for it may decide whether a sigma before it is a final one.
                let lower = answer.replace('_', " ").to_lowercase();
                let is_gap = |c: char| is_punctuation(c) || ['‘', '’', '´'].contains(&c);
                single_blanks(&without_articles(&lower.replace(is_gap, " ")))
            }
            Self::Asearcher => single_blanks(&answer.replace(is_punctuation, " ")).to_lowercase(),
        }
    }
}

/// SQuAD's rule.
pub(super) fn squad(answer: &str) -> String {
    Normalizer::Squad.apply(answer)
}

/// What R1-Searcher and ASearcher do first: data sets write truth values in two ways.
pub(super) fn truth_value(answer: &str) -> &str {
    match answer {
        "True" => "yes",
        "False" => "no",
        other => other,
    }
}

fn single_blanks(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

/// Python's `re.sub(r"\b(a|an|the)\b", " ", text)`.
fn without_articles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let first = is_word(first);
        let length = rest.find(|c| is_word(c) != first).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        kept.push_str(if ["a", "an", "the"].contains(&run) { " " } else { run });
        rest = after;
    }
    kept
}
