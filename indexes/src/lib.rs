//! Vectors to nearest rows: memory-mapped vector files, exact and approximate search, and the generations in which
//! an index is published. See the crate's README for a map.

mod bytes;
mod dot;
mod element;
mod error;
mod flat;
mod hnsw;
mod index;
mod interrupt;
mod matrix;
mod mmap;
mod progress;
mod recall;
mod select;
mod vectors;
mod workers;

pub use element::ElementType;
pub use error::{Error, ErrorKind, Result};
pub use flat::Flat;
pub use hnsw::{Hnsw, HnswBuilder, HnswOptions, HnswSummary};
pub use index::{Hit, Index, SearchParams};
pub use interrupt::Interrupt;
pub use matrix::{Matrix, MatrixSpec, MatrixWriter};
pub use mmap::{Access, MappedFile};
pub use progress::{OnProgress, Progress};
pub use recall::{Calibration, RecallTarget, choose_expansion, measure_recall};
pub use vectors::{NORMS, Vectors};
