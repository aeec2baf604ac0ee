//! What can go wrong with an index, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The classes of failure that every crate of the workspace maps its errors to.
///
/// A class decides the process exit code and the HTTP status, once, for all commands and routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller gave something that cannot be used.
    InvalidInput,
    /// What was named does not exist.
    NotFound,
    /// A token is missing or wrong.
    Unauthorized,
    /// Stored bytes differ from what was written.
    Corrupt,
    /// Two things that do not belong together: format versions, models, dimensions.
    Incompatible,
    /// Another process holds the lock.
    Locked,
    /// Too much work is queued.
    Overloaded,
    /// The deadline passed.
    Timeout,
    /// Something outside refuses: a full or read-only disk, a library that cannot be loaded, a server.
    Unavailable,
    /// A defect of this program.
    Internal,
}

impl ErrorKind {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::InvalidInput => 2,
            Self::NotFound => 3,
            Self::Unauthorized => 4,
            Self::Corrupt | Self::Incompatible => 5,
            Self::Locked => 6,
            Self::Overloaded => 7,
            Self::Timeout => 8,
            Self::Unavailable => 9,
            Self::Internal => 70,
        }
    }

    /// The HTTP status.
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidInput => 422,
            Self::NotFound => 404,
            Self::Unauthorized => 401,
            Self::Locked => 409,
            Self::Overloaded | Self::Unavailable => 503,
            Self::Timeout => 504,
            Self::Corrupt | Self::Incompatible | Self::Internal => 500,
        }
    }

    /// The class of an operating-system error.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory => Self::InvalidInput,
            _ => Self::Unavailable,
        }
    }
}

/// An error of the index crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was attempted, as a verb: `read`, `write`, `sync`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// No index at that place.
    #[error("no index at `{}`: {found}; build one with `hindsearch build CORPUS --out {}`", path.display(), path.display())]
    NotFound {
        /// The index folder.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// Stored bytes differ from what was written.
    #[error("`{}` is damaged: expected {expected}, found {found}; restore the file from a copy or build the index again", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What the format or the manifest says.
        expected: String,
        /// What the file holds.
        found: String,
    },
    /// The file is sound, but made by or for something else.
    #[error("`{}` cannot be used here: expected {expected}, found {found}; {remedy}", path.display())]
    Incompatible {
        /// The file.
        path: PathBuf,
        /// What this program or this caller needs.
        expected: String,
        /// What the file says.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Another process writes here.
    #[error("`{}` is locked by another process; wait for it to end or choose another output folder", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The caller gave something that cannot be used.
    #[error("{what}: expected {expected}, found {found}")]
    InvalidInput {
        /// The thing at fault: `query 3`, `row 17`.
        what: String,
        /// What is accepted.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An approximate index finds too few of the true neighbours.
    #[error("recall@{top_k} is {measured:.4}, below the floor of {floor}; raise {raise}, or lower the floor")]
    RecallBelowFloor {
        /// The number of hits compared.
        top_k: usize,
        /// Share of exact hits found.
        measured: f64,
        /// The lowest share accepted.
        floor: f64,
        /// The settings to raise.
        raise: String,
    },
    /// The approximate-search library failed.
    #[error("the graph library failed to {action}: {message}")]
    Graph {
        /// What was attempted.
        action: &'static str,
        /// The library's words.
        message: String,
    },
    /// Someone asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Wraps an operating-system error with the path and the attempt.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Incompatible { .. } => ErrorKind::Incompatible,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::InvalidInput { .. } | Self::RecallBelowFloor { .. } => ErrorKind::InvalidInput,
            Self::Graph { .. } | Self::Interrupted => ErrorKind::Internal,
        }
    }
}

/// What to do about an answer of the operating system, where that is known.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free space and run the same command again",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; change its permissions or choose another place"
        }
        _ => "",
    }
}

/// The result of an index operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;
