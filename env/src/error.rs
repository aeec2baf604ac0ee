//! What can go wrong with tasks, episodes and rewards, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use hindsearch_indexes::ErrorKind;

/// An error of the environment crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file holds something that cannot be used.
    #[error("`{}`, line {line}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number from 1; for Parquet the row number from 1.
        line: u64,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An argument, or a message in a protocol, cannot be used.
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
        /// What to do.
        remedy: String,
    },
    /// Something outside refuses: a model server, a judge, a full disk.
    #[error("{what}: {found}; {remedy}")]
    Unavailable {
        /// The thing.
        what: String,
        /// What it said.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Another process writes to it.
    #[error("another run writes to `{}`; wait for it, or name another file", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Retrieval failed.
    #[error(transparent)]
    Retriever(#[from] hindsearch_retriever::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The class, which decides the exit code and the HTTP status.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Line { .. } | Self::InvalidInput { .. } => ErrorKind::InvalidInput,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Unavailable { .. } | Self::Interrupted => ErrorKind::Unavailable,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Retriever(error) => error.kind(),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path: path.clone(), source }
    }

    pub(crate) fn invalid(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::InvalidInput { what: what.into(), expected: expected.into(), found: found.into() }
    }
}
