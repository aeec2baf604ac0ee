//! How good and how fast is an index, and what stops it from being faster?
//!
//! An index answers the same queries one by one and in batches, at each of the efforts that it offers. Hits are held
//! against the [`Truth`], times against the [`Limits`] of the machine.

mod limits;
mod subject;
mod truth;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::quantized::{ROWS_PER_LIST, candidates_for};
use crate::{Effort, Error, Hit, Index, IndexKind, Interrupt, Result, SearchParams, Vectors};

pub use limits::Limits;
pub use subject::{Built, Source, Subject};
pub use truth::Truth;

/// Queries of a batch.
pub const BATCH: usize = 256;
/// Hits asked for, and the largest k of the recalls.
pub const TOP_K: usize = 10;
/// Below this share of both limits, neither of them is what bounds an index.
const BOUND_SHARE: f64 = 0.4;

/// What answering one query takes, counted and not timed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Bytes of the index read, those that a batch reads once shared among its queries.
    pub bytes: f64,
    /// Stored vectors or codes compared with the query.
    pub pairs: f64,
}

/// The efforts to measure an index of a kind with, lowest first; it has `rows` of `dimensions` values.
pub fn efforts(kind: IndexKind, rows: u64, dimensions: usize) -> Vec<Effort> {
    match kind {
        IndexKind::Flat => vec![Effort::Exact],
        IndexKind::Hnsw => {
            let more = [96, 128, 192, 256, 384, 512].map(Effort::Candidates);
            [Effort::Calibrated].into_iter().chain(more).collect()
        }
        IndexKind::Quantized => {
            let lists = (rows / ROWS_PER_LIST as u64) as usize;
            let probes = (2..).map(|power| 1_usize << power).take_while(|probes| *probes <= lists / 4);
            let usual = candidates_for(TOP_K, dimensions);
            let settings = |probes| [usual / 2, usual].map(|candidates| Effort::Lists { probes, candidates });
            probes.flat_map(settings).chain([Effort::Exhaustive, Effort::Exact]).collect()
        }
    }
}

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Threads of a search; 0 is all cores.
    pub threads: usize,
    /// Queries asked one by one.
    pub singles: usize,
    /// Times that the batches are repeated; the median counts.
    pub rounds: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { threads: 0, singles: 256, rounds: 3 }
    }
}

/// Milliseconds of a query asked alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Single {
    /// The median of the times that callers waited.
    pub p50_ms: f64,
    /// The time that 99 of 100 do not exceed.
    pub p99_ms: f64,
    /// Mean processor time, of all threads.
    pub cpu_ms: f64,
}

/// Queries asked together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Batch {
    /// Queries in a batch.
    pub queries: usize,
    /// Queries answered in a second.
    pub qps: f64,
    /// Processor time of a query in milliseconds, of all threads.
    pub cpu_ms: f64,
    /// What a query of the batch takes; `None` where an index does not count it.
    pub work: Option<Work>,
    /// Of the memory's bandwidth, the share used.
    pub bandwidth_share: Option<f64>,
    /// Of the comparisons that the kernel can make in its cache, the share made.
    pub kernel_share: Option<f64>,
    /// What keeps it from being faster.
    pub bound: Bound,
}

/// What an index's speed is bounded by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The bandwidth of memory.
    Memory,
    /// The comparisons that the cores can make.
    Compute,
    /// Neither: the latency of jumps through memory, choosing among scores, starting threads.
    Latency,
}

/// What was measured at one effort.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The effort asked for.
    pub effort: Effort,
    /// Share of the true hits among the best, by how many are compared: 1, 3 and 10.
    pub recall_1: f64,
    /// See `recall_1`.
    pub recall_3: f64,
    /// See `recall_1`.
    pub recall_10: f64,
    /// One query at a time.
    pub single: Single,
    /// Many at once.
    pub batch: Batch,
    /// By query, the rows found.
    #[serde(skip)]
    pub hits: Vec<Vec<Hit>>,
}

