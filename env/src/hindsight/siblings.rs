//! What did the other attempts at a question search for, and what came of it (SD-Search)?

use serde::{Deserialize, Serialize};

use super::Hint;
use super::outcome::{f1, is_over};
use super::transcript::{answer_line, documents, queries, thought};
use crate::tasks::shuffled;
use crate::{Error, Result, Task, Trajectory};

/// The attempts at one task, and whose teacher asks.
#[derive(Debug, Clone, Copy)]
pub struct Siblings<'a> {
    /// The task.
    pub task: &'a Task,
    /// All attempts at it, in the order of their samples. Those that something outside kept from their end are passed over.
    pub attempts: &'a [&'a Trajectory],
    /// The place of the teacher's own attempt.
    pub own: usize,
}

/// What a block of siblings says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SiblingOptions {
    /// Whether queries and verdicts are all that is told. Off, thoughts, documents and answers are told, too.
    pub future_masking: bool,
    /// What the block is made of.
    pub content: Content,
    /// Whether verdicts are told, and whether they are true.
    pub labels: Labels,
    /// Which attempts are told.
    pub which: Which,
    /// An attempt is correct where its answer's F1 is above this.
    pub rho: f64,
    /// Whether a query that an attempt asked more than once is told once.
    pub merge: bool,
    /// Whether the attempts stand in an order by chance.
    pub shuffle: bool,
}

impl SiblingOptions {
    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a `rho` that no F1 is on both sides of.
    pub fn check(&self) -> Result<()> {
        if (0.0..1.0).contains(&self.rho) {
            return Ok(());
        }
        Err(Error::invalid("`rho` of siblings", "0 or more, and less than 1", self.rho.to_string()))
    }
}

impl Default for SiblingOptions {
    fn default() -> Self {
        Self {
            future_masking: true,
            content: Content::Siblings,
            labels: Labels::True,
            which: Which::All,
            rho: 0.0,
            merge: false,
            shuffle: false,
        }
    }
}

/// What a block is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// The attempts at the task.
    #[default]
    Siblings,
    /// In their place the documents that the own attempt's searches returned, step by step.
    StepDocuments,
}

/// What verdicts a block tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Labels {
    /// Those of the attempts.
    #[default]
    True,
    /// None.
    None,
    /// Those of the attempts, given to attempts by chance: as many of each.
    Shuffled,
}

/// Which attempts a block tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// All, the own one among them.
    #[default]
    All,
    /// The correct ones.
    CorrectOnly,
    /// The own one.
    OwnOnly,
    /// All but the own one.
    LeaveOneOut,
}

const HEADER: &str = "Attempts at this question that were made before, with what they searched for";
const CLOSING: &str = "Use this only as guidance for what to search.\n";

impl Siblings<'_> {
    /// Whether each attempt's answer is correct: its F1 is above `rho`.
    pub fn labels(&self, rho: f64) -> Vec<bool> {
        self.attempts.iter().map(|attempt| is_over(attempt) && f1(self.task, attempt) > rho).collect()
    }

    /// The block of these siblings, a piece an attempt; nothing where no attempt is told. What is by chance depends on the seed alone.
    pub fn block(&self, options: &SiblingOptions, seed: u64) -> Option<Hint> {
        if options.content == Content::StepDocuments {
            return self.step_documents();
        }
        let mut told: Vec<(usize, bool)> = self.labels(options.rho).into_iter().enumerate().collect();
        told.retain(|(number, label)| {
            is_over(self.attempts[*number])
                && match options.which {
                    Which::All => true,
                    Which::CorrectOnly => *label,
                    Which::OwnOnly => *number == self.own,
                    Which::LeaveOneOut => *number != self.own,
                }
        });
        if options.labels == Labels::Shuffled {
            let labels: Vec<bool> = shuffled(seed, 0, told.len()).into_iter().map(|at| told[at].1).collect();
            told.iter_mut().zip(labels).for_each(|(one, label)| one.1 = label);
        }
        if options.shuffle {
            told = shuffled(seed, 1, told.len()).into_iter().map(|at| told[at]).collect();
        }
        let pieces: Vec<String> =
            told.into_iter().map(|(number, label)| self.attempt(options, number, label)).collect();
        let verdicts = if options.labels == Labels::None { "" } else { " and whether the answer was right" };
        (!pieces.is_empty()).then(|| Hint::new(format!("{HEADER}{verdicts}:\n"), pieces, CLOSING))
    }

    fn attempt(&self, options: &SiblingOptions, number: usize, label: bool) -> String {
        let verdict = match (options.labels, label) {
            (Labels::None, _) => "",
            (_, true) => " CORRECT",
            (_, false) => " INCORRECT",
        };
        let head = format!("Attempt {}:{verdict}", number + 1);
        let lines = self.lines(options, self.attempts[number], true);
        std::iter::once(head).chain(lines).map(|line| line + "\n").collect()
    }

    /// An attempt line by line: its queries, and what `options` tells beside.
    pub(super) fn lines(&self, options: &SiblingOptions, attempt: &Trajectory, thoughts: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let mut asked: Vec<String> = Vec::new();
        for turn in &attempt.turns {
            if !options.future_masking && thoughts {
                lines.extend(thought(attempt, turn).map(|thought| format!("  thought: {thought}")));
            }
            for query in queries(turn) {
                if !(options.merge && asked.contains(&query)) {
                    lines.push(format!("  search: {query}"));
                    asked.push(query);
                }
            }
            if !options.future_masking {
                lines.extend(documents(attempt, turn).into_iter().map(|document| format!("  found: {document}")));
            }
        }
        if asked.is_empty() {
            lines.push("  (no search)".into());
        }
        if !options.future_masking {
            lines.extend(answer_line(attempt).map(|answer| format!("  answer: {answer}")));
        }
        lines
    }

    /// What the own attempt's searches returned, a piece a search.
    fn step_documents(&self) -> Option<Hint> {
        let own = self.attempts.get(self.own)?;
        let searches = own.turns.iter().filter(|turn| turn.is_search());
        let piece = |(number, turn)| {
            let found = documents(own, turn).into_iter().map(|document| format!("  found: {document}\n"));
            format!("Search {number}:\n{}", found.collect::<String>())
        };
        let pieces: Vec<String> = (1..).zip(searches).map(piece).collect();
        (!pieces.is_empty()).then(|| Hint::new("What searches for this question will return:\n", pieces, CLOSING))
    }
}
