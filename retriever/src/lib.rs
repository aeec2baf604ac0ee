//! Corpus, embedder and index: text in, ranked passages out. See the crate's README for a map.

pub mod embed;
mod error;
mod passage;

pub use error::{Error, Result};
pub use passage::Passage;
