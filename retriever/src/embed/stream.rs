//! Embedding without end: windows of texts in, vectors out, in order.

use std::collections::VecDeque;

use hindsearch_indexes::{Interrupt, Vectors};

use super::workers::{Embedded, Pending};
use super::{Embedder, InputKind};
use crate::Result;

/// Windows under way at once: while one is encoded, the next is tokenised, so that no worker waits at the seam.
const UNDER_WAY: usize = 2;

/// The iterator behind [`Embedder::embed_stream`].
pub struct EmbedStream<'a, I> {
    pub(super) embedder: &'a Embedder,
    pub(super) texts: I,
    pub(super) kind: InputKind,
    pub(super) window: usize,
    pub(super) under_way: VecDeque<Pending>,
}

impl<I: Iterator<Item = String>> EmbedStream<'_, I> {
    /// The next window, unless someone asks to stop while it is under way.
    pub fn next_unless(&mut self, interrupt: &Interrupt) -> Option<Result<Embedded>> {
        while self.under_way.len() < UNDER_WAY {
            let texts: Vec<String> = self.texts.by_ref().take(self.window.max(1)).collect();
            if texts.is_empty() {
                break;
            }
            self.under_way.push_back(self.embedder.submit(texts, self.kind));
        }
        Some(self.under_way.pop_front()?.wait_unless(interrupt))
    }
}

impl<I: Iterator<Item = String>> Iterator for EmbedStream<'_, I> {
    type Item = Result<Vectors>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_unless(&Interrupt::new())?.map(|window| window.vectors))
    }
}
