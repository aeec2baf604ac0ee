//! Question-answering episodes over a retriever, and their rewards. See the crate's README for a map.

mod task;
mod trajectory;

pub use task::{Gold, Task};
pub use trajectory::{Author, Span, Trajectory};
