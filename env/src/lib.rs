//! Question-answering episodes over a retriever, and their rewards. See the crate's README for a map.

mod action;
mod error;
mod escape;
mod preset;
mod render;
mod reward;
mod rules;
mod task;
mod text;
mod trajectory;

pub use error::{Error, Result};
pub use escape::{escape, unescape};
pub use preset::{
    Budget, Choose, Cut, End, Grammar, Invalid, JsonForm, LastTurn, Limits, Observation, Overflow, PRESETS, Preset,
    Prompt, QueryForm, Tags, Then,
};
pub use render::{FourCharacters, Measure};
pub use reward::{
    Normalizer, Response, Reward, RewardRules, Scored, ScoredText, Scorer, Term, Verdict, reference_score, scorers,
};
pub use rules::{Decision, Message, Rules, Transition};
pub use task::{Gold, Task};
pub use trajectory::{Action, Author, Bytes, Found, Role, Span, Stop, TRAJECTORY_VERSION, Trajectory, Turn};
