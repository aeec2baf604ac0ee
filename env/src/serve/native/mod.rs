//! Our own protocol: batches of episodes, by id or with their whole state in the request.

mod reset;
mod stateless;
mod step;

pub(super) use reset::{Begun, ResetItem, reset};
pub(super) use stateless::{
    ScoreItem, TransitionItem, Went, checked, score, task, transition, unknown, write, written,
};
pub(super) use step::{CloseItem, StepItem, Stepped, close, step, turn_of};
