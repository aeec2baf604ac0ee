//! What do the numbers of a run come to?

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::spread::Spread;
use crate::monitor::{Record, read_metrics};
use crate::{Error, Result};

/// Names of numbers that say what a teacher did.
const OF_TEACHERS: &str = "hindsight/";

/// The numbers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The score before the first step of reinforcement.
    pub start: Option<f64>,
    /// The last score.
    pub end: f64,
    /// The step with the highest score; the first of several.
    pub best_step: Option<u64>,
    /// Held-out tasks that the last score is of.
    pub tested: Option<f64>,
    /// Seconds of a step of reinforcement, on average.
    pub step_seconds: Option<f64>,
    /// The teacher's share of that time.
    pub teacher_share: Option<f64>,
    /// What the teacher did, on average over the steps that say so.
    pub hindsight: BTreeMap<String, f64>,
    /// Steps and scores.
    pub curve: Vec<(f64, f64)>,
}

impl Scores {
    /// Reads the metrics of a run whose reinforcement begins behind step `begun`.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a run that was never tested; [`Error::File`] and [`Error::Io`] for metrics that cannot be read.
    pub fn read(run: &Path, metric: &str, begun: u64) -> Result<Self> {
        let path = run.join("metrics.jsonl");
        let records = read_metrics(&path, &|_| {})?;
        let scored =
            |record: &Record| Some((record.step, record.values.get(metric).copied().filter(|v| v.is_finite())?));
        let curve: Vec<(u64, f64)> = records.iter().filter_map(scored).collect();
        let Some((_, end)) = curve.last().copied() else {
            return Err(Error::NotFound {
                what: format!("`{metric}` in `{}`", path.display()),
                remedy: "compare by a number that the runs have, and test: `evaluation.every` above 0".into(),
            });
        };
        let highest = curve.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        let tested = records.iter().rev().find_map(|record| record.values.get("test/episode/count").copied());
        let seconds = values(&records, "time/step");
        let total = seconds.iter().sum::<f64>();
        let teacher = values(&records, "time/teacher").iter().sum::<f64>();
        let asked = records.iter().any(|record| record.values.contains_key("time/teacher"));
        let names = records.iter().flat_map(|record| record.values.keys()).filter(|name| name.starts_with(OF_TEACHERS));
        let mean = |values: &[f64]| Spread::of(values).map(|spread| spread.mean);
        let named = |name: &String| Some((name.clone(), mean(&values(&records, name))?));
        Ok(Self {
            start: curve.iter().find(|(step, _)| *step == begun).map(|(_, score)| *score),
            end,
            best_step: curve.iter().find(|(_, score)| *score == highest).map(|(step, _)| *step),
            tested,
            step_seconds: mean(&seconds),
            teacher_share: (asked && total > 0.0).then_some(teacher / total),
            hindsight: names.filter_map(named).collect(),
            curve: curve.iter().map(|(step, score)| (*step as f64, *score)).collect(),
        })
    }
}

/// A number of each step that has it.
fn values(records: &[Record], name: &str) -> Vec<f64> {
    records.iter().filter_map(|record| record.values.get(name).copied()).filter(|value| value.is_finite()).collect()
}
