//! `/hindsight/v1`: what a teacher may be told of episodes, for trainers that learn elsewhere. Nothing is remembered, and no accepted answer
//! is in an answer unless a hint holds it.

mod align;
mod block;
mod critique;

pub(super) use align::{AlignItem, align};
pub(super) use block::{BlockItem, Told, block};
pub(super) use critique::{Criticised, CritiqueItem, critique};
