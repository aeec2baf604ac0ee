//! How long will an index of so many vectors take to build, and how fast will it answer on this machine?
//!
//! The figures follow from bytes and comparisons and from the measured [`Limits`]. They are floors of time: choosing among
//! scores, jumps through memory and pages that are not in memory come on top.

use serde::Serialize;

use crate::measure::{BATCH, Limits, TOP_K, Work};
use crate::quantized::{ROWS_PER_LIST, candidates_for};
use crate::{ElementType, Footprint, Layout};

/// Core-seconds for coding a row of 768 values and writing it.
const FLAT_BUILD: f64 = 3e-6;
/// The same for a graph: adding the row and finding it again, measured on 100,000 rows.
const GRAPH_BUILD: f64 = 2e-3;
/// The same for lists of codes: training them, finding the row's list, rotating and coding it, measured on 21 million
/// rows; of 400,000 half of it.
const LISTS_BUILD: f64 = 4e-5;
/// Vectors that a walk through a graph compares, at an `ef` of about 100, and nanoseconds for one, in memory.
const WALK: f64 = 2000.0;
const WALK_NS: f64 = 250.0;
/// Nanoseconds for a code of 768 bits and a query in a batch, on a core with AVX-512, where it was not measured.
const CODE_NS: f64 = 1.0;
/// Lists that a query probes for a recall of about 0.97: of 28,000 real passages 50, of 400,000 and of 21 million
/// synthetic vectors 8 and 16; a table in the index tells what it is.
const PROBES: f64 = 50.0;
/// Nanoseconds for scoring a candidate from its vector, in memory.
const RESCORED_NS: f64 = 130.0;
/// The dimensions of the figures above.
const DIMENSIONS: f64 = 768.0;

impl Layout {
    /// Seconds for building an index of `rows` vectors on `cores` cores, embedding not included.
    pub fn build_seconds(self, rows: u64, dimensions: usize, cores: usize) -> f64 {
        let per_row = match self {
            Self::Flat => FLAT_BUILD,
            Self::Hnsw { .. } => GRAPH_BUILD,
            Self::Quantized => LISTS_BUILD,
        };
        per_row * rows as f64 * (dimensions as f64 / DIMENSIONS) / cores.max(1) as f64
    }
}

/// What is expected of an index.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Its bytes.
    pub footprint: Footprint,
    /// Seconds for building it.
    pub build_seconds: f64,
    /// Its ways of searching, fastest first.
    pub gears: Vec<Gear>,
}

/// A way of searching.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gear {
    /// Its name.
    pub name: &'static str,
    /// What a query alone takes.
    pub single: Work,
    /// Milliseconds for a query alone.
    pub single_ms: f64,
    /// What a query of a batch of 256 takes.
    pub batch: Work,
    /// Queries answered in a second, in batches of 256.
    pub batch_qps: f64,
}

impl Forecast {
    /// That of `rows` vectors of `dimensions` values on a machine with these `limits`.
    pub fn new(layout: Layout, element_type: ElementType, rows: u64, dimensions: usize, limits: &Limits) -> Self {
        let footprint = layout.footprint(element_type, rows, dimensions);
        let (count, scale) = (rows as f64, dimensions as f64 / DIMENSIONS);
        let rescored = candidates_for(TOP_K, dimensions) as f64;
        let rescoring = rescored.min(count) * RESCORED_NS * scale * 1e-9;
        let code_ns = limits.pair_ns.unwrap_or(CODE_NS * scale);
        let needed = footprint.memory() as f64;
        let scan = |name, pairs: f64, pair_ns: f64, extra: f64| {
            let bytes = if rows == 0 { 0.0 } else { needed * (pairs / count).min(1.0) };
            // A batch reads no byte twice.
            let shared = (bytes * BATCH as f64).min(needed) / BATCH as f64;
            let compute = pairs * pair_ns * 1e-9 / limits.cores as f64;
            let time = |bytes: f64| (bytes / limits.bandwidth).max(compute);
            Gear {
                name,
                single: Work { bytes, pairs },
                single_ms: (time(bytes) + extra) * 1e3,
                batch: Work { bytes: shared, pairs },
                batch_qps: 1.0 / (time(shared) + extra / limits.cores as f64).max(1e-9),
            }
        };
        let gears = match layout {
            Layout::Flat => vec![scan("exact", count, limits.pair_ns.unwrap_or(0.0), 0.0)],
            Layout::Hnsw { .. } => {
                let pairs = WALK.min(count);
                let (time, bytes) = (pairs * WALK_NS * scale * 1e-9, pairs * (dimensions + 128) as f64);
                let work = Work { bytes, pairs };
                vec![Gear {
                    name: "walk",
                    single: work,
                    single_ms: time * 1e3,
                    batch: work,
                    batch_qps: limits.cores as f64 / time.max(1e-9),
                }]
            }
            Layout::Quantized => {
                let list = ROWS_PER_LIST as f64;
                let probed = PROBES * list + count / list;
                let pairs = probed.min(count);
                vec![scan("lists", pairs, code_ns, rescoring), scan("exhaustive", count, code_ns, rescoring)]
            }
        };
        Self { footprint, build_seconds: layout.build_seconds(rows, dimensions, limits.cores), gears }
    }
}
