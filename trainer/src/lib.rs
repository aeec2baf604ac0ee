//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod checkpoint;
mod error;
mod monitor;
mod optim;
mod plan;
mod random;
mod run_folder;
mod schedule;

pub use advantage::{Baseline, advantages};
pub use checkpoint::{Checkpoint, Checkpoints, Skipped, TensorData};
pub use error::{Error, Result};
pub use monitor::{Axes, Monitor, Notice, OnNotice, Point, Record, Series, chart, read_metrics};
pub use optim::{AdamW, AdamWSettings, Trainable, Updated, gradient_norm};
pub use plan::{Machine, Method, Plan, PlanSettings, Shape, plan};
pub use random::Position;
pub use run_folder::RunFolder;
pub use schedule::{Decay, Schedule};
