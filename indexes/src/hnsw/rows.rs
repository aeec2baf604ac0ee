//! Passes over the codes of all rows, on all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use super::codes::Codes;
use super::copies::Copies;
use crate::progress::ascending;
use crate::workers::run_workers;
use crate::{Interrupt, Matrix, OnProgress, Progress, Result};

/// Rows that a worker takes at once.
const CLAIM_ROWS: u64 = 64;

/// The rows of a matrix as codes.
pub struct Rows<'a> {
    pub matrix: &'a Matrix,
    pub codes: &'a Codes,
    pub threads: usize,
    pub progress: OnProgress<'a>,
    pub interrupt: &'a Interrupt,
}

impl Rows<'_> {
    /// The code of one row.
    pub fn code(&self, row: u64) -> Vec<i8> {
        let mut code = vec![0; self.codes.dimensions()];
        self.codes.encode(&self.matrix.row(row), &mut code);
        code
    }

    /// Rows with equal codes.
    pub fn copies(&self) -> Result<Copies> {
        let hashes = self.for_all(None, |row, code| {
            let hash = blake3::hash(bytemuck::cast_slice(code));
            let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
            Ok(Some((u64::from_le_bytes([a, b, c, d, e, f, g, h]), row)))
        })?;
        Ok(Copies::find(hashes, |a, b| self.code(a) == self.code(b)))
    }

    /// Calls `act` with each row and its code, and returns what it gave, in no order. Reports progress from
    /// `done_before` rows on, if given.
    pub fn for_all<T: Send>(
        &self,
        done_before: Option<u64>,
        act: impl Fn(u64, &[i8]) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<T>> {
        let rows = self.matrix.rows();
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(done_before.unwrap_or(0)));
        let progress = ascending(self.progress);
        let parts = run_workers(self.threads, self.threads, || {
            let mut given = Vec::new();
            let mut vectors = vec![0.0; CLAIM_ROWS as usize * self.codes.dimensions()];
            let mut code = vec![0; self.codes.dimensions()];
            loop {
                let start = next.fetch_add(CLAIM_ROWS, Ordering::Relaxed);
                if start >= rows {
                    return Ok(given);
                }
                self.interrupt.check()?;
                let claimed = start..(start + CLAIM_ROWS).min(rows);
                let count = claimed.end - claimed.start;
                let vectors = &mut vectors[..count as usize * self.codes.dimensions()];
                self.matrix.widen(claimed.clone(), vectors);
                for (row, vector) in claimed.zip(vectors.chunks_exact(self.codes.dimensions())) {
                    self.codes.encode(vector, &mut code);
                    given.extend(act(row, &code)?);
                }
                let done = done.fetch_add(count, Ordering::Relaxed) + count;
                if done_before.is_some() {
                    progress(Progress { done, total: Some(rows * 2) });
                }
            }
        })?;
        Ok(parts.into_iter().flatten().collect())
    }
}
