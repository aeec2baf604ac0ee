//! What did the runs of a sweep find, as far as they have ended?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use toml::{Table, Value};

use super::expectation::Finding;
use super::file::{Arm, Sweep};
use super::runs::{Planned, State};
use super::scores::Scores;
use super::spread::Spread;
use crate::layers::Difference;
use crate::monitor::{Axes, Series, chart};
use crate::{Error, Result};

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of this program.
    pub version: String,
    /// The model that all begin with.
    pub model: String,
    /// Where passages come from.
    pub index: String,
    /// The number by which arms are compared.
    pub metric: String,
    /// Seeds of each arm.
    pub seeds: Vec<u64>,
    /// Held-out tasks that a score is of.
    pub tested: Option<f64>,
    /// The arms, in the order of the file.
    pub arms: Vec<ArmReport>,
    /// Published orders.
    pub expectations: Vec<Finding>,
    /// Runs that failed, and why.
    pub failures: BTreeMap<String, String>,
}

/// An arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmReport {
    /// Its name.
    pub name: String,
    /// Its preset.
    pub preset: Option<String>,
    /// Its settings where they are not those of the first arm, by dotted key.
    pub differs: BTreeMap<String, String>,
    /// Scores before the first step, over seeds; such as the following of runs that have ended.
    pub start: Option<Spread>,
    /// Scores at the end.
    pub end: Option<Spread>,
    /// 95 % confidence.
    pub end_interval: Option<(f64, f64)>,
    /// Seconds of a step.
    pub step_seconds: Option<Spread>,
    /// The teacher's share of them.
    pub teacher_share: Option<Spread>,
    /// What the teacher did.
    pub hindsight: BTreeMap<String, Spread>,
    /// Its runs.
    pub runs: Vec<RunReport>,
}

/// A run of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// How far it is.
    pub state: State,
    /// Its numbers, if it has ended.
    pub scores: Option<Scores>,
}

impl Report {
    /// Reads what the runs of a sweep have left in its folder. `failures` are those that are known, by the run's words.
    ///
    /// # Errors
    /// Those of [`Scores::read`] and [`Sweep::settings_of`].
    pub fn new(sweep: &Sweep, out: &Path, failures: &BTreeMap<String, String>) -> Result<Self> {
        let first = sweep.arms.first().map_or(Ok(Table::new()), |arm| settings(sweep, arm))?;
        let arms = sweep.arms.iter().map(|arm| ArmReport::new(sweep, arm, out, &first)).collect::<Result<Vec<_>>>()?;
        let ends = |name: &str| arms.iter().find(|arm| arm.name == name).map_or(Vec::new(), ArmReport::ends);
        let found = |expect| Finding::new(expect, &ends(&expect.better), &ends(&expect.than));
        let expectations = sweep.expect.iter().map(found).collect();
        let tested = arms.iter().flat_map(ArmReport::scores).find_map(|scores| scores.tested);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            model: sweep.model.display().to_string(),
            index: sweep.index.clone(),
            metric: sweep.metric.clone(),
            seeds: sweep.seeds.clone(),
            tested,
            expectations,
            failures: failures.clone(),
            arms,
        })
    }

    /// Scores over steps: means over the seeds that have ended, with one standard deviation to both sides.
    pub fn curves(&self) -> String {
        let curve = |arm: &ArmReport| {
            let runs: Vec<Vec<(f64, f64)>> = arm.scores().map(|scores| scores.curve.clone()).collect();
            Series::mean(&*arm.name, &runs)
        };
        let shown: Vec<Series> = self.arms.iter().map(curve).filter(|series| !series.points.is_empty()).collect();
        let title = format!("{}, mean over seeds and one standard deviation", self.metric);
        chart(&title, &shown, Axes { x: "step", y: &self.metric })
    }

    /// Settings that say how much is learnt from, where arms differ in them.
    pub fn unequal_budgets(&self) -> BTreeSet<&str> {
        let of_budget = |key: &&str| {
            ["steps", "rollout.tasks", "rollout.samples", "update.epochs"].contains(key)
                || key.starts_with("imitation.")
        };
        self.arms.iter().flat_map(|arm| arm.differs.keys().map(String::as_str)).filter(of_budget).collect()
    }
}

impl ArmReport {
    fn new(sweep: &Sweep, arm: &Arm, out: &Path, first: &Table) -> Result<Self> {
        let runs = sweep.seeds.iter().map(|&seed| {
            let run = Planned { arm: Some(arm), seed };
            let state = run.state(out);
            let begun = sweep.settings_of(run)?.imitation.steps;
            let read = || Scores::read(&run.folder(out), &sweep.metric, begun);
            Ok(RunReport { seed, state, scores: (state == State::Ended).then(read).transpose()? })
        });
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let scores = || runs.iter().filter_map(|run| run.scores.as_ref());
        let over = |value: &dyn Fn(&Scores) -> Option<f64>| Spread::of(&scores().filter_map(value).collect::<Vec<_>>());
        let names: BTreeSet<&String> = scores().flat_map(|scores| scores.hindsight.keys()).collect();
        let told = |value: Option<Value>| value.map_or("none".into(), |value| value.to_string());
        let differences = Difference::of(first, &settings(sweep, arm)?).into_iter();
        let end = over(&|scores| Some(scores.end));
        Ok(Self {
            name: arm.name.clone(),
            preset: arm.preset.clone(),
            differs: differences.map(|difference| (difference.key, told(difference.after))).collect(),
            start: over(&|scores| scores.start),
            end_interval: end.and_then(|end| end.interval()),
            end,
            step_seconds: over(&|scores| scores.step_seconds),
            teacher_share: over(&|scores| scores.teacher_share),
            hindsight: names
                .into_iter()
                .filter_map(|name| Some((name.clone(), over(&|scores| scores.hindsight.get(name).copied())?)))
                .collect(),
            runs,
        })
    }

    fn scores(&self) -> impl Iterator<Item = &Scores> {
        self.runs.iter().filter_map(|run| run.scores.as_ref())
    }

    /// The last scores, by seed.
    fn ends(&self) -> Vec<(u64, f64)> {
        self.runs.iter().filter_map(|run| Some((run.seed, run.scores.as_ref()?.end))).collect()
    }
}

/// All settings of an arm, and its recipe.
fn settings(sweep: &Sweep, arm: &Arm) -> Result<Table> {
    let run = Planned { arm: Some(arm), seed: 0 };
    let text = sweep.settings_of(run)?.to_toml()?;
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
        Error::invalid(format!("settings of arm `{}`", arm.name), "TOML", error.to_string())
    })?;
    table.insert("recipe".into(), Value::String(sweep.recipe_of(run)?));
    Ok(table)
}
