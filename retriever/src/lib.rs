#![doc = include_str!("../README.md")]

pub mod build;
pub mod corpus;
pub mod embed;
mod error;
pub mod evaluate;
mod passage;
#[cfg(feature = "remote")]
mod remote;
mod retrieve;
#[cfg(feature = "serve")]
pub mod serve;
mod threads;

pub use error::{Error, Result};
pub use passage::Passage;
#[cfg(feature = "remote")]
pub use remote::{RemoteOptions, RemoteRetriever};
pub use retrieve::{OpenOptions, Ranked, Retrieve, Retriever};
