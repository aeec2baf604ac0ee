//! Question-answering episodes over a retriever, and their rewards. See the crate's README for a map.

mod action;
#[cfg(feature = "remote")]
mod endpoint;
mod error;
mod escape;
mod fence;
pub mod hindsight;
#[cfg(feature = "remote")]
mod judge;
mod log;
pub mod policy;
mod preset;
mod render;
mod reward;
mod rollout;
mod rules;
#[cfg(feature = "serve")]
pub mod serve;
mod task;
pub mod tasks;
mod text;
mod trajectory;
mod verdicts;
#[cfg(feature = "viewer")]
pub mod viewer;
mod writer;

#[cfg(feature = "remote")]
pub use endpoint::Endpoint;
pub use error::{Error, Result};
pub use escape::{escape, unescape};
#[cfg(feature = "remote")]
pub use judge::{Judge, Judging, Told};
pub use log::{STEPS, TRAJECTORIES, TrajectoryLog, read_trajectories, trajectories_file};
pub use preset::{
    Budget, Choose, Clip, Cut, End, Grammar, Invalid, JsonForm, LastTurn, Limits, Observation, Overflow, PRESETS,
    Preset, Prompt, QueryForm, Tags, Then,
};
#[cfg(feature = "schema")]
pub use preset::{Choice, Key, keys};
pub use render::{FourCharacters, Measure};
pub use reward::{
    Normalizer, Response, Reward, RewardRules, Scored, ScoredText, Scorer, Term, Verdict, reference_score, scorers,
};
pub use rollout::{Rollout, RolloutOptions, Summary, replay, score};
pub use rules::{Decision, Message, Rules, Transition};
pub use task::{Gold, Task};
pub use trajectory::{Action, Author, Bytes, Found, Role, Span, Stop, TRAJECTORY_VERSION, Trajectory, Turn};
pub use verdicts::{Judgement, Verdicts};
pub use writer::{CachedWriter, Request, Writer};
#[cfg(feature = "remote")]
pub use writer::{ServerWriter, ServerWriterOptions};
