//! Measures exact search on this machine: nanoseconds a row and, in a batch, a pair of row and query. On one thread
//! of Linux the time is that of the processor, so that other work on the machine disturbs it less.
//!
//! `cargo run --release -p hindsearch-indexes --example scan_speed -- [rows] [dimensions] [threads]`
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use hindsearch_indexes::{ElementType, Flat, Index, Matrix, MatrixSpec, MatrixWriter, SearchParams, Vectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let rows = arguments.next().transpose()?.unwrap_or(100_000);
    let dimensions = arguments.next().transpose()?.unwrap_or(768);
    let threads = arguments.next().transpose()?.unwrap_or(1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut vectors = |count: usize| {
        let mut data: Vec<f32> = (0..count * dimensions).map(|_| random.random::<f32>() - 0.4).collect();
        for row in data.chunks_exact_mut(dimensions) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
        Vectors::new(dimensions, data)
    };
    let folder = tempfile::tempdir()?;
    println!("{rows} rows of {dimensions} values, {threads} threads; the best of 5 runs");
    for element_type in [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16] {
        let path = folder.path().join(element_type.to_string());
        let spec =
            MatrixSpec::new(dimensions, element_type).with_mean(vec![0.1 / (dimensions as f32).sqrt(); dimensions]);
        let mut writer = MatrixWriter::create(&path, spec)?;
        for start in (0..rows).step_by(10_000) {
            writer.append(&vectors((rows - start).min(10_000))?)?;
        }
        writer.finish()?;
        let index = Flat::new(Arc::new(Matrix::open(&path)?));
        for queries in [1, 2, 4, 8, 16, 64, 256] {
            let batch = vectors(queries)?;
            let mut best = f64::INFINITY;
            // The kernel counts processor time in ticks of milliseconds: repeat short searches.
            let repeats = (64 / queries).max(1) * (100_000 / rows).max(1);
            for _ in 0..5 {
                let start = Clock::start(threads);
                for _ in 0..repeats {
                    index.search(&batch, &SearchParams { threads, ..SearchParams::top(10) })?;
                }
                best = best.min(start.seconds() / repeats as f64);
            }
            let per_row = best * 1e9 / rows as f64;
            println!(
                "{element_type} {queries:>3} queries: {per_row:8.1} ns a row, {:6.2} ns a pair",
                per_row / queries as f64
            );
        }
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

/// Processor time of this thread where the kernel tells it, else the time of day.
struct Clock {
    processor: Option<f64>,
    day: Instant,
}

impl Clock {
    fn start(threads: usize) -> Self {
        Self { processor: Self::processor_seconds().filter(|_| threads == 1), day: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        match (self.processor, Self::processor_seconds()) {
            (Some(start), Some(now)) => now - start,
            _ => self.day.elapsed().as_secs_f64(),
        }
    }

    fn processor_seconds() -> Option<f64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
    }
}
