//! The loop: tasks are drawn, episodes played and scored, advantages computed, the model updated, tested and saved.

mod episodes;
mod guidance;
mod lessons;

use std::time::Instant;

use hindsearch_env::hindsight::Critic;
use hindsearch_env::{Rules, Task, Trajectory};
use hindsearch_indexes::{Interrupt, Progress};
use hindsearch_retriever::Retrieve;
use serde_json::json;

use crate::checkpoint::{Checkpoint, Checkpoints, Skipped};
use crate::decoder::Decoder;
use crate::generate::{EngineOptions, Sampling};
use crate::model::{StoredType, Weight, Weights, read_tensors, write_tensors};
use crate::monitor::{Monitor, read_metrics};
use crate::policy::LocalPolicy;
use crate::run_folder::RunFolder;
use crate::settings::TrainSettings;
use crate::text::Language;
use crate::update::Learner;
use crate::{Error, Result};
use episodes::{Numbers, add, describe};

pub use guidance::Guidance;

/// A training run.
pub struct Training<'a> {
    /// How.
    pub settings: &'a TrainSettings,
    /// The recipe of the episodes.
    pub rules: &'a Rules,
    /// Where passages come from.
    pub retriever: &'a dyn Retrieve,
    /// What is learnt on.
    pub tasks: &'a [Task],
    /// What is tested on; never learnt on.
    pub held_out: &'a [Task],
    /// What is imitated; where there is nothing, one plays that knows the answers. See [`crate::Imitation::episodes`].
    pub examples: &'a [Trajectory],
    /// How episodes are told to the model.
    pub language: &'a Language,
    /// What is shown to the policy of what others have learnt, in the prompt and behind passages.
    pub guidance: &'a Guidance,
    /// Who writes critiques, where `hindsight.view` asks for them.
    pub critic: Option<&'a dyn Critic>,
    /// Where all is written.
    pub folder: &'a RunFolder,
    /// Told of what goes on.
    pub watch: &'a dyn Watch,
}

/// Is told how a run goes; the library never prints.
pub trait Watch: Sync {
    /// Something takes its time: `what`, and how far it is.
    fn progress(&self, what: &'static str, done: Progress);

    /// Step `next` of `last` begins; the one before took so many seconds, where there was one.
    fn begins(&self, next: u64, last: u64, seconds: Option<f64>);

    /// A checkpoint was passed over.
    fn skipped(&self, skipped: &Skipped);
}

impl Training<'_> {
    /// Trains until the last step, from the newest checkpoint of the folder where there is one. The same settings, tasks and model
    /// give the same weights, bit for bit, however often the run was stopped, where the model is in f32 on the CPU.
    ///
    /// # Errors
    /// [`Error::Interrupted`] on request, with everything saved; [`Error::Diverged`]; those of the environment when no episode of a
    /// step came to its end; [`Error::Io`].
    pub fn run(
        &self,
        learner: &mut Learner,
        monitor: impl FnOnce(Option<u64>) -> Result<Monitor>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        if self.tasks.is_empty() {
            return Err(Error::invalid("tasks to learn on", "one at least", "none"));
        }
        let checkpoints = Checkpoints::new(self.folder.checkpoints(), self.settings.checkpoint.keep);
        let saved = checkpoints.latest(&|skipped| self.watch.skipped(skipped))?;
        let begun = saved.as_ref().map(|checkpoint| checkpoint.step);
        let monitor = monitor(begun)?;
        let mut place = Place::default();
        if let Some(Checkpoint { step, tensors, state }) = saved {
            learner.restore(tensors, &state["optimizer"])?;
            let tested = self.was_tested(step)?.then_some(step);
            let updates = state["updates"].as_u64().unwrap_or(0);
            let guarded = state["guarded"].as_f64().unwrap_or(1.0);
            if state["stopped"] == true {
                return Err(Error::Diverged {
                    what: format!("the run after step {step}"),
                    found: "a limit of `hindsight.guards` ended it".into(),
                    remedy: "begin another one, with another teacher, another limit or a smaller weight".into(),
                });
            }
            place = Place { step, updates, guarded, is_stopped: false, tested, is_saved: true };
            self.resume_guidance(step)?;
        }
        let outcome = self.steps(learner, &mut place, &monitor, &checkpoints, interrupt);
        if let Err(Error::Interrupted | Error::Env(hindsearch_env::Error::Interrupted)) = outcome {
            // What was begun is done again; the last whole step is saved.
            if place.step > 0 && !place.is_saved {
                self.save(learner, &mut place, &monitor, &checkpoints)?;
            }
            return Err(Error::Interrupted);
        }
        outcome
    }

