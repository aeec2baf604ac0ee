//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod error;
mod model;
mod text;

pub use advantage::{Baseline, advantages};
pub use error::{Error, Result};
pub use model::{
    ModelConfig, ModelFiles, ModelOutput, RopeScaling, StoredType, Weight, Weights, expected_tensors, read_tensors,
    write_model, write_tensors,
};
pub use text::{Chat, ChatTemplate, Detokenizer, StopMatch, Tokenizer};
