//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;

pub use advantage::{Baseline, advantages};
