//! How is a model trained? All settings of a run, with their defaults.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device};
use hindsearch_env::experience::{Distiller, ExperienceSettings};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use crate::decoder::{Decoder, LoraConfig};
use crate::generate::Sampling;
use crate::hindsight::{HindsightSettings, TeacherWeights, View};
use crate::objective::Objectives;
use crate::ops::Placement;
use crate::optim::{AdamW, AdamWSettings};
use crate::schedule::Schedule;
use crate::update::{Learner, LearnerParts, UpdateSettings};
use crate::{Error, Result};

/// AdamW moves each weight by about its rate: with a higher one nothing is left of a model.
const MOST_RATE: f64 = 1.0;
/// Episodes of a task in a step.
const MOST_SAMPLES: u32 = 1 << 14;

/// What is made smaller where nothing is said.
pub const DEFAULT_OBJECTIVE: &str = "search-r1";

/// All settings of a run; a TOML file. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSettings {
    /// Where all that is drawn comes from.
    pub seed: u64,
    /// Steps of reinforcement learning.
    pub steps: u64,
    /// Where the model is.
    pub device: Processor,
    /// What it computes in; f32 on the CPU and bf16 on a GPU where it is left out.
    pub precision: Option<Precision>,
    /// What is learnt by imitation before.
    pub imitation: Imitation,
    /// Adapters beside frozen weights; where they are left out, all weights learn.
    pub lora: Option<LoraConfig>,
    /// How episodes are played.
    pub rollout: RolloutSettings,
    /// What is made smaller: the name of a preset, or a table, in which `preset` names what the rest changes.
    pub objective: Objective,
    /// Who teaches in hindsight, and what of; what is made of it is set in `objective.hindsight`.
    pub hindsight: HindsightSettings,
    /// What guides rollouts (HiExp).
    pub experience: ExperienceSettings,
    /// How gradients change weights.
    pub optimizer: AdamWSettings,
    /// The learning rate of each update, from the first one behind the imitation on.
    pub schedule: Schedule,
    /// How updates are made.
    pub update: UpdateSettings,
    /// How the model is tested on the way.
    pub evaluation: Evaluation,
    /// How often all is saved.
    pub checkpoint: CheckpointSettings,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            steps: 100,
            device: Processor::Cpu,
            precision: None,
            imitation: Imitation::default(),
            lora: None,
            rollout: RolloutSettings::default(),
            objective: Objective::Name(DEFAULT_OBJECTIVE.into()),
            hindsight: HindsightSettings::default(),
            experience: ExperienceSettings::default(),
            optimizer: AdamWSettings::default(),
            schedule: Schedule::default(),
            update: UpdateSettings::default(),
            evaluation: Evaluation::default(),
            checkpoint: CheckpointSettings::default(),
        }
    }
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// The CPU.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
}

/// The type of weights and activations. Sums, and weights that learn, are kept in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, with the range of f32 and 8 bits of precision.
    Bf16,
}

/// A preset's name, or a table of objectives. `preset = "gspo"` in the table names the preset that the rest of it changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Objective {
    /// One of [`crate::OBJECTIVE_PRESETS`].
    Name(String),
    /// All of it.
    Table(Box<Objectives>),
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Name(name)),
            Value::Table(mut table) => {
                let changed = match table.remove("preset") {
                    Some(Value::String(name)) => Objectives::changed(&name, table),
                    Some(other) => {
                        return Err(D::Error::custom(format!(
                            "`preset` of `objective`: expected a name, found {other}"
                        )));
                    }
                    None => table.try_into().map_err(|error: toml::de::Error| error.to_string()),
                };
                changed.map(|objectives| Self::Table(Box::new(objectives))).map_err(D::Error::custom)
            }
            other => Err(D::Error::custom(format!("`objective`: expected a preset's name or a table, found {other}"))),
        }
    }
}

/// Supervised steps before the first one of reinforcement: what one wrote that knows the answers is imitated, or what is in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Imitation {
    /// Steps.
    pub steps: u64,
    /// Tasks of a step, or episodes of a file.
    pub tasks: usize,
    /// The learning rate.
    pub rate: f64,
    /// A file of trajectories that are imitated, whatever they earned; where it is left out, one plays that knows the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episodes: Option<PathBuf>,
}

impl Default for Imitation {
    fn default() -> Self {
        Self { steps: 0, tasks: 16, rate: 1e-5, episodes: None }
    }
}

