//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod batch;
mod decoder;
mod error;
mod generate;
mod model;
mod objective;
pub mod ops;
mod policy;
mod text;

pub use advantage::{Advantage, Baseline, Deviation, Single};
pub use batch::Sample;
pub use decoder::{Decoder, LoraConfig, Packed, Pass};
pub use error::{Error, Result};
pub use generate::{Engine, EngineOptions, Generated, Reason, Request, Sampling};
pub use model::{
    ModelConfig, ModelFiles, ModelOutput, RopeScaling, StoredType, Weight, Weights, expected_tensors, read_tensors,
    write_model, write_tensors,
};
pub use objective::{
    Aggregation, Entropy, Kl, KlEstimator, KlForm, LossTerms, Metric, Metrics, Normaliser, OBJECTIVE_PRESETS,
    Objective, Objectives, PolicyGradient, Ratio, Scope, Supervised, TokenCount, Tokens, Totals,
};
pub use policy::LocalPolicy;
pub use text::{Chat, ChatTemplate, Detokenizer, Language, StopMatch, Tokenizer};
