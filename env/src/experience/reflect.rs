//! What did a task's plays teach, and what is common to several lessons? Who writes that is a [`Reflector`].

use std::collections::HashMap;

use super::Entry;
use crate::hindsight::{is_correct, is_over};
use crate::trajectory::Trajectory;
use crate::{Result, Task};

/// The plays of a task, by their outcome.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// The task.
    pub task: &'a Task,
    /// Plays whose answer equals an accepted one (EM, under SQuAD's rule).
    pub won: Vec<&'a Trajectory>,
    /// The others.
    pub lost: Vec<&'a Trajectory>,
}

/// What a reflector writes: the part of an [`Entry`] that is not known before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// What kind of advice it is.
    pub kind: String,
    /// The situation in which it helps.
    pub title: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What the policy is told.
    pub description: String,
    /// How it was arrived at.
    pub thinking: String,
}

/// Writes lessons.
pub trait Reflector: Send + Sync {
    /// Who it is, for the experience file.
    fn name(&self) -> &str;

    /// What each group teaches, in their order; nothing where nothing usable came out. One that fails does not disturb the others.
    fn reflect(&self, groups: &[Group<'_>]) -> Vec<Result<Option<Lesson>>>;

    /// What is common to the entries of each cluster, more general than any of them; in their order.
    fn generalise(&self, clusters: &[Vec<&Entry>]) -> Vec<Result<Option<Lesson>>>;
}

impl<'a> Group<'a> {
    /// The plays by task, in the order in which tasks come first. Plays that something outside kept from their end did neither
    /// succeed nor fail, and are left out.
    pub fn all(plays: impl IntoIterator<Item = (&'a Task, &'a Trajectory)>) -> Vec<Self> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut groups: Vec<Self> = Vec::new();
        for (task, play) in plays.into_iter().filter(|(_, play)| is_over(play)) {
            let place = *places.entry(task.id()).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Self { task, won: Vec::new(), lost: Vec::new() });
            }
            let group = &mut groups[place];
            if is_correct(task, play) { group.won.push(play) } else { group.lost.push(play) }
        }
        for group in &mut groups {
            group.won.sort_by_key(|play| play.sample);
            group.lost.sort_by_key(|play| play.sample);
        }
        groups
    }

    /// Whether success and failure can be compared.
    pub fn has_contrast(&self) -> bool {
        !self.won.is_empty() && !self.lost.is_empty()
    }
}
