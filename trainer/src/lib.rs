//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod error;
pub mod ops;
mod decoder;
mod model;

pub use advantage::{Baseline, advantages};
pub use error::{Error, Result};
pub use decoder::{Decoder, LoraConfig, Packed, Pass};
pub use model::{ModelConfig, RopeScaling};
