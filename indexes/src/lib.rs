//! Vectors to nearest rows: memory-mapped vector files, exact and approximate search, and the generations in which
//! an index is published. See the crate's README for a map.

mod commit;
mod element;
mod error;
mod generation;
mod interrupt;
mod layout;
mod manifest;
mod mmap;
mod progress;
mod sealed;
pub mod storage;
mod vectors;
mod verify;

pub use commit::{IndexLock, Staging};
pub use element::ElementType;
pub use error::{Error, ErrorKind, Result};
pub use generation::{Generation, collect, collect_on};
pub use interrupt::Interrupt;
pub use manifest::{FileEntry, GraphParams, IndexKind, Manifest, Metric, Recall};
pub use mmap::{Access, MappedFile};
pub use progress::{OnProgress, Progress};
pub use vectors::Vectors;
pub use verify::{Depth, Report, verify};