/// Queries with their truth, and a machine with its limits.
#[derive(Debug)]
pub struct Bench<'a> {
    /// What is asked; not rows of the index.
    pub queries: &'a Vectors,
    /// What should be found.
    pub truth: &'a Truth,
    /// What the machine can do.
    pub limits: Limits,
    /// How to measure.
    pub settings: Settings,
    /// When to stop.
    pub interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Measures `index` at `effort`.
    ///
    /// # Errors
    /// As [`Index::search`]; [`Error::InvalidInput`] without queries; [`Error::Interrupted`].
    pub fn measure(&self, index: &dyn Index, effort: Effort) -> Result<Measured> {
        if self.queries.is_empty() {
            let expected = "at least one query".into();
            return Err(Error::InvalidInput { what: "queries".into(), expected, found: "none".into() });
        }
        let params = SearchParams { threads: self.settings.threads, effort, ..SearchParams::top(TOP_K) };
        let batches = self.slices(BATCH)?;
        // Brings the pages into memory, too.
        let mut hits = Vec::with_capacity(self.queries.len());
        for batch in &batches {
            self.interrupt.check()?;
            hits.extend(index.search(batch, &params)?);
        }
        let recall = |top_k| self.truth.recall(&hits, top_k);
        Ok(Measured {
            effort,
            recall_1: recall(1),
            recall_3: recall(3),
            recall_10: recall(10),
            single: self.single(index, &params)?,
            batch: self.batch(index, &batches, &params)?,
            hits,
        })
    }

    /// The queries, `size` at a time.
    fn slices(&self, size: usize) -> Result<Vec<Vectors>> {
        let dimensions = self.queries.dimensions();
        self.queries.as_slice().chunks(size * dimensions).map(|part| Vectors::new(dimensions, part.to_vec())).collect()
    }

    fn single(&self, index: &dyn Index, params: &SearchParams) -> Result<Single> {
        let queries = self.slices(1)?;
        let (mut times, cpu) = (Vec::new(), cpu_time());
        for query in queries.iter().cycle().take(self.settings.singles.max(1)) {
            self.interrupt.check()?;
            let start = Instant::now();
            index.search(query, params)?;
            times.push(start.elapsed());
        }
        let cpu = (cpu_time() - cpu) / times.len() as u32;
        times.sort_unstable();
        let time = |share: f64| milliseconds(times[((times.len() as f64 * share).ceil() as usize).max(1) - 1]);
        Ok(Single { p50_ms: time(0.5), p99_ms: time(0.99), cpu_ms: milliseconds(cpu) })
    }

    fn batch(&self, index: &dyn Index, batches: &[Vectors], params: &SearchParams) -> Result<Batch> {
        let mut rounds = Vec::new();
        for _ in 0..self.settings.rounds.max(1) {
            let (start, cpu) = (Instant::now(), cpu_time());
            for batch in batches {
                self.interrupt.check()?;
                index.search(batch, params)?;
            }
            rounds.push((start.elapsed(), cpu_time() - cpu));
        }
        rounds.sort_unstable();
        let (wall, cpu) = rounds[rounds.len() / 2];
        let count = self.queries.len() as f64;
        let qps = count / wall.as_secs_f64().max(1e-9);
        let queries = batches.first().map_or(0, Vectors::len);
        let work = index.work(params, queries);
        let bandwidth_share = work.map(|work| qps * work.bytes / self.limits.bytes_per_second(params.threads));
        let kernel_share =
            work.zip(self.limits.pairs_per_second(params.threads)).map(|(work, limit)| qps * work.pairs / limit);
        let (memory, compute) = (bandwidth_share.unwrap_or(0.0), kernel_share.unwrap_or(0.0));
        let bound = match memory.max(compute) {
            share if share < BOUND_SHARE => Bound::Latency,
            _ if memory > compute => Bound::Memory,
            _ => Bound::Compute,
        };
        Ok(Batch { queries, qps, cpu_ms: milliseconds(cpu) / count, work, bandwidth_share, kernel_share, bound })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Processor time of the whole process.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
