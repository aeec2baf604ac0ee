//! Vectors to nearest rows: memory-mapped vector files, exact and approximate search, and the generations in which
//! an index is published. See the crate's README for a map.

mod bytes;
mod commit;
mod dot;
mod element;
mod error;
mod export;
mod flat;
mod generation;
mod hnsw;
mod import;
mod index;
mod interrupt;
mod layout;
mod manifest;
mod matrix;
mod mmap;
mod npy;
mod progress;
mod recall;
pub mod sealed;
mod select;
pub mod storage;
mod vectors;
mod verify;
mod whole_file;
mod workers;

pub use commit::{FolderLock, Staging};
pub use element::ElementType;
pub use error::{Error, ErrorKind, Result};
pub use export::{ExportFormat, export_vectors};
pub use flat::Flat;
pub use generation::{Generation, collect, collect_on};
pub use hnsw::{Hnsw, HnswBuilder, HnswOptions, HnswSummary};
pub use import::{Comparison, Tally, VectorFile};
pub use index::{Hit, Index, SearchParams, open_index};
pub use interrupt::Interrupt;
pub use manifest::{FileEntry, GraphParams, IndexKind, Manifest, Metric, Recall};
pub use matrix::{Matrix, MatrixSpec, MatrixWriter};
pub use mmap::{Access, MappedFile};
pub use npy::{read_npy, write_npy};
pub use progress::{OnProgress, Progress};
pub use recall::{Calibration, RecallTarget, choose_expansion, measure_recall};
pub use vectors::{NORMS, Vectors};
pub use verify::{Depth, Report, verify};
pub use whole_file::WholeFile;
