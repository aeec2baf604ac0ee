//! Where do tasks come from, how are they chosen, and how do other programs get them?

mod built_in;
mod fields;
mod format;
mod json_lines;
mod mix;
mod parquet;
mod qrels;
mod read;
mod set;
mod write;

pub use built_in::{BUILT_IN, built_in};
pub use format::Format;
pub(crate) use mix::shuffled;
pub use mix::{mix, pick};
pub use read::{ReadOptions, from_row, read};
pub use set::TaskSet;
pub use write::write;
