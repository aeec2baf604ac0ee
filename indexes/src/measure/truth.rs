//! What would an exact search find, in vectors that need not be in memory together?

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::dot::{self, Panels};
use crate::select::{Selection, TopK};
use crate::workers::run_workers;
use crate::{Hit, Index, Result, SearchParams, Vectors};

use super::{BATCH, TOP_K};

/// Hits kept beyond those compared: rows as good as the last compared one are as right.
const KEPT: usize = 4 * TOP_K;
/// Rows scored together.
const TILE: usize = 48;

/// The exact hits of some queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// By query, best first.
    hits: Vec<Vec<Hit>>,
}

impl Truth {
    /// The truth about an index's rows as it stores them, by an exact index.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn of_index(exact: &dyn Index, queries: &Vectors, threads: usize) -> Result<Self> {
        Ok(Self { hits: exact.search(queries, &SearchParams { threads, ..SearchParams::top(KEPT) })? })
    }

    /// The truth about vectors in `f32`, which `next` writes block after block, row-major, until it writes none.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn of_vectors(
        queries: &Vectors,
        threads: usize,
        mut next: impl FnMut(&mut Vec<f32>) -> Result<()>,
    ) -> Result<Self> {
        let dimensions = queries.dimensions();
        let batches: Vec<_> = queries
            .as_slice()
            .chunks(BATCH * dimensions)
            .map(|batch| (batch, Panels::new(dimensions, batch)))
            .collect();
        let mut best: Vec<TopK> = queries.rows().map(|_| TopK::new(KEPT)).collect();
        let (mut first_row, mut block) = (0, Vec::new());
        loop {
            block.clear();
            next(&mut block)?;
            if block.is_empty() {
                return Ok(Self { hits: best.into_iter().map(TopK::into_hits).collect() });
            }
            for ((queries, panels), best) in batches.iter().zip(best.chunks_mut(BATCH)) {
                let pass = Pass { dimensions, first_row, block: &block, queries, panels };
                for part in run_workers(threads, block.len().div_ceil(TILE * dimensions), pass.worker())? {
                    best.iter_mut().zip(part).for_each(|(best, part)| best.merge(part));
                }
            }
            first_row += (block.len() / dimensions) as u64;
        }
    }

    /// Share of the true best `top_k` rows of each query that are among its first `top_k` of `found`, over all
    /// queries. Rows that are exactly as good as the last of the true ones are true, too.
    pub fn recall(&self, found: &[Vec<Hit>], top_k: usize) -> f64 {
        let (mut good, mut wanted) = (0, 0);
        for (truth, found) in self.hits.iter().zip(found) {
            let Some(last) = truth.get(top_k.min(truth.len()).wrapping_sub(1)) else { continue };
            let right: HashSet<u64> =
                truth.iter().take_while(|hit| hit.score >= last.score).map(|hit| hit.row).collect();
            wanted += top_k.min(truth.len());
            good += found.iter().take(top_k).filter(|hit| right.contains(&hit.row)).count();
        }
        if wanted == 0 { 1.0 } else { good as f64 / wanted as f64 }
    }
}

/// A block of rows and a batch of queries.
struct Pass<'a> {
    dimensions: usize,
    first_row: u64,
    block: &'a [f32],
    queries: &'a [f32],
    panels: &'a Panels,
}

impl Pass<'_> {
    /// What each thread does: takes tiles of the block until none are left.
    fn worker(&self) -> impl Fn() -> Result<Vec<TopK>> + Sync {
        let longest = self.block.chunks_exact(self.dimensions).map(dot::norm).fold(0.0, f64::max);
        let norms = self.queries.chunks_exact(self.dimensions).map(dot::norm);
        let slack: Vec<f32> = norms.map(|norm| dot::slack(self.dimensions, norm * longest)).collect();
        let next = AtomicUsize::new(0);
        move || {
            let mut selection = Selection::new(KEPT, &slack);
            let mut scores = vec![0.0; TILE * self.panels.width()];
            loop {
                let tile = next.fetch_add(1, Ordering::Relaxed);
                let Some(rows) = self.block.chunks(TILE * self.dimensions).nth(tile) else {
                    return Ok(selection.into_best());
                };
                let first = self.first_row + (tile * TILE) as u64;
                self.panels.score(rows, &mut scores);
                let lines = scores.chunks_exact(self.panels.width());
                for ((row, scores), number) in rows.chunks_exact(self.dimensions).zip(lines).zip(first..) {
                    let canonical =
                        |query: usize| dot::canonical(row, &self.queries[query * self.dimensions..][..self.dimensions]);
                    // Vectors that are not numbers have no place in a truth; whoever builds an index of them is told.
                    let _ = selection.consider(number, scores, canonical);
                }
            }
        }
    }
}
