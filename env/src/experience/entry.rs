//! What is one piece of experience?

use serde::{Deserialize, Serialize};

/// Levels: cases, patterns, strategies.
pub const HIGHEST_LEVEL: u8 = 3;
/// Characters of a title: it is a key, of which models of embeddings read a few hundred tokens.
pub(super) const LONGEST_TITLE: usize = 300;
/// Characters of a description, which stands in prompts and observations.
pub(super) const LONGEST_DESCRIPTION: usize = 1200;

/// A piece of experience.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// 1: made from the plays of a task. Higher ones: made from several of the level below.
    pub level: u8,
    /// Which one it is; a hash of its content where this program wrote it.
    pub id: String,
    /// What kind of advice it is, in a word or two.
    #[serde(rename = "type")]
    pub kind: String,
    /// The situation in which it helps: the key, whose vector is compared with questions and queries.
    pub title: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What the policy is told.
    pub description: String,
    /// How it was arrived at. Never shown to a policy.
    pub thinking: String,
    /// Ids of the tasks behind it.
    pub tasks: Vec<String>,
    /// Ids of the entries of the level below behind it.
    pub members: Vec<String>,
    /// Whether plays that succeeded were compared with plays that failed.
    pub contrast: bool,
}

impl Entry {
    /// The same with the id that its content has.
    #[must_use]
    pub fn identified(mut self) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(&[self.level]);
        let parts = [&self.kind, &self.title, &self.description].into_iter().chain(&self.tasks).chain(&self.members);
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        self.id = hash.finalize().to_hex()[..16].to_owned();
        self
    }

    /// Whether nothing but this task is behind it, so that it may hold the task's answer.
    pub fn is_of(&self, task: &str) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(|own| own == task)
    }

    /// What is expected and what is there instead, where it cannot be used.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let bounded = [("title", &self.title, LONGEST_TITLE), ("description", &self.description, LONGEST_DESCRIPTION)];
        if !(1..=HIGHEST_LEVEL).contains(&self.level) {
            return Some(("`level` from 1 to 3", self.level.to_string()));
        }
        if self.id.is_empty() {
            return Some(("`id`, not empty", "an empty one".into()));
        }
        for (name, text, most) in bounded {
            let length = text.chars().count();
            if text.trim().is_empty() || length > most {
                let expected = if name == "title" {
                    "`title` of 1 to 300 characters"
                } else {
                    "`description` of 1 to 1,200 characters"
                };
                return Some((expected, format!("{length}")));
            }
        }
        match (self.level, self.members.is_empty()) {
            (1, false) => Some(("no `members` at level 1", format!("{}", self.members.len()))),
            (2.., true) => Some(("`members` above level 1", "none".into())),
            _ => None,
        }
    }
}
