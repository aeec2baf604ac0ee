//! What can be written into a text store: passages from files, and passages of indexes.

use hindsearch_indexes::Progress;

use crate::{Passage, Result};

/// A stream of passages that can say where each came from. After an error it ends.
pub trait Source: Iterator<Item = Result<Passage>> {
    /// Where a passage that was given came from, counted from 0, for messages.
    fn locate(&self, row: u64) -> String;

    /// How far reading is, in bytes of the input.
    fn progress(&self) -> Progress;
}
