//! How fast can codes be compared at best?

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::coder::{Coder, Factors, Units, coordinates, row_bytes};
use super::kernel::{BLOCK, Estimates, Kernel, Line, Query, Sink, bytes_of};

/// Blocks that stay in the second-level cache.
const BLOCKS: usize = 32;
/// Queries, whose tables stay there, too.
const QUERIES: usize = 128;

/// Nanoseconds for a code of `dimensions` values and a query, on one core, from the cache, measured for `time`.
pub fn code_ns(dimensions: usize, time: Duration) -> f64 {
    let kernel = Kernel::best();
    let signs = vec![0x5a; Coder::sign_bytes(dimensions)];
    let coder = Coder::new(vec![0.0; dimensions], signs, Units::covering(Factors::default()));
    let query: Vec<f32> = (0..dimensions).map(|at| (at % 61) as f32 / 61.0 - 0.4).collect();
    let mut rotated = vec![0.0; coordinates(dimensions)];
    let query = coder.query(kernel, &query, &mut rotated);
    let queries = vec![query; QUERIES];
    let queries: Vec<&Query> = queries.iter().collect();
    // As the blocks of a mapped file, they begin with a cache line.
    let lines = (0..row_bytes(dimensions) * BLOCKS)
        .map(|line| Line(std::array::from_fn(|at| ((line * 64 + at) * 37 % 251) as u8)));
    let lines: Vec<Line> = lines.collect();
    let blocks = bytes_of(&lines);
    let (mut best, start) = (f64::INFINITY, Instant::now());
    while start.elapsed() < time {
        let pass = Instant::now();
        kernel.scan(blocks, &queries, &mut Unreached);
        best = best.min(pass.elapsed().as_secs_f64());
    }
    best * 1e9 / (BLOCKS * BLOCK * QUERIES) as f64
}

/// Takes nothing: what is measured is the kernel alone. The compiler must not know that.
struct Unreached;

impl Sink for Unreached {
    fn threshold(&self, _: usize) -> f32 {
        black_box(f32::INFINITY)
    }

    fn take(&mut self, _: usize, _: usize, _: u64, estimates: &Estimates) {
        black_box(estimates);
    }
}