    fn steps(
        &self,
        learner: &mut Learner,
        place: &mut Place,
        monitor: &Monitor,
        checkpoints: &Checkpoints,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let imitated = self.settings.imitation.steps;
        let last = imitated + self.settings.steps;
        let mut has_reference = imitated == 0 || !learner.needs_reference();
        let mut seconds = None;
        let due = |every: u64, step: u64| every > 0 && (step.is_multiple_of(every) || step == last);
        loop {
            if due(self.settings.evaluation.every, place.step) && place.tested != Some(place.step) {
                self.test(learner, place.step, monitor, interrupt)?;
                place.tested = Some(place.step);
            }
            if place.step > 0 && due(self.settings.checkpoint.every, place.step) && !place.is_saved {
                self.save(learner, place, monitor, checkpoints)?;
            }
            if place.step >= last {
                return Ok(());
            }
            if place.step >= imitated && !has_reference {
                self.refer(learner, place.step)?;
                has_reference = true;
            }
            if place.step == imitated && imitated > 0 {
                learner.begin_average()?;
            }
            let step = place.step + 1;
            self.watch.begins(step, last, seconds);
            let begun = Instant::now();
            let numbers = self.step(learner, step, place, interrupt)?;
            seconds = Some(begun.elapsed().as_secs_f64());
            *place = Place { step, is_saved: false, ..*place };
            monitor.record(step, &numbers.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>());
            if let Some(stopped) = self.guarded(&numbers, place) {
                place.is_stopped = true;
                self.save(learner, place, monitor, checkpoints)?;
                return Err(stopped);
            }
        }
    }

    /// Makes the model as it was behind the imitation the reference.
    fn refer(&self, learner: &mut Learner, step: u64) -> Result<()> {
        let path = self.folder.path().join("reference.safetensors");
        let config = learner.decoder().config().clone();
        let tensors = if step == self.settings.imitation.steps {
            let merged = learner.decoder().merged()?.into_tensors();
            let named: Vec<(&str, &Weight)> = merged.iter().map(|(name, weight)| (name.as_str(), weight)).collect();
            write_tensors(&path, &named, StoredType::F32)?;
            merged
        } else {
            read_tensors(&path)?.into_iter().collect()
        };
        let placement = learner.decoder().placement().clone();
        learner.set_reference(Decoder::placed(&config, Weights::new(&config, tensors)?, false, &placement)?);
        Ok(())
    }

