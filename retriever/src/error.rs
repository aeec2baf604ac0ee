//! What can go wrong between text and ranked passages, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use hindsearch_indexes::ErrorKind;

/// An error of the retriever crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A corpus or question file holds something that cannot be used.
    #[error("`{}`, line {line} (byte {byte}): expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number from 1; for Parquet and Arrow the row number from 1.
        line: u64,
        /// Offset of the line's first byte in the decompressed stream; 0 for Parquet and Arrow.
        byte: u64,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A whole file cannot be used.
    #[error("`{}`: expected {expected}, found {found}; {remedy}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is accepted.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Stored bytes differ from what was written.
    #[error("`{}` is damaged: expected {expected}, found {found}; restore the file from a copy or build the index again", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What the format says.
        expected: String,
        /// What the file holds.
        found: String,
    },
    /// An argument cannot be used.
    #[error("{what}: expected {expected}, found {found}")]
    InvalidInput {
        /// The thing at fault.
        what: String,
        /// What is accepted.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A named thing does not exist.
    #[error("{what} not found; {remedy}")]
    NotFound {
        /// The thing.
        what: String,
        /// Where it was looked for, or what to do.
        remedy: String,
    },
    /// Two things that do not belong together.
    #[error("{what}: expected {expected}, found {found}; {remedy}")]
    Incompatible {
        /// The pair.
        what: String,
        /// What this index or caller needs.
        expected: String,
        /// What was given.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// A server wants a token, or another one.
    #[error("{what}: {found}; {remedy}")]
    Unauthorized {
        /// The thing.
        what: String,
        /// What the server said.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Something outside refuses: a library that cannot be loaded, a server, a shortfall of space.
    #[error("{what}: {found}; {remedy}")]
    Unavailable {
        /// The thing.
        what: String,
        /// What happened.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The model runtime failed on input that passed all checks.
    #[error("{runtime} failed to {action}: {message}")]
    Runtime {
        /// `ONNX Runtime` or `rten`.
        runtime: &'static str,
        /// What was attempted.
        action: &'static str,
        /// The runtime's words.
        message: String,
    },
    /// From the index crate.
    #[error(transparent)]
    Index(#[from] hindsearch_indexes::Error),
}

impl Error {
    /// Wraps an operating-system error with the path and the attempt.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let wrap = hindsearch_indexes::Error::io(action, path);
        move |source| Self::Index(wrap(source))
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Line { .. } | Self::File { .. } | Self::InvalidInput { .. } => ErrorKind::InvalidInput,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Incompatible { .. } => ErrorKind::Incompatible,
            Self::Unauthorized { .. } => ErrorKind::Unauthorized,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Runtime { .. } => ErrorKind::Internal,
            Self::Index(e) => e.kind(),
        }
    }
}

/// The result of a retriever operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;
