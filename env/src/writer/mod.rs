//! A language model that writes a text on request: who is asked, how much at a time, and what is kept of it.
//!
//! Critics and reflectors are written against [`Writer`], so that a model on a server, a model on this machine and a file of earlier
//! answers are the same to them.

mod cached;
#[cfg(feature = "remote")]
mod server;

use crate::Result;

pub use cached::CachedWriter;
#[cfg(feature = "remote")]
pub use server::{ServerWriter, ServerWriterOptions};

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// Instructions.
    pub system: String,
    /// What the instructions are about.
    pub user: String,
    /// Tokens that the text may have at most.
    pub tokens: usize,
}

/// Writes texts.
pub trait Writer: Send + Sync {
    /// Which model it is. The name is part of the keys of caches and of records.
    fn name(&self) -> &str;

    /// A text for each request, in their order. One that fails does not disturb the others.
    fn write(&self, requests: &[Request]) -> Vec<Result<String>>;
}

impl<W: Writer + ?Sized> Writer for Box<W> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        (**self).write(requests)
    }
}

impl<W: Writer + ?Sized> Writer for std::sync::Arc<W> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        (**self).write(requests)
    }
}

impl<W: Writer + ?Sized> Writer for &W {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        (**self).write(requests)
    }
}
