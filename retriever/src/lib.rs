#![doc = include_str!("../README.md")]

pub mod build;
pub mod corpus;
pub mod embed;
mod error;
pub mod evaluate;
mod passage;
mod retrieve;
#[cfg(feature = "serve")]
pub mod serve;

pub use error::{Error, Result};
pub use passage::Passage;
pub use retrieve::{OpenOptions, Ranked, Retriever};
