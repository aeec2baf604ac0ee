//! R1-Searcher's evaluation: equality, two kinds of cover match, F1; under a normalisation of its own.

use serde::{Deserialize, Serialize};

use crate::reward::normalize::{Normalizer, truth_value};
use crate::reward::overlap::{Overlap, hotpot};
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// R1-Searcher's metrics (`evaluation/metric_calc_rule.py`) of the last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct R1SearcherEvaluation {
    /// What is computed.
    pub measure: R1SearcherMeasure,
}

/// R1-Searcher's metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum R1SearcherMeasure {
    /// Equality.
    Em,
    /// Whether the answer has every word of an accepted one (`cover_em_1`).
    #[default]
    CoverWords,
    /// Whether an accepted answer is part of the answer (`cover_em_2`).
    CoverPhrase,
    /// F1 of words.
    F1,
    /// The precision of the accepted answer with the best F1.
    Precision,
    /// The recall of the accepted answer with the best F1.
    Recall,
}

impl R1SearcherEvaluation {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let answer = scene.last_answer_with_prompt();
        Verdict::of(answer.as_deref().map_or(0.0, |answer| self.value(answer, scene)), answer)
    }

    fn value(self, answer: &str, scene: &Scene<'_>) -> f64 {
        let any = |holds: fn(&str, &str) -> bool| scene.best(|gold| f64::from(u8::from(holds(answer, gold))));
        let best = || {
            let overlaps = scene.golds.iter().map(|gold| f1(answer, gold));
            // Of equals the first.
            overlaps.reduce(|best, one| if one.f1 > best.f1 { one } else { best }).unwrap_or_default()
        };
        match self.measure {
            R1SearcherMeasure::Em => any(|answer, gold| normal(answer) == normal(gold)),
            R1SearcherMeasure::CoverWords => any(has_all_words),
            // A run of its words is a part of its text.
            R1SearcherMeasure::CoverPhrase => any(|answer, gold| normal(answer).contains(&normal(gold))),
            R1SearcherMeasure::F1 => best().f1,
            R1SearcherMeasure::Precision => best().precision,
            R1SearcherMeasure::Recall => best().recall,
        }
    }
}

fn normal(answer: &str) -> String {
    Normalizer::R1Searcher.apply(truth_value(answer))
}

/// HotpotQA's F1 under R1-Searcher's normalisation.
pub(super) fn f1(answer: &str, gold: &str) -> Overlap {
    hotpot(&normal(answer), &normal(gold))
}

/// Whether the answer has every word of an accepted one. An empty one has one word, which is empty.
pub(super) fn has_all_words(answer: &str, gold: &str) -> bool {
    let (answer, gold) = (normal(answer), normal(gold));
    gold.split(' ').all(|word| answer.split(' ').any(|other| other == word))
}
