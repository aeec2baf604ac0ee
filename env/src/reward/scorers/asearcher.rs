//! ASearcher: F1 of sets of words, with a way for Chinese, times the form of every turn.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::reward::normalize::{Normalizer, squad, truth_value};
use crate::reward::python::{is_common_chinese, is_digit};
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// ASearcher's reward (`AReaL/ASearcher/utils/search_tool.py`, `rewards.py`): the last message's answer, if the form of all
/// messages is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Asearcher {
    /// How the answer is compared (`reward_type`).
    pub measure: AsearcherMeasure,
    /// Other accepted answers (`aug_answer`). With any of them, the value is 0.7 times that of the accepted ones and 0.3 times
    /// the better of both. They belong to one task, so a preset has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub augmented: Vec<String>,
    /// Whether a message in a bad form takes everything.
    pub format: bool,
    /// Whether an answer that finds fault with the question costs half a point.
    pub refusal: bool,
}

/// How ASearcher compares answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AsearcherMeasure {
    /// F1 of sets of words; of characters, where the accepted answer is Chinese.
    #[default]
    F1,
    /// Equality.
    Em,
    /// Whether the answer has every word of the accepted one.
    CoverEm,
}

impl Default for Asearcher {
    fn default() -> Self {
        Self { measure: AsearcherMeasure::F1, augmented: Vec::new(), format: true, refusal: false }
    }
}

impl Asearcher {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let answer = scene.last_answer_of_last_text();
        let Some(found) = answer.as_deref() else { return Verdict::default() };
        let is_refusal = ["question", "invalid", "appropriate", "valid"].iter().any(|word| found.contains(word));
        if self.refusal && is_refusal {
            return Verdict::of(-0.5, answer);
        }
        let mut value = scene.best(|gold| self.measure.value(found, gold));
        if !self.augmented.is_empty() {
            let augmented = self.augmented.iter().map(|gold| self.measure.value(found, gold)).fold(0.0, f64::max);
            value = value * 0.7 + augmented.max(value) * 0.3;
        }
        let is_good = !self.format || scene.texts().all(is_well_formed);
        Verdict::of(if is_good { value } else { 0.0 }, answer)
    }
}

impl AsearcherMeasure {
    fn value(self, answer: &str, gold: &str) -> f64 {
        let (answer, gold) = (truth_value(answer), truth_value(gold));
        match self {
            Self::Em => f64::from(u8::from(squad(answer) == squad(gold))),
            Self::CoverEm => {
                let (answer, gold) = (squad(answer), squad(gold));
                let has = |word: &str| answer.split(' ').any(|other| other == word);
                f64::from(u8::from(gold.split(' ').all(has)))
            }
            Self::F1 => f1(&Normalizer::Asearcher.apply(answer), &Normalizer::Asearcher.apply(gold)),
        }
    }
}

/// Whether a message has at most one action, closes what it opens, and plays nobody else.
fn is_well_formed(message: &str) -> bool {
    let count = |tag: &str| message.matches(tag).count();
    let actions = ["search", "access", "answer"].map(|tag| (count(&format!("<{tag}>")), count(&format!("</{tag}>"))));
    actions.iter().all(|(opened, closed)| opened == closed)
        && actions.iter().map(|(opened, _)| opened).sum::<usize>() <= 1
        && !["Assistant", "assistant"].iter().any(|word| message.contains(word))
        && count("</think>") <= 1
}

fn f1(answer: &str, gold: &str) -> f64 {
    let units: fn(&str) -> BTreeSet<String> = if gold.contains(is_chinese) { characters } else { set_of_words };
    let (answer, gold) = (units(answer), units(gold));
    let common = answer.intersection(&gold).count() as f64;
    if common == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (common / answer.len() as f64, common / gold.len() as f64);
    // The brackets stand elsewhere than in HotpotQA's.
    2.0 * (precision * recall) / (precision + recall)
}

fn is_chinese(c: char) -> bool {
    is_common_chinese(c) || ('\u{3400}'..='\u{4dbf}').contains(&c) || ('\u{f900}'..='\u{faff}').contains(&c)
}

fn set_of_words(text: &str) -> BTreeSet<String> {
    crate::text::words(text).map(str::to_owned).collect()
}

/// Characters one by one, and numbers as a whole. Only ASCII digits are numbers and nothing else.
fn characters(text: &str) -> BTreeSet<String> {
    let single = text.chars().filter(|c| !"0123456789，。 ,.-".contains(*c)).map(String::from);
    let numbers = text.split(|c| !is_digit(c)).filter(|number| !number.is_empty()).map(str::to_owned);
    single.chain(numbers).collect()
}
