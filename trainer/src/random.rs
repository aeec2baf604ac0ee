//! Where do random numbers come from, so that a resumed run draws the same ones?
//!
//! There is no generator that lives on. Each use makes one from its position in the run, so nothing has to be saved, and the
//! order in which threads come by changes nothing.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Keeps these streams apart from every other use of BLAKE3.
const CONTEXT: &str = "hindsearch-trainer random stream, version 1";

/// A place in a run at which random numbers are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position<'a> {
    /// The run's seed.
    pub seed: u64,
    /// What the numbers are for: `tasks`, `sampling`, `initialization`.
    pub purpose: &'a str,
    /// Updates made before.
    pub update: u64,
    /// The task's id; empty where there is none.
    pub task: &'a str,
    /// Which of the task's rollouts.
    pub sample: u64,
}

impl Position<'_> {
    /// A number of this position, for those who make streams of their own from it.
    pub fn number(&self) -> u64 {
        rand::Rng::next_u64(&mut self.stream())
    }

    /// The generator of this position, at its start. Other positions have generators of their own, unrelated to it.
    pub fn stream(&self) -> ChaCha8Rng {
        let mut hash = blake3::Hasher::new_derive_key(CONTEXT);
        for number in [self.seed, self.update, self.sample] {
            hash.update(&number.to_le_bytes());
        }
        for text in [self.purpose, self.task] {
            // With its length, so that no two pairs of texts look alike.
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        ChaCha8Rng::from_seed(*hash.finalize().as_bytes())
    }
}