/// How episodes are played.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutSettings {
    /// Tasks of a step.
    pub tasks: usize,
    /// Episodes of each: a group.
    pub samples: u32,
    /// Episodes under way at a time.
    pub parallel: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Whether experience is shown, where there is some.
    pub guided: bool,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self { tasks: 16, samples: 5, parallel: 64, sampling: Sampling::default(), guided: true }
    }
}

/// How the model is tested: greedily, each task once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluation {
    /// After so many steps, and before the first and after the last; 0 is never.
    pub every: u64,
    /// The first so many of the held-out tasks; 0 is all.
    pub tasks: usize,
    /// Whether experience is shown, where there is some.
    pub guided: bool,
}

impl Default for Evaluation {
    fn default() -> Self {
        Self { every: 10, tasks: 0, guided: true }
    }
}

/// How often all is saved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSettings {
    /// After so many steps, and after the last.
    pub every: u64,
    /// How many are kept.
    pub keep: std::num::NonZero<usize>,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self { every: 10, keep: std::num::NonZero::<usize>::MIN }
    }
}

impl TrainSettings {
    /// Settings in TOML. What is not said has its default. `what` is what an error calls the text.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an unknown key or a value out of its range.
    pub fn parse(text: &str, what: &str) -> Result<Self> {
        let settings = Self::read(text, what)?;
        settings.check()?;
        Ok(settings)
    }

    /// What is written there, whether or not it belongs together.
    pub(crate) fn read(text: &str, what: &str) -> Result<Self> {
        let read = toml::from_str(text);
        read.map_err(|error: toml::de::Error| Error::invalid(what, "settings of a run", error.to_string().trim_end()))
    }

