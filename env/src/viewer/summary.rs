//! What a list tells of a trajectory, and the words by which it is found.

use serde::Serialize;

use crate::text::head;
use crate::trajectory::{Action, Author, Stop, Trajectory};

/// Bytes of a text in a list.
const PREVIEW: usize = 300;
/// Bytes of a trajectory's texts that are looked through.
const WORDS: usize = 4 << 10;

/// A trajectory in a line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    /// The line of the file, from 1.
    pub line: u64,
    pub task: String,
    pub sample: u32,
    pub source: String,
    pub preset: String,
    pub question: String,
    /// The last answer.
    pub answer: Option<String>,
    pub stop: Option<Stop>,
    pub error: Option<String>,
    /// The total.
    pub reward: Option<f64>,
    pub turns: usize,
    pub searches: usize,
    /// Tokens that the policy wrote; nothing where only text is known.
    pub tokens: Option<usize>,
    pub critique: bool,
    /// What is looked through: task, source, recipe, question, queries, answers and error, in lower case.
    #[serde(skip)]
    pub words: String,
}

impl Summary {
    pub fn new(line: u64, trajectory: &Trajectory) -> Self {
        let answer = trajectory.turns.iter().rev().find_map(|turn| match &turn.action {
            Action::Answer { text } => Some(short(text)),
            _ => None,
        });
        Self {
            line,
            task: trajectory.task.clone(),
            sample: trajectory.sample,
            source: trajectory.source.clone(),
            preset: trajectory.preset.clone(),
            question: short(&trajectory.question),
            answer,
            stop: trajectory.stop,
            error: trajectory.error.as_deref().map(short),
            reward: trajectory.reward.as_ref().map(|reward| reward.total),
            turns: trajectory.turns.len(),
            searches: trajectory.searches(),
            tokens: policy_tokens(trajectory),
            critique: trajectory.critique.is_some(),
            words: words(trajectory),
        }
    }
}

fn short(text: &str) -> String {
    head(text, PREVIEW).to_owned()
}

fn policy_tokens(trajectory: &Trajectory) -> Option<usize> {
    let mut written = trajectory.spans.iter().filter(|span| span.author == Author::Policy && !span.text.is_empty());
    written.try_fold(0, |sum, span| (!span.tokens.is_empty()).then_some(sum + span.tokens.len()))
}

fn words(trajectory: &Trajectory) -> String {
    let said = trajectory.turns.iter().flat_map(|turn| match &turn.action {
        Action::Search { queries } => queries.iter().map(String::as_str).collect(),
        Action::Answer { text } => vec![text.as_str()],
        Action::End | Action::Invalid { .. } => Vec::new(),
    });
    let named = [&trajectory.task, &trajectory.source, &trajectory.preset, &trajectory.question].map(String::as_str);
    let mut words = String::new();
    for text in named.into_iter().chain(trajectory.error.as_deref()).chain(said) {
        let room = WORDS.saturating_sub(words.len());
        words.extend(head(text, room).chars().flat_map(char::to_lowercase));
        words.push('\n');
    }
    words.shrink_to_fit();
    words
}
