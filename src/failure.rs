//! The end of every failed command: one message and one exit code.

use std::fmt;
use std::io;

use hindsearch::config::ConfigError;
use hindsearch::indexes::{self, ErrorKind};
use hindsearch::{env, retriever, trainer};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// From the libraries.
    Retriever(retriever::Error),
    /// From the environment's library.
    Env(env::Error),
    /// From the trainer's library.
    Trainer(trainer::Error),
    /// A setting that cannot be used.
    Config(ConfigError),
    /// An argument or a combination that the parser cannot refuse.
    Usage(String),
    /// The work was done and what it found is a failure: a damaged index, an unfit machine.
    Verdict(ErrorKind, String),
    /// Standard output or input failed.
    Stream(io::Error),
    /// A defect.
    Internal(String),
}

impl Failure {
    /// Wraps what should not happen.
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::Internal(error.to_string())
    }

    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Retriever(retriever::Error::Index(indexes::Error::Interrupted)) => 130,
            Self::Retriever(error) => error.kind().exit_code(),
            Self::Env(env::Error::Interrupted) => 130,
            Self::Env(error) => error.kind().exit_code(),
            Self::Trainer(trainer::Error::Interrupted) => 130,
            Self::Trainer(error) => error.kind().exit_code(),
            Self::Config(ConfigError::Read { source, .. }) => ErrorKind::of_io(source).exit_code(),
            Self::Config(_) | Self::Usage(_) => ErrorKind::InvalidInput.exit_code(),
            Self::Verdict(kind, _) => kind.exit_code(),
            Self::Stream(_) => ErrorKind::Unavailable.exit_code(),
            Self::Internal(_) => ErrorKind::Internal.exit_code(),
        }
    }

    /// Whether the reader of our output went away, as `head` does: no failure of ours.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retriever(retriever::Error::Index(indexes::Error::Interrupted)) => {
                write!(f, "interrupted; nothing is half done: run the same command again to go on")
            }
            Self::Env(env::Error::Interrupted) | Self::Trainer(trainer::Error::Interrupted) => {
                write!(f, "interrupted; what was done is kept: run the same command again to go on")
            }
            Self::Retriever(error) => error.fmt(f),
            Self::Env(error) => error.fmt(f),
            Self::Trainer(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Usage(message) | Self::Verdict(_, message) => message.fmt(f),
            Self::Stream(error) => write!(f, "standard input or output: {error}"),
            Self::Internal(message) => write!(f, "a defect of this program: {message}"),
        }
    }
}

impl From<retriever::Error> for Failure {
    fn from(error: retriever::Error) -> Self {
        Self::Retriever(error)
    }
}

impl From<indexes::Error> for Failure {
    fn from(error: indexes::Error) -> Self {
        Self::Retriever(error.into())
    }
}

impl From<env::Error> for Failure {
    fn from(error: env::Error) -> Self {
        Self::Env(error)
    }
}

impl From<trainer::Error> for Failure {
    fn from(error: trainer::Error) -> Self {
        Self::Trainer(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => Self::Stream(kind.into()),
            None => Self::internal(error),
        }
    }
}
