//! From what a kernel found in a run of blocks to the candidates of the queries.

use std::ops::Range;

use super::candidates::Candidates;
use super::kernel::{BLOCK, Estimates, Sink};

/// The candidates of some queries among those of all.
pub struct Gather<'a> {
    all: &'a mut [Candidates],
    /// Which queries the kernel has.
    queries: &'a [usize],
    /// The slot of the first row of the run's first block.
    first: u64,
    /// The slots that count.
    valid: Range<u64>,
    /// Whether the row in a slot can be found; all can where there is nothing.
    is_live: Option<&'a dyn Fn(u32) -> bool>,
}

impl<'a> Gather<'a> {
    /// Collects for `queries` among `all`.
    pub fn new(all: &'a mut [Candidates], queries: &'a [usize]) -> Self {
        Self { all, queries, first: 0, valid: 0..0, is_live: None }
    }

    /// Passes over slots that are not live.
    pub fn of_live(self, is_live: Option<&'a dyn Fn(u32) -> bool>) -> Self {
        Self { is_live, ..self }
    }

    /// Tells which slots the next run has: its first block begins with slot `first`, and those in `valid` count.
    pub fn enter(&mut self, first: u64, valid: Range<u64>) {
        (self.first, self.valid) = (first, valid);
    }
}

impl Sink for Gather<'_> {
    #[inline]
    fn threshold(&self, query: usize) -> f32 {
        self.all[self.queries[query]].threshold()
    }

    #[inline]
    fn take(&mut self, query: usize, block: usize, mut passed: u64, estimates: &Estimates) {
        let start = self.first + (block * BLOCK) as u64;
        let candidates = &mut self.all[self.queries[query]];
        while passed != 0 {
            let lane = passed.trailing_zeros();
            passed &= passed - 1;
            let (slot, estimate) = (start + u64::from(lane), estimates[lane as usize]);
            // The threshold may have risen since the kernel looked.
            if self.valid.contains(&slot)
                && estimate >= candidates.threshold()
                && self.is_live.is_none_or(|is_live| is_live(slot as u32))
            {
                candidates.push(estimate, slot as u32);
            }
        }
    }
}
