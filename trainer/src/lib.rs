//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod error;

pub use advantage::{Baseline, advantages};
pub use error::{Error, Result};
