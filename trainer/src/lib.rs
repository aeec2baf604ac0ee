//! A policy trainer that plugs into the search environment. See the crate's README for a map.

mod advantage;
mod batch;
mod checkpoint;
mod decoder;
mod error;
mod generate;
mod hindsight;
mod layers;
mod model;
mod monitor;
mod objective;
pub mod ops;
mod optim;
mod plan;
mod policy;
mod presets;
mod random;
mod run_folder;
mod schedule;
mod settings;
pub mod sweep;
mod text;
mod train;
mod update;
mod writer;

pub use advantage::{Advantage, Baseline, Deviation, Single};
pub use batch::Sample;
pub use checkpoint::{Checkpoint, Checkpoints, Skipped, TensorData};
pub use decoder::{Decoder, LoraConfig, Packed, Pass};
pub use error::{Error, Result};
pub use generate::{Engine, EngineOptions, Generated, Reason, Request, Sampling};
pub use hindsight::{
    Apply, Broadcast, CriticKind, CriticSettings, Guarded, Guards, HindsightSchedule, HindsightSettings, Lesson,
    Refresh, TaughtTokens, TeacherSettings, TeacherWeights, View,
};
pub use layers::{Difference, Layers};
pub use model::{
    ModelConfig, ModelFiles, ModelOutput, RopeScaling, StoredType, Weight, Weights, expected_tensors, read_tensors,
    write_model, write_tensors,
};
pub use monitor::{Axes, Monitor, Notice, OnNotice, Point, Record, Series, chart, read_metrics};
pub use objective::{
    Aggregation, Distance, Distillation, Divergence, Entropy, Hindsight, Kl, KlEstimator, KlForm, LossTerms, Metric,
    Metrics, Modulation, ModulationForm, NO_TOKEN, Normaliser, OBJECTIVE_PRESETS, Objective, Objectives,
    PolicyGradient, Ratio, Scope, Side, Supervised, Support, Surrogate, Tail, Teacher, TokenCount, TokenScope, Tokens,
    TopTokens, Totals,
};
pub use ops::Placement;
pub use optim::{AdamW, AdamWSettings, Trainable, Updated, gradient_norm};
pub use plan::{Machine, Method, Plan, PlanSettings, Shape, plan};
pub use policy::LocalPolicy;
pub use presets::{DEFAULT_RECIPE, TRAIN_PRESETS, TrainPreset};
pub use random::Position;
pub use run_folder::{Fingerprint, RunFolder};
pub use schedule::{Decay, Schedule};
pub use settings::{
    CheckpointSettings, DEFAULT_OBJECTIVE, Evaluation, Imitation, Objective as ObjectiveSetting, Precision, Processor,
    RolloutSettings, TrainSettings,
};
pub use text::{Chat, ChatTemplate, Detokenizer, Language, StopMatch, Tokenizer};
pub use train::{Guidance, Training, Watch};
pub use update::{Learner, LearnerParts, UpdateSettings};
pub use writer::LocalWriter;
