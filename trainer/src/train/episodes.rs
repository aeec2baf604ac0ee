//! How are tasks drawn and episodes played, and what is told of them?

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use hindsearch_env::policy::{Oracle, Policy};
use hindsearch_env::scorers::searches_that_found;
use hindsearch_env::{Preset, Rollout, RolloutOptions, Stop, Task, Trajectory, TrajectoryLog, read_trajectories};
use hindsearch_indexes::Interrupt;
use rand::seq::SliceRandom;

use super::Training;
use crate::batch::Sample;
use crate::objective::Metrics;
use crate::random::Position;
use crate::{Error, Result};

impl Training<'_> {
    /// Plays each task so many times; in the order of tasks and plays.
    pub(super) fn play(
        &self,
        policy: &dyn Policy,
        tasks: &[Task],
        samples: u32,
        step: u64,
        interrupt: &Interrupt,
    ) -> Result<Vec<Trajectory>> {
        let path = self.step_file(step);
        let what = if step <= self.settings.imitation.steps { "imitating" } else { "playing" };
        self.episodes(policy, tasks, samples, &path, (what, step), interrupt)
    }

    pub(super) fn step_file(&self, step: u64) -> PathBuf {
        self.folder.path().join("trajectories").join(format!("step-{step:06}.jsonl"))
    }

    /// Writes the episodes of a step in place of what was written of them.
    pub(super) fn write_again(&self, episodes: &[Trajectory], step: u64) -> Result<()> {
        let path = self.step_file(step);
        let unfinished = path.with_extension("unfinished");
        begin(&unfinished)?;
        let mut log = TrajectoryLog::open(&unfinished)?;
        episodes.iter().try_for_each(|episode| log.append(episode))?;
        drop(log);
        fs::rename(&unfinished, &path).map_err(Error::io("rename", &unfinished))
    }

    pub(super) fn episodes(
        &self,
        policy: &dyn Policy,
        tasks: &[Task],
        samples: u32,
        path: &Path,
        (what, step): (&'static str, u64),
        interrupt: &Interrupt,
    ) -> Result<Vec<Trajectory>> {
        begin(path)?;
        let options = RolloutOptions {
            samples: NonZero::new(samples).unwrap_or(NonZero::<u32>::MIN),
            parallel: NonZero::new(self.settings.rollout.parallel).unwrap_or(NonZero::<usize>::MIN),
            // Each step draws anew, and the same when it is played again.
            seed: Position { seed: self.settings.seed, purpose: what, update: step, task: "", sample: 0 }.number(),
            ..RolloutOptions::default()
        };
        let is_guided = match what {
            "playing" => self.settings.rollout.guided,
            "testing" => self.settings.evaluation.guided,
            _ => false,
        };
        let guide = self.guidance.now().filter(|_| is_guided);
        let rollout =
            Rollout { rules: self.rules, retriever: self.retriever, policy, guide: guide.as_deref(), options };
        let mut log = TrajectoryLog::open(path)?;
        let summary = rollout.run(tasks, &mut log, &|done| self.watch.progress(what, done), interrupt)?;
        if let (0, Some(failure)) = (summary.played, summary.failure) {
            return Err(hindsearch_env::Error::Unavailable {
                what: format!("all {} episodes of step {step}", summary.failed),
                found: failure,
                remedy: "mend that, and the same command goes on from the last checkpoint".into(),
            }
            .into());
        }
        drop(log);
        let mut episodes = read_trajectories(path)?;
        let order: BTreeMap<&str, usize> = tasks.iter().enumerate().map(|(at, task)| (task.id(), at)).collect();
        episodes.sort_by_key(|episode| (order.get(episode.task.as_str()).copied(), episode.sample));
        Ok(episodes)
    }

    /// What is imitated in a step: examples where there are some, else what one plays that knows the answers.
    pub(super) fn imitated(&self, step: u64, interrupt: &Interrupt) -> Result<Vec<Sample>> {
        let count = self.settings.imitation.tasks;
        if !self.examples.is_empty() {
            let chosen = self.drawn(step - 1, count, self.examples.len(), "imitation");
            return chosen.into_iter().map(|at| self.sample(&self.examples[at], 0.0)).collect();
        }
        let tasks = self.draw(step - 1, count, "imitation");
        let episodes = self.play(&Oracle::new(&tasks), &tasks, 1, step, interrupt)?;
        let over = episodes.iter().filter(|episode| episode.reward.is_some());
        over.map(|episode| self.sample(episode, 0.0)).collect()
    }

    fn sample(&self, episode: &Trajectory, advantage: f64) -> Result<Sample> {
        Sample::new(self.language, &self.rules.preset().prompt, episode, advantage)
    }

    /// Tasks of a step: the next ones of an order that is drawn anew for each round through all of them.
    pub(super) fn draw(&self, step: u64, count: usize, purpose: &str) -> Vec<Task> {
        let chosen = self.drawn(step, count, self.tasks.len(), purpose);
        let mut tasks: Vec<Task> = Vec::new();
        for task in chosen.into_iter().map(|at| &self.tasks[at]) {
            // Two of the same content are one.
            if !tasks.iter().any(|other| other.id() == task.id()) {
                tasks.push(task.clone());
            }
        }
        tasks
    }

    /// Places of what a step takes, of `total`; each once.
    fn drawn(&self, step: u64, count: usize, total: usize, purpose: &str) -> Vec<usize> {
        let total = total as u64;
        let mut chosen = Vec::new();
        let mut order: (Option<u64>, Vec<usize>) = (None, Vec::new());
        // A step that is longer than a round takes each once.
        let count = total.min(count as u64);
        for number in step * count..(step + 1) * count {
            let round = number / total;
            if order.0 != Some(round) {
                let mut places: Vec<usize> = (0..total as usize).collect();
                let position = Position { seed: self.settings.seed, purpose, update: round, task: "", sample: 0 };
                places.shuffle(&mut position.stream());
                order = (Some(round), places);
            }
            let place = order.1[(number % total) as usize];
            // Two rounds may meet in a step.
            if !chosen.contains(&place) {
                chosen.push(place);
            }
        }
        chosen
    }
}

