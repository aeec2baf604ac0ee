//! Embedding without end: windows of texts in, vectors out, in order.

use std::collections::VecDeque;

use hindsearch_indexes::{Interrupt, Vectors};

use super::workers::{Embedded, Pending};
use super::{Embedder, InputKind};
use crate::Result;

/// Windows under way at once: while one is encoded, the next is tokenised, so that no worker waits at the seam.
const UNDER_WAY: usize = 2;
/// Bytes of text in a window, but for its last text: texts of a megabyte must not add up to gigabytes.
const WINDOW_BYTES: usize = 8 << 20;

/// The iterator behind [`Embedder::embed_stream`].
pub struct EmbedStream<'a, I> {
    pub(super) embedder: &'a Embedder,
    pub(super) texts: I,
    pub(super) kind: InputKind,
    pub(super) window: usize,
    pub(super) under_way: VecDeque<Pending>,
}

impl<I: Iterator<Item = String>> EmbedStream<'_, I> {
    fn take_window(&mut self) -> Vec<String> {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        while texts.len() < self.window.max(1) && bytes < WINDOW_BYTES {
            let Some(text) = self.texts.next() else { break };
            bytes += text.len();
            texts.push(text);
        }
        texts
    }

    /// The next window, unless someone asks to stop while it is under way.
    pub fn next_unless(&mut self, interrupt: &Interrupt) -> Option<Result<Embedded>> {
        while self.under_way.len() < UNDER_WAY {
            let texts = self.take_window();
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
