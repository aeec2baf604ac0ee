//! How fast can this machine read memory and compare vectors?

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pulp::Arch;
use serde::Serialize;

use crate::dot::Panels;
use crate::workers::{cores, run_workers};
use crate::{ElementType, Error, Layout, Matrix, MatrixSpec, MatrixWriter, Result, Vectors};

use super::BATCH;

/// Words read to measure bandwidth: more than any cache holds.
const WORDS: usize = 32 << 20;
/// Words that a thread takes at once.
const PART: usize = 1 << 16;
/// Bytes of the widened rows that are compared from the cache, beside the queries.
const TILE_BYTES: usize = 144 << 10;
/// The most rows that are compared: all in one group of a matrix.
const MAX_ROWS: usize = 1020;
/// Time for each measurement.
const TIME: Duration = Duration::from_millis(300);

/// What the machine can do. A measurement takes about a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// Threads that run at once.
    pub cores: usize,
    /// Bytes that one thread reads from memory in a second.
    pub core_bandwidth: f64,
    /// Bytes that all of them read.
    pub bandwidth: f64,
    /// Nanoseconds for a stored vector and a query, on one core, in a batch, from the cache; `None` for an index that
    /// does not scan.
    pub pair_ns: Option<f64>,
}

impl Limits {
    /// Measures the memory, and the kernel that scans an index of this kind.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no place for a small temporary file.
    pub fn measure(layout: Layout, element_type: ElementType, dimensions: usize) -> Result<Self> {
        let words = vec![1_u64; WORDS];
        let (core_bandwidth, bandwidth) = (bandwidth(&words, 1)?, bandwidth(&words, 0)?);
        let pair_ns = match layout {
            Layout::Flat => Some(pair_ns(element_type, dimensions)?),
            Layout::Quantized => Some(crate::quantized::code_ns(dimensions, TIME)),
            Layout::Hnsw { .. } => None,
        };
        Ok(Self { cores: cores(), core_bandwidth, bandwidth: bandwidth.max(core_bandwidth), pair_ns })
    }

    /// Bytes that `threads` (0 is all cores) read in a second.
    pub fn bytes_per_second(&self, threads: usize) -> f64 {
        if threads == 1 { self.core_bandwidth } else { self.bandwidth }
    }

    /// Comparisons that `threads` (0 is all cores) make in a second.
    pub fn pairs_per_second(&self, threads: usize) -> Option<f64> {
        let threads = if threads == 0 { self.cores } else { threads.min(self.cores) };
        self.pair_ns.map(|time| threads as f64 * 1e9 / time)
    }
}

/// Bytes read in a second, the best of several passes.
fn bandwidth(words: &[u64], threads: usize) -> Result<f64> {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed() < TIME {
        let next = AtomicUsize::new(0);
        let pass = Instant::now();
        let sums = run_workers(threads, cores(), || {
            let mut sum = 0_u64;
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let Some(words) = words.chunks(PART).nth(part) else { return Ok(sum) };
                sum = sum.wrapping_add(add(words));
            }
        })?;
        // The sum must be asked for, or nothing would be read.
        if sums.into_iter().fold(0, u64::wrapping_add) == words.len() as u64 {
            best = best.min(pass.elapsed().as_secs_f64());
        }
    }
    Ok(size_of_val(words) as f64 / best)
}

fn add(words: &[u64]) -> u64 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut sums = [0_u64; 64];
            for block in words.as_chunks::<64>().0 {
                sums.iter_mut().zip(block).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            }
            sums.into_iter().fold(0, u64::wrapping_add)
        },
    )
}

/// Nanoseconds for a row and a query of a batch on one core, from rows that stay in the cache.
fn pair_ns(element_type: ElementType, dimensions: usize) -> Result<f64> {
    let spec = MatrixSpec::new(dimensions, element_type);
    let rows = (TILE_BYTES / (dimensions * size_of::<f32>())).clamp(1, MAX_ROWS).next_multiple_of(6);
    let folder = tempfile::tempdir().map_err(Error::io("make", "a temporary folder"))?;
    let path = folder.path().join("vectors");
    let values = (0..rows.max(BATCH) * dimensions).map(|at| (at % 61) as f32 / 61.0 - 0.4).collect::<Vec<_>>();
    let mut writer = MatrixWriter::create(&path, spec)?;
    writer.append(&Vectors::new(dimensions, values[..rows * dimensions].to_vec())?)?;
    writer.finish()?;
    let matrix = Matrix::open(&path)?;
    let panels = Panels::new(dimensions, &values[..BATCH * dimensions]);
    let (mut tile, mut scores) = (vec![0.0; rows * dimensions], vec![0.0; rows * panels.width()]);
    let (mut best, start) = (f64::INFINITY, Instant::now());
    while start.elapsed() < TIME {
        let pass = Instant::now();
        panels.score(matrix.stored(0..rows as u64).coarse().widened(&mut tile), &mut scores);
        best = best.min(pass.elapsed().as_secs_f64());
    }
    Ok(best * 1e9 / (rows * BATCH) as f64)
}