    /// One step: imitation first, then reinforcement.
    fn step(&self, learner: &mut Learner, step: u64, place: &mut Place, interrupt: &Interrupt) -> Result<Numbers> {
        let mut numbers = Numbers::new();
        let (imitation, begun) = (&self.settings.imitation, Instant::now());
        if step <= imitation.steps {
            let samples = self.imitated(step, interrupt)?;
            add(&mut numbers, &learner.imitate(&samples, imitation.rate)?);
            numbers.insert("time/update".into(), begun.elapsed().as_secs_f64());
            return Ok(numbers);
        }
        self.refresh_guidance(learner, step, interrupt)?;
        let tasks = self.draw(step - 1 - imitation.steps, self.settings.rollout.tasks, "tasks");
        let policy = self.policy(learner, self.settings.rollout.sampling)?;
        let mut episodes = self.play(&policy, &tasks, self.settings.rollout.samples, step, interrupt)?;
        drop(policy);
        let playing = begun.elapsed().as_secs_f64();
        numbers.insert("time/rollout".into(), playing);
        describe(&mut numbers, self.rules.preset(), &tasks, &episodes);
        let written = numbers.get("episode/tokens").copied().unwrap_or(0.0) * episodes.len() as f64;
        numbers.insert("speed/written".into(), written / playing);
        let factor = self.settings.hindsight.schedule.factor(step - 1 - imitation.steps) * place.guarded;
        learner.set_hindsight(factor);
        let samples = self.samples(learner, &tasks, &mut episodes, step, &mut numbers)?;
        let updating = Instant::now();
        let before = place.updates;
        let count = learner.updates();
        let schedule = self.settings.schedule;
        add(&mut numbers, &learner.update(&samples, |number| schedule.rate(before + number + 1))?);
        place.updates += learner.updates() - count;
        let learning = updating.elapsed().as_secs_f64();
        numbers.insert("time/update".into(), learning);
        let tokens = samples.iter().map(|sample| sample.tokens.len()).sum::<usize>() * self.settings.update.epochs;
        numbers.insert("speed/learnt".into(), tokens as f64 / learning);
        numbers.insert("time/step".into(), begun.elapsed().as_secs_f64());
        Ok(numbers)
    }

    fn policy(&self, learner: &Learner, sampling: Sampling) -> Result<LocalPolicy> {
        let options = EngineOptions { rows: self.settings.rollout.parallel, ..EngineOptions::default() };
        LocalPolicy::new(learner.decoder().clone(), self.language.clone(), sampling, options)
    }

    /// Whether the numbers of a test after this step were kept.
    fn was_tested(&self, step: u64) -> Result<bool> {
        let path = self.folder.path().join("metrics.jsonl");
        if !path.exists() {
            return Ok(false);
        }
        let records = read_metrics(&path, &|_| {})?;
        Ok(records
            .iter()
            .any(|record| record.step == step && record.values.keys().any(|name| name.starts_with("test/"))))
    }

    /// Plays the held-out tasks greedily.
    fn test(&self, learner: &Learner, step: u64, monitor: &Monitor, interrupt: &Interrupt) -> Result<()> {
        let count = match self.settings.evaluation.tasks {
            0 => self.held_out.len(),
            most => most.min(self.held_out.len()),
        };
        if count == 0 || self.settings.evaluation.every == 0 {
            return Ok(());
        }
        let begun = Instant::now();
        let policy = self.policy(learner, Sampling::greedy())?;
        let path = self.folder.path().join("evaluation").join(format!("step-{step:06}.jsonl"));
        let episodes = self.episodes(&policy, &self.held_out[..count], 1, &path, ("testing", step), interrupt)?;
        let mut numbers = Numbers::new();
        describe(&mut numbers, self.rules.preset(), self.held_out, &episodes);
        let mut named: Vec<(String, f64)> =
            numbers.into_iter().map(|(name, value)| (format!("test/{name}"), value)).collect();
        named.push(("time/test".into(), begun.elapsed().as_secs_f64()));
        monitor.record(step, &named.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>());
        Ok(())
    }

    fn save(&self, learner: &Learner, place: &mut Place, monitor: &Monitor, checkpoints: &Checkpoints) -> Result<()> {
        monitor.sync();
        let (tensors, optimizer) = learner.state()?;
        let state = json!({ "optimizer": optimizer, "updates": place.updates, "guarded": place.guarded, "stopped": place.is_stopped });
        checkpoints.save(&Checkpoint { step: place.step, tensors, state })?;
        place.is_saved = true;
        Ok(())
    }
}

impl Default for Place {
    fn default() -> Self {
        Self { step: 0, updates: 0, guarded: 1.0, is_stopped: false, tested: None, is_saved: false }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
struct Place {
    step: u64,
    /// Updates of reinforcement learning.
    updates: u64,
    /// What guards have made of the weights of all that needs a teacher.
    guarded: f64,
    /// Whether a guard has ended the run.
    is_stopped: bool,
    /// The step after which the model was last tested.
    tested: Option<u64>,
    /// Whether all of this is in a checkpoint.
    is_saved: bool,
}
