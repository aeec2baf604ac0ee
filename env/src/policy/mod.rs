//! Who plays: anything that writes the next message of an episode.

mod baseline;
#[cfg(feature = "remote")]
mod openai;
mod scripted;

use crate::rules::{Message, Rules};
use crate::{Result, Trajectory};

pub use baseline::{Guesser, Oracle};
#[cfg(feature = "remote")]
pub use openai::{ChatServer, ChatServerOptions};
pub use scripted::{Recorded, Scripted};

/// An episode that wants a message.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// What was said so far.
    pub episode: &'a Trajectory,
    /// Limits, tags and strings that end a message.
    pub rules: &'a Rules,
    /// The seed for this message: it depends on the run's seed, the task, the play and the turn, and on nothing else, so that
    /// it is the same whoever else plays at the time.
    pub seed: u64,
}

/// Writes messages, of many episodes at a time where it likes.
pub trait Policy: Send + Sync {
    /// The next message of each episode, in their order. A message that fails does not disturb the others.
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>>;

    /// Episodes that it takes at a time.
    fn batch(&self) -> usize {
        1
    }

    /// Callers that it serves at a time.
    fn callers(&self) -> usize {
        1
    }
}
