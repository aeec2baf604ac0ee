//! What can go wrong with models, tokenizers and training, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use hindsearch_indexes::ErrorKind;

/// An error of the trainer crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file holds something that cannot be used.
    #[error("`{}`: expected {expected}, found {found}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An argument or a setting cannot be used.
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
    /// Numbers ran away.
    #[error("{what}: {found}; {remedy}")]
    Diverged {
        /// What was computed.
        what: String,
        /// What came of it.
        found: String,
        /// What to do.
        remedy: String,
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
    /// Another process trains there.
    #[error("another process trains in `{}`; wait for it to end, or name another folder", path.display())]
    Locked {
        /// The run folder's lock.
        path: PathBuf,
    },
    /// A tensor operation failed: out of memory, or a defect.
    #[error("tensors: {0}")]
    Tensor(#[from] candle_core::Error),
    /// Episodes failed.
    #[error(transparent)]
    Env(#[from] hindsearch_env::Error),
    /// Vectors on disk failed.
    #[error(transparent)]
    Index(hindsearch_indexes::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The class, which decides the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { .. } => ErrorKind::Corrupt,
            Self::InvalidInput { .. } => ErrorKind::InvalidInput,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Diverged { .. } | Self::Tensor(_) => ErrorKind::Internal,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Env(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Interrupted => ErrorKind::Unavailable,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path: path.clone(), source }
    }

    pub(crate) fn file(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), expected: expected.into(), found: found.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::InvalidInput { what: what.into(), expected: expected.into(), found: found.into() }
    }
}

impl From<hindsearch_indexes::Error> for Error {
    fn from(error: hindsearch_indexes::Error) -> Self {
        use hindsearch_indexes::Error as Of;
        // What every crate knows is said in this crate's words: a damaged checkpoint is not built again from a corpus.
        match error {
            Of::Io { action, path, source } => Self::Io { action, path, source },
            Of::Corrupt { path, expected, found } => Self::File { path, expected, found },
            Of::InvalidInput { what, expected, found } => Self::InvalidInput { what, expected, found },
            Of::Locked { path } => Self::Locked { path },
            Of::Interrupted => Self::Interrupted,
            other => Self::Index(other),
        }
    }
}
