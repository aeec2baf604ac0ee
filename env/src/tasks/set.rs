//! How are tasks chosen, and do training and evaluation share questions?

use std::collections::{HashMap, HashSet};

use super::mix::Deck;
use crate::Task;

/// Tasks in order, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskSet {
    tasks: Vec<Task>,
    duplicates: Vec<Task>,
}

impl TaskSet {
    /// A set of these tasks. Of tasks with the same id the first is kept.
    pub fn new(tasks: impl IntoIterator<Item = Task>) -> Self {
        let mut seen = HashSet::new();
        let (tasks, duplicates) = tasks.into_iter().partition(|task| seen.insert(task.id().to_owned()));
        Self { tasks, duplicates }
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks that were left out because one with the same id was there.
    pub fn duplicates(&self) -> &[Task] {
        &self.duplicates
    }

    /// The tasks for which `keep` is true: `set.filter(|task| task.source() == "nq")`.
    #[must_use]
    pub fn filter(mut self, keep: impl FnMut(&Task) -> bool) -> Self {
        self.tasks.retain(keep);
        self
    }

    /// The first `count` tasks.
    #[must_use]
    pub fn take(mut self, count: usize) -> Self {
        self.tasks.truncate(count);
        self
    }

    /// `count` tasks in an order by chance, or all where there are fewer; the same for a seed on every machine.
    #[must_use]
    pub fn sample(mut self, seed: u64, count: usize) -> Self {
        let mut deck = Deck::new(self.tasks.len(), seed, 0);
        let chosen = (0..count.min(self.tasks.len())).filter_map(|_| Some(self.tasks[deck.draw()?].clone()));
        self.tasks = chosen.collect();
        self
    }

    /// The tasks whose question is also asked in `evaluation`, each with the first task there that asks it: what a training set
    /// must not hold. Questions are the same when they differ in nothing but case, punctuation and spaces.
    pub fn overlap<'a>(&'a self, evaluation: &'a Self) -> Vec<(&'a Task, &'a Task)> {
        let mut asked = HashMap::new();
        for task in &evaluation.tasks {
            asked.entry(plain(task.question())).or_insert(task);
        }
        let pairs = self.tasks.iter().filter_map(|task| Some((task, *asked.get(&plain(task.question()))?)));
        pairs.collect()
    }
}

/// A question's letters and digits, in lower case, as words with single blanks.
fn plain(question: &str) -> String {
    let lower = question.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
