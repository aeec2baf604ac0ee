//! What the embedding cost so far.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sums since the embedder was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbedStats {
    /// Texts embedded.
    pub texts: u64,
    /// Tokens of those texts, special tokens included.
    pub tokens: u64,
    /// Tokens that went through the model, padding included.
    pub padded_tokens: u64,
    /// Texts that were longer than the limit and lost their end.
    pub truncated: u64,
    /// Runs of the model.
    pub batches: u64,
    /// Processor time of the workers. rten computes on threads of its own, which are not counted.
    pub cpu: Duration,
    /// Time during which at least one call was under way.
    pub wall: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sums: EmbedStats,
    under_way: usize,
    since: Option<Instant>,
}

impl Meter {
    pub(super) fn add(&self, change: impl FnOnce(&mut EmbedStats)) {
        change(&mut self.lock().sums);
    }

    pub(super) fn begin(&self) {
        let mut inner = self.lock();
        inner.under_way += 1;
        inner.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn end(&self) {
        let mut inner = self.lock();
        inner.under_way -= 1;
        if inner.under_way == 0 {
            let elapsed = inner.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            inner.sums.wall += elapsed;
        }
    }

    pub(super) fn snapshot(&self) -> EmbedStats {
        let inner = self.lock();
        let wall = inner.sums.wall + inner.since.map_or(Duration::ZERO, |since| since.elapsed());
        EmbedStats { wall, ..inner.sums }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
