//! Model files.
mod config;
pub use config::{ModelConfig, RopeScaling};
