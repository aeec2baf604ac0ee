//! What did a judge say of each answer, and what is that worth?

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::log::read_records;
use crate::reward::Scored;
use crate::trajectory::{Action, Trajectory};
use crate::{Error, Result};

/// Characters of what is judged.
const LONGEST_PART: usize = 2000;

/// What a judge said of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// The task.
    pub task: String,
    /// The play.
    pub sample: u32,
    /// The judge's model.
    pub judge: String,
    /// The answer that was judged, up to 2,000 characters; nothing where there was none.
    pub answer: Option<String>,
    /// Whether the answer means what an accepted one means; nothing where the judge did not keep to the form. That is never a
    /// default: such a verdict counts neither way.
    pub correct: Option<bool>,
    /// What the judge said, up to 2,000 characters.
    pub said: String,
}

/// What one judge said of the answers of a run, from the file that [`Judging`](crate::Judging) writes.
#[derive(Debug, Clone)]
pub struct Verdicts {
    judge: String,
    /// By task, play and answer: a verdict is about an answer, not about one that was given since.
    known: HashMap<(String, u32, Option<String>), Option<bool>>,
}

impl Verdicts {
    /// The name of the term that they make.
    pub const TERM: &str = "judge";

    /// Reads the verdicts of the judge with this model; without a name, those of the only one that there is.
    ///
    /// # Errors
    /// [`Error::Line`] names a line that is no verdict; [`Error::InvalidInput`] for a file without verdicts of this judge, or of
    /// several ones where none is named; [`Error::Io`].
    pub fn read(path: &Path, judge: Option<&str>) -> Result<Self> {
        let all: Vec<Judgement> = read_records(path)?;
        let judges: BTreeSet<&str> = all.iter().map(|verdict| verdict.judge.as_str()).collect();
        let only = match (judge, judges.len()) {
            (Some(named), _) => judges.get(named).copied(),
            (None, 1) => judges.first().copied(),
            (None, _) => None,
        };
        let Some(only) = only.map(str::to_owned) else {
            let expected =
                judge.map_or("verdicts of one judge, or its name".to_owned(), |name| format!("verdicts of `{name}`"));
            let found = judges.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let found = if found.is_empty() { "none".into() } else { format!("those of {found}") };
            return Err(Error::invalid(format!("`{}`", path.display()), expected, found));
        };
        let own = all.into_iter().filter(|verdict| verdict.judge == only);
        let known = own.map(|verdict| ((verdict.task, verdict.sample, verdict.answer), verdict.correct)).collect();
        Ok(Self { judge: only, known })
    }

    /// The judge's model.
    pub fn judge(&self) -> &str {
        &self.judge
    }

    /// Whether the answer of this trajectory is correct; nothing where the judge did not say, or not in a form that counts.
    pub fn of(&self, trajectory: &Trajectory) -> Option<bool> {
        let key = (trajectory.task.clone(), trajectory.sample, answer(trajectory));
        self.known.get(&key).copied().flatten()
    }

    /// Adds the term `judge` to a reward: 1 for a correct answer, 0 for another one. Where there is no verdict there is no reward
    /// any more, for neither value would be true. Whether a reward was taken away is returned.
    pub fn add_to(&self, trajectory: &mut Trajectory, weight: f64) -> bool {
        let verdict = self.of(trajectory);
        let Some(reward) = &mut trajectory.reward else { return false };
        let Some(correct) = verdict else {
            trajectory.reward = None;
            return true;
        };
        let value = f64::from(u8::from(correct));
        reward.total += weight * value;
        reward.terms.push(Scored { name: Self::TERM.into(), weight, value });
        false
    }
}

/// The answer that is judged.
pub(crate) fn answer(trajectory: &Trajectory) -> Option<String> {
    match trajectory.turns.last().map(|turn| &turn.action) {
        Some(Action::Answer { text }) => Some(short(text)),
        _ => None,
    }
}

pub(crate) fn short(text: &str) -> String {
    text.chars().take(LONGEST_PART).collect()
}
