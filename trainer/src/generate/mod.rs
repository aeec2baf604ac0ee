//! How does a model write? Many sequences at a time, each as if it were alone.

mod cache;
mod engine;
mod layer_memory;
mod reader;
mod sampler;

pub use engine::{Engine, EngineOptions, Generated, Reason, Request};
pub(crate) use reader::{Sequence, hidden_states};
pub use sampler::Sampling;
