//! hindsearch: a local search engine and a training ground for search agents.
//!
//! This crate is the front door: it re-exports the four crates behind it and holds the settings that the command line
//! resolves. `ARCHITECTURE.md` is the map.

pub mod config;

pub use hindsearch_env as env;
pub use hindsearch_indexes as indexes;
pub use hindsearch_retriever as retriever;
pub use hindsearch_trainer as trainer;