/// Numbers by name.
pub(super) type Numbers = BTreeMap<String, f64>;

pub(super) fn add(numbers: &mut Numbers, metrics: &Metrics) {
    numbers.extend(metrics.iter().map(|(name, value)| (name.to_owned(), value)));
}

/// Tasks by their ids, which are those that episodes name.
pub(super) fn by_id(tasks: &[Task]) -> HashMap<&str, &Task> {
    tasks.iter().map(|task| (task.id(), task)).collect()
}

/// What episodes were like.
pub(super) fn describe(numbers: &mut Numbers, preset: &Preset, tasks: &[Task], episodes: &[Trajectory]) {
    let by_id = by_id(tasks);
    let of = |episode: &Trajectory| Some(searches_that_found(preset, by_id.get(&*episode.task)?, episode));
    let found: Vec<bool> = episodes.iter().filter_map(of).flatten().collect();
    if !found.is_empty() {
        let hits = found.iter().filter(|found| **found).count();
        numbers.insert("query/success".into(), hits as f64 / found.len() as f64);
    }
    let over: Vec<&Trajectory> = episodes.iter().filter(|episode| episode.reward.is_some()).collect();
    let count = over.len().max(1) as f64;
    let mut mean = |name: &str, value: &dyn Fn(&Trajectory) -> f64| {
        numbers.insert(name.to_owned(), over.iter().map(|episode| value(episode)).sum::<f64>() / count);
    };
    let written = |episode: &Trajectory| {
        let policy = episode.spans.iter().filter(|span| span.author == hindsearch_env::Author::Policy);
        policy.map(|span| span.tokens.len()).sum::<usize>() as f64
    };
    mean("reward/mean", &|episode| episode.reward.as_ref().map_or(0.0, |reward| reward.total));
    mean("episode/turns", &|episode| episode.turns.len() as f64);
    mean("episode/searches", &|episode| episode.searches() as f64);
    mean("episode/answered", &|episode| f64::from(u8::from(episode.stop == Some(Stop::Answer))));
    mean("episode/tokens", &written);
    numbers.insert("episode/count".into(), over.len() as f64);
    numbers.insert("episode/failed".into(), (episodes.len() - over.len()) as f64);
}

/// An empty file in a folder that is there.
fn begin(path: &Path) -> Result<()> {
    let folder: PathBuf = path.parent().map(Path::to_path_buf).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
