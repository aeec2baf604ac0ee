//! What an episode earns: named terms with weights, from scorers that are pure functions of what the policy wrote.
//!
//! A scorer sees the policy's messages, one by one. What was retrieved is not among them, so no passage can earn or cost
//! anything. Recipes that score the joined transcript can be had by name (`text = "response"` or `"transcript"`), to show what
//! they pay.

mod answer;
mod exact;
mod normalize;
mod scorer;

use serde::{Deserialize, Serialize};

use crate::preset::Grammar;
use crate::trajectory::{Author, Trajectory};
use crate::{Error, Gold, Result};

pub use scorer::Scorer;

/// How a recipe rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// A part of the reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// What is computed.
    pub scorer: Scorer,
    /// What it is called; the scorer's name where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its value is multiplied with.
    #[serde(default = "full")]
    pub weight: f64,
}

/// What a scorer looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a scorer is given.
pub(crate) struct Scene<'a> {
    /// Texts in which answers are looked for, in order; none goes on in the next.
    pub texts: Vec<String>,
    pub minimum_spans: usize,
    pub gold: &'a Gold,
    pub grammar: &'a Grammar,
    pub trajectory: &'a Trajectory,
}

fn one() -> usize {
    1
}

fn full() -> f64 {
    1.0
}

impl RewardRules {
    /// What this trajectory earns. Answers that the prompt holds count where the recipe looks at the prompt.
    pub fn score(&self, grammar: &Grammar, gold: &Gold, trajectory: &Trajectory) -> Reward {
        let joined = |with_prompt: bool| {
            let spans = trajectory.spans.iter().filter(|span| with_prompt || span.author != Author::Prompt);
            vec![spans.map(|span| span.text.as_str()).collect()]
        };
        let texts = match self.text {
            ScoredText::Policy => trajectory.policy_texts().map(str::to_owned).collect(),
            ScoredText::Response => joined(false),
            ScoredText::Transcript => joined(true),
        };
        let scene = Scene { texts, minimum_spans: self.minimum_spans, gold, grammar, trajectory };
        let terms = self.terms.iter().map(|term| Scored {
            name: term.name.clone().unwrap_or_else(|| term.scorer.name().to_owned()),
            weight: term.weight,
            value: term.scorer.value(&scene),
        });
        let terms: Vec<Scored> = terms.collect();
        Reward { total: terms.iter().map(|term| term.weight * term.value).sum(), terms }
    }

    pub(crate) fn check(&self, what: &str) -> Result<()> {
        let refuse = |field: &str, expected: &str, found: String| {
            Err(Error::invalid(format!("{what}, `reward.{field}`"), expected, format!("`{found}`")))
        };
        if self.terms.is_empty() {
            return refuse("terms", "at least one term", "[]".into());
        }
        if let Some(term) = self.terms.iter().find(|term| !term.weight.is_finite()) {
            return refuse("terms", "finite weights", term.weight.to_string());
        }
        Ok(())
    }
}
