//! Vectors to nearest rows: memory-mapped vector files, exact and approximate search, and the generations in which
//! an index is published. See the crate's README for a map.

mod error;
mod interrupt;
mod mmap;
mod progress;
mod vectors;

pub use error::{Error, ErrorKind, Result};
pub use interrupt::Interrupt;
pub use mmap::{Access, MappedFile};
pub use progress::{OnProgress, Progress};
pub use vectors::Vectors;
