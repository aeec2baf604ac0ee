//! The record of an episode: who wrote which tokens, what was done, and what came of it. The record is also the episode's whole
//! state: from any prefix of it the rules go on as they would have.

use serde::{Deserialize, Serialize};

use crate::reward::Reward;

/// The version of the format of a trajectory.
pub const TRAJECTORY_VERSION: u32 = 1;

/// Who wrote a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// The instructions and the question.
    Prompt,
    /// The language model that is trained or tested.
    Policy,
    /// Observations: retrieved passages, replies to invalid actions.
    Environment,
}

/// In which message of a chat a span stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// The question; in some recipes observations, too.
    User,
    /// What the policy writes; in recipes of running text observations, too.
    Assistant,
    /// The result of a tool.
    Tool,
}

/// A run of tokens by one author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Who wrote it.
    pub author: Author,
    /// In which message it stands.
    pub role: Role,
    /// The text.
    pub text: String,
    /// Token ids; those of the policy exactly as sampled, never re-tokenised. Empty where only text is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<u32>,
    /// Natural log-probability of each sampled token under the policy that sampled it; empty for other authors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// Where each token ends in `text`, in bytes; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<usize>,
}

/// Bytes of a span's text, from the first to behind the last.
pub type Bytes = std::ops::Range<usize>;

/// What the policy did in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Action {
    /// It asked for passages.
    Search {
        /// Its queries.
        queries: Vec<String>,
    },
    /// It answered.
    Answer {
        /// The answer.
        text: String,
    },
    /// It ended the episode without an answer in the form that was asked for.
    End,
    /// Nothing that the recipe knows.
    Invalid {
        /// Why not.
        reason: String,
    },
}

/// A passage as it stood in a ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The passage's id.
    pub id: String,
    /// Its row in the corpus.
    pub row: u64,
    /// Its score.
    pub score: f32,
    /// Whether the policy was shown it, whole or in part.
    pub shown: bool,
}

/// A message of the policy and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The policy's span.
    pub span: usize,
    /// What was done.
    pub action: Action,
    /// Where the query or the answer stands in the span's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Bytes>,
    /// Whether the message was cut off by its limit of tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// The passages for each query; nothing before they are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<Vec<Found>>>,
    /// The environment's span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<usize>,
    /// Whether passages were left out or shortened for lack of room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Why an episode is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The policy answered.
    Answer,
    /// The policy asked for nothing more and did not answer in the form that was asked for.
    End,
    /// No turn was left.
    Turns,
    /// The context was full.
    Context,
}

/// One play of one task, as spans in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trajectory {
    /// The version of this format.
    pub version: u32,
    /// The task's id.
    pub task: String,
    /// Which of the task's plays this is, from 0.
    pub sample: u32,
    /// The data set of the task.
    pub source: String,
    /// What was asked.
    pub question: String,
    /// The recipe.
    pub preset: String,
    /// What was written.
    pub spans: Vec<Span>,
    /// What was done.
    pub turns: Vec<Turn>,
    /// Why it is over; nothing while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// What kept it from being played to its end. Such a trajectory has no reward and belongs to no group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it earned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<Reward>,
    /// A critique in hindsight, by a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critique: Option<String>,
}

impl Trajectory {
    /// One value a token, in order: true exactly where the policy wrote the token.
    ///
    /// It comes from the spans' authors, never from looking at text or at padding, so nothing that a passage contains
    /// can change it.
    pub fn policy_mask(&self) -> Vec<bool> {
        let mask = |span: &Span| std::iter::repeat_n(span.author == Author::Policy, span.tokens.len());
        self.spans.iter().flat_map(mask).collect()
    }

    /// All token ids in order.
    pub fn tokens(&self) -> Vec<u32> {
        self.spans.iter().flat_map(|span| span.tokens.iter().copied()).collect()
    }

    /// The episode as a chat: spans of one role that follow each other are one message.
    pub fn messages(&self) -> Vec<(Role, String)> {
        let mut messages: Vec<(Role, String)> = Vec::new();
        for span in &self.spans {
            match messages.last_mut() {
                Some((role, text)) if *role == span.role => text.push_str(&span.text),
                _ => messages.push((span.role, span.text.clone())),
            }
        }
        messages
    }

    /// The queries that wait for their passages.
    pub fn pending(&self) -> Option<&[String]> {
        match self.turns.last() {
            Some(Turn { action: Action::Search { queries }, found: None, .. }) if self.stop.is_none() => Some(queries),
            _ => None,
        }
    }

    /// Searches that were answered.
    pub fn searches(&self) -> usize {
        self.turns.iter().filter(|turn| turn.found.is_some()).count()
    }

    /// The messages of the policy, in order.
    pub fn policy_texts(&self) -> impl Iterator<Item = &str> {
        self.spans.iter().filter(|span| span.author == Author::Policy).map(|span| span.text.as_str())
    }
}

impl Turn {
    /// Whether passages were asked for and searched.
    pub fn is_search(&self) -> bool {
        matches!(self.action, Action::Search { .. }) && self.found.is_some()
    }
}
