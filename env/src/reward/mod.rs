//! What an episode earns: named terms with weights, from scorers that are pure functions of what the policy wrote.
//!
//! A scorer sees the policy's messages, one by one. What was retrieved is not among them, so no passage can earn or cost
//! anything; `retrieval`, and `search-r1-format` with a `retrieval` of its own, look at observations, and say so. Recipes that
//! score the joined transcript can be had by name (`text = "response"` or `"transcript"`), to show what they pay.

mod normalize;
mod overlap;
mod python;
mod scene;
mod scorer;
pub mod scorers;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::preset::{Preset, Wrong};
use crate::trajectory::Trajectory;
use crate::{Gold, Result};
use scene::{Record, Scene};

pub use normalize::Normalizer;
pub use scorer::{Response, Scorer, Verdict, reference_score};
pub(crate) use scorers::last_box;

/// How a recipe rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RewardRules {
    /// What is looked at.
    #[serde(default)]
    pub text: ScoredText,
    /// Answers that there must be for the last one to count. Recipes that look at the prompt need two, for it holds one.
    #[serde(default = "one")]
    pub minimum_spans: usize,
    /// The terms, whose weighted values are added.
    pub terms: Vec<Term>,
}

/// A part of the reward: `{ scorer = "f1", name = "answer", weight = 0.8 }`. The scorer's own options stand beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Map<String, Value>")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct Term {
    /// What is computed.
    #[serde(flatten)]
    pub scorer: Scorer,
    /// What it is called; the scorer's name where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its value is multiplied with; 1 where it is not given.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub weight: f64,
}

impl TryFrom<Map<String, Value>> for Term {
    type Error = serde_json::Error;

    /// What is no name and no weight is the scorer's, which knows its options and refuses others.
    fn try_from(mut fields: Map<String, Value>) -> Result<Self, Self::Error> {
        let name = fields.remove("name").map(serde_json::from_value).transpose()?;
        let weight = fields.remove("weight").map(serde_json::from_value).transpose()?;
        let scorer = serde_json::from_value(Value::Object(fields))?;
        Ok(Self { scorer, name, weight: weight.unwrap_or(1.0) })
    }
}

/// What a scorer looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScoredText {
    /// Each message of the policy by itself.
    #[default]
    Policy,
    /// Messages and observations, joined. A passage can then forge an answer.
    Response,
    /// Prompt, messages and observations, joined. A passage can then forge an answer.
    Transcript,
}

/// A reward and its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reward {
    /// The weighted sum.
    pub total: f64,
    /// The parts.
    pub terms: Vec<Scored>,
}

/// A part of a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scored {
    /// What it is called.
    pub name: String,
    /// What it is multiplied with.
    pub weight: f64,
    /// The scorer's value.
    pub value: f64,
}

fn one() -> usize {
    1
}

/// Whether the answer equals an accepted one, both under SQuAD's rule.
pub(crate) fn is_exact(answer: &str, golds: &[String]) -> bool {
    scorers::Rule::Equal.holds(answer, golds)
}

/// HotpotQA's F1 of an answer, the best over the accepted ones.
pub(crate) fn answer_f1(answer: &str, golds: &[String]) -> f64 {
    overlap::best_hotpot(answer, golds).f1
}

impl RewardRules {
    /// What this trajectory earns. Answers that the prompt holds count where the recipe looks at the prompt.
    pub fn score(&self, preset: &Preset, gold: &Gold, trajectory: &Trajectory) -> Reward {
        let scene = Scene::of(self, Record { preset, trajectory }, gold.answers());
        let terms = self.terms.iter().map(|term| Scored {
            name: term.name.clone().unwrap_or_else(|| term.scorer.name().to_owned()),
            weight: term.weight,
            value: term.scorer.verdict(&scene).value,
        });
        let terms: Vec<Scored> = terms.collect();
        Reward { total: terms.iter().map(|term| term.weight * term.value).sum(), terms }
    }

    pub(crate) fn check(&self) -> Result<(), Wrong> {
        if self.terms.is_empty() {
            return Err(Wrong::new("reward.terms", "at least one term", "[]"));
        }
        if let Some(term) = self.terms.iter().find(|term| !(-1e6..=1e6).contains(&term.weight)) {
            let expected = "weights between -1,000,000 and 1,000,000";
            return Err(Wrong::new("reward.terms", expected, term.weight.to_string()));
        }
        Ok(())
    }
}