    /// As TOML, with all values.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        let objective = Objective::Table(Box::new(self.objectives()?));
        let resolved = Self { objective, precision: Some(self.precision()), ..self.clone() };
        toml::to_string(&resolved)
            .map_err(|error| Error::invalid("the settings", "what TOML can hold", error.to_string()))
    }

    /// What is made smaller.
    ///
    /// # Errors
    /// Those of [`Objectives::named`].
    pub fn objectives(&self) -> Result<Objectives> {
        match &self.objective {
            Objective::Name(name) => Objectives::named(name),
            Objective::Table(objectives) => Ok(**objectives),
        }
    }

    /// A learner of this model that has made no update.
    ///
    /// # Errors
    /// Those of [`Self::objectives`] and [`Learner::new`].
    pub fn learner(&self, decoder: Arc<Decoder>) -> Result<Learner> {
        Learner::new(LearnerParts {
            decoder,
            objectives: self.objectives()?,
            teacher: self.hindsight.teacher.clone(),
            optimizer: self.optimizer,
            settings: self.update,
            temperature: self.rollout.sampling.temperature,
        })
    }

    /// Whether a model is held beside the one that learns: the reference, or a teacher of other weights.
    ///
    /// # Errors
    /// Those of [`Self::objectives`].
    pub fn holds_another_model(&self) -> Result<bool> {
        let objectives = self.objectives()?;
        let teaches = objectives.needs_teacher() && self.hindsight.teacher.weights != TeacherWeights::Current;
        Ok(objectives.needs_reference() || teaches)
    }

    /// What the model computes in.
    pub fn precision(&self) -> Precision {
        self.precision.unwrap_or(match self.device {
            Processor::Cpu => Precision::F32,
            Processor::Cuda => Precision::Bf16,
        })
    }

    /// Where the model is and what it computes in. Begins to use the GPU, where that is it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a GPU in a program that was built without; [`Error::NotFound`] where there is none.
    pub fn placement(&self) -> Result<Placement> {
        let device = match self.device {
            Processor::Cpu => Device::Cpu,
            // A stream of its own: the default one is another for each thread, and does not wait for those of others.
            Processor::Cuda if cfg!(feature = "cuda") => Device::new_cuda_with_stream(0).map_err(|error| {
                let error = error.to_string();
                let said = error.lines().next().unwrap_or_default();
                Error::NotFound {
                    what: "a GPU".into(),
                    remedy: format!("CUDA says: {said}; see whether `nvidia-smi` shows one, or set `device` to `cpu`"),
                }
            })?,
            Processor::Cuda => {
                let expected = "`cpu`, or a program built with `cargo build --release --features cuda`";
                return Err(Error::invalid("device", expected, "`cuda` in one that was built without"));
            }
        };
        let dtype = match self.precision() {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
        };
        // Products in f32 of numbers that are bf16, for logits: nothing of them is lost in TF32's 10 bits.
        candle_core::cuda::set_gemm_reduced_precision_f32(dtype == DType::BF16);
        Ok(Placement { device, dtype })
    }

    /// A teacher that is told nothing teaches nothing, and one whose words have no weight is asked for nothing.
    fn check_teacher(&self) -> Result<()> {
        let objectives = self.objectives()?;
        let refuse = |what: &str, expected: &str, found: String| Err(Error::invalid(what, expected, found));
        let HindsightSettings { view, schedule, guards, .. } = &self.hindsight;
        match (objectives.needs_teacher(), *view) {
            (true, View::None) => {
                let expected =
                    "what the teacher is told (`critique`, `siblings`, ...), since `objective.hindsight` has weights";
                return refuse("hindsight.view", expected, "`none`".into());
            }
            (false, View::None) => return Ok(()),
            (false, _) => {
                let expected = "a weight in `objective.hindsight`, since `hindsight.view` is not `none`";
                return refuse("objective.hindsight", expected, "none".into());
            }
            (true, View::Siblings | View::BetterSibling) if self.rollout.samples < 2 => {
                let expected = "2 or more, for the teacher is told of siblings";
                return refuse("rollout.samples", expected, self.rollout.samples.to_string());
            }
            (true, _) => {}
        }
        if self.steps > 0 && (0..self.steps).all(|step| schedule.factor(step) == 0.0) {
            let expected = format!("a teacher that counts in some of the {} steps", self.steps);
            let found = format!("start = {}, until = {}", schedule.start, schedule.until);
            return refuse("hindsight.schedule", &expected, found);
        }
        if guards.kl.is_some() && !objectives.needs_reference() {
            return refuse(
                "hindsight.guards.kl",
                "`objective.kl.weight` other than 0, which makes it known",
                "0".into(),
            );
        }
        if guards.saturation.is_some() && objectives.hindsight.distillation.weight == 0.0 {
            let expected = "`objective.hindsight.distillation.weight` other than 0, which makes it known";
            return refuse("hindsight.guards.saturation", expected, "0".into());
        }
        Ok(())
    }

    /// What types cannot say.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a value out of its range.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("rollout.tasks", self.rollout.tasks as u64),
            ("rollout.samples", u64::from(self.rollout.samples)),
            ("rollout.parallel", self.rollout.parallel as u64),
            ("checkpoint.every", self.checkpoint.every),
            ("imitation.tasks", self.imitation.tasks as u64),
            ("update.micro_tokens", self.update.micro_tokens as u64),
            ("update.epochs", self.update.epochs as u64),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(name, "1 or more", "0"));
        }
        for (name, rate) in [("imitation.rate", self.imitation.rate), ("schedule.peak", self.schedule.peak)] {
            if !(0.0..=MOST_RATE).contains(&rate) {
                return Err(Error::invalid(name, format!("a learning rate of 0 to {MOST_RATE}"), rate.to_string()));
            }
        }
        if (self.device, self.precision()) == (Processor::Cpu, Precision::Bf16) {
            let expected = "`f32` on the CPU, where bf16 has no fast products: it is slower there, and less exact";
            return Err(Error::invalid("precision", expected, "`bf16`"));
        }
        if !(0.0..=1.0).contains(&self.schedule.floor) {
            return Err(Error::invalid("schedule.floor", "0 to 1", self.schedule.floor.to_string()));
        }
        if self.rollout.samples > MOST_SAMPLES {
            let (expected, found) = (format!("1 to {MOST_SAMPLES}"), self.rollout.samples.to_string());
            return Err(Error::invalid("rollout.samples", expected, found));
        }
        if let Some(lora) = &self.lora {
            lora.check()?;
        }
        AdamW::new(self.optimizer)?;
        self.rollout.sampling.check()?;
        self.hindsight.check()?;
        self.experience.check()?;
        if self.experience.guides() != (self.experience.file.is_some() || self.experience.refresh_every > 0) {
            let expected =
                "a file of `hindsearch experience build` with what of it is shown (`planning`, `step`), or neither";
            let ExperienceSettings { file, planning, step, .. } = &self.experience;
            return Err(Error::invalid("experience", expected, format!("{file:?}, {planning:?}, {step:?}")));
        }
        if self.experience.refresh_every > 0 && self.experience.distiller == Distiller::Teacher {
            let expected =
                "`self` or `rules` with `refresh_every`; another model writes with `hindsearch experience build`";
            return Err(Error::invalid("experience.distiller", expected, "`teacher`"));
        }
        self.check_teacher()?;
        self.objectives()?.check()
    }
}
