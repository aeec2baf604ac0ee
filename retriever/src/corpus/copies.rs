//! The passages of indexes, to be written into another one.

use std::path::PathBuf;

use hindsearch_indexes::Progress;

use super::source::Source;
use super::whole::Corpus;
use crate::{Passage, Result};

/// The passages of one or more indexes, in order, without the deleted ones.
pub struct Copies<'a> {
    passages: Box<dyn Iterator<Item = Result<Passage>> + 'a>,
    /// Each index, with the number of its first passage among those given.
    indexes: Vec<(PathBuf, u64)>,
    bytes: Progress,
}

impl<'a> Copies<'a> {
    /// Copies of these, each with the folder of its index.
    pub fn new(indexes: impl IntoIterator<Item = (PathBuf, &'a Corpus)>) -> Self {
        let (mut corpora, mut named) = (Vec::new(), Vec::new());
        let (mut first, mut total) = (0, 0);
        for (path, corpus) in indexes {
            named.push((path, first));
            first += corpus.len();
            total += corpus.summary().bytes;
            corpora.push(corpus);
        }
        let scan = |corpus: &'a Corpus| corpus.scan().map(|passage| passage.map(|(_, passage)| passage));
        let passages = Box::new(corpora.into_iter().flat_map(scan));
        Self { passages, indexes: named, bytes: Progress { done: 0, total: Some(total) } }
    }
}

impl Iterator for Copies<'_> {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        let passage = self.passages.next()?;
        if let Ok(passage) = &passage {
            let title = passage.title.as_ref().map_or(0, String::len);
            self.bytes.done += (passage.id.len() + title + passage.text.len()) as u64;
        }
        Some(passage)
    }
}

impl Source for Copies<'_> {
    fn locate(&self, row: u64) -> String {
        match self.indexes.iter().rfind(|(_, first)| *first <= row) {
            Some((path, first)) => format!("passage {} of index `{}`", row - first + 1, path.display()),
            None => format!("row {row}"),
        }
    }

    fn progress(&self) -> Progress {
        self.bytes
    }
}
