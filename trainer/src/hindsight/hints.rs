//! What is the teacher told of each episode of a step?

use std::collections::HashMap;

use hindsearch_env::hindsight::{Content, Critic, Critique, Hint, Siblings, Which, failures, gold};
use hindsearch_env::{Task, Trajectory};
use hindsearch_indexes::ErrorKind;

use super::align::Part;
use super::settings::{Apply, Broadcast, HindsightSettings, View};
use crate::objective::{Metric, Metrics};
use crate::random::Position;
use crate::{Error, Result};

/// A hint and the part of the episode of which it speaks; no hint where the teacher is told nothing.
pub(crate) type Told = (Option<Hint>, Part);

/// Whoever knows more about a step's episodes.
pub(crate) struct Hints<'a> {
    pub settings: &'a HindsightSettings,
    pub critic: Option<&'a dyn Critic>,
    /// Sentences of gold passages, for the view of evidence.
    pub evidence: &'a (dyn Fn(&Task) -> Option<Hint> + Sync),
    pub seed: u64,
    pub step: u64,
}

/// A task's episodes that came to their end, by their places.
struct Group<'a> {
    task: &'a Task,
    places: Vec<usize>,
    failed: Vec<usize>,
}

impl Hints<'_> {
    /// What is told of each episode; critiques are written on those of which there are some.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where nobody writes critiques; those of a judge that did not come through for any episode.
    pub(crate) fn of(
        &self,
        tasks: &[Task],
        episodes: &mut [Trajectory],
        metrics: &mut Metrics,
    ) -> Result<Vec<Vec<Told>>> {
        let mut all: Vec<Vec<Told>> = episodes.iter().map(|_| Vec::new()).collect();
        let groups = groups(tasks, episodes);
        let count = groups.len() as f64;
        let is_mixed = |group: &Group<'_>| !group.failed.is_empty() && group.failed.len() < group.places.len();
        let homogeneous = groups.iter().filter(|group| !is_mixed(group)).count() as f64;
        metrics.add("hindsight/homogeneous", Metric::Mean { sum: homogeneous, count });
        let taught: Vec<Group<'_>> =
            groups.into_iter().filter(|group| is_mixed(group) || !self.settings.skip_homogeneous).collect();
        let critiques = match self.settings.view {
            View::Critique => self.critiques(&taught, episodes, metrics)?,
            _ => HashMap::new(),
        };
        for group in &taught {
            let attempts: Vec<&Trajectory> = group.places.iter().map(|place| &episodes[*place]).collect();
            let mut block = None;
            for (own, place) in group.places.iter().enumerate() {
                let applies = match self.settings.apply {
                    Apply::Failed => group.failed.contains(place),
                    Apply::All => true,
                    Apply::MixedGroups => is_mixed(group),
                    Apply::AllFailedGroups => group.failed.len() == group.places.len(),
                };
                if applies {
                    let siblings = Siblings { task: group.task, attempts: &attempts, own };
                    all[*place] = self.told(&siblings, critiques.get(place), &mut block);
                }
            }
        }
        for (place, critique) in critiques {
            episodes[place].critique = Some(critique.text);
        }
        Ok(all)
    }

    /// `block` is kept for the others of the group, where it says the same to all.
    fn told(
        &self,
        siblings: &Siblings<'_>,
        critique: Option<&Critique>,
        block: &mut Option<Option<Hint>>,
    ) -> Vec<Told> {
        let whole = |hint: Option<Hint>| hint.map(|hint| (Some(hint), Part::All)).into_iter().collect();
        match self.settings.view {
            View::None => Vec::new(),
            View::Nothing => vec![(None, Part::All)],
            View::Critique => critique
                .map(|critique| {
                    let part = match (self.settings.broadcast, critique.turn) {
                        (Broadcast::EarliestErrorStep, Some(turn)) => Part::Turn(turn),
                        _ => Part::All,
                    };
                    (Some(critique.hint()), part)
                })
                .into_iter()
                .collect(),
            View::Siblings => {
                // All siblings of a group see the same order and the same labels.
                let position = Position {
                    seed: self.seed,
                    purpose: "siblings",
                    update: self.step,
                    task: siblings.task.id(),
                    sample: 0,
                };
                let options = &self.settings.siblings;
                let is_same =
                    options.content == Content::Siblings && matches!(options.which, Which::All | Which::CorrectOnly);
                let written = || siblings.block(options, position.number());
                whole(if is_same { block.get_or_insert_with(written).clone() } else { written() })
            }
            View::BetterSibling => whole(siblings.better(self.settings.better)),
            View::Gold => whole(gold(siblings.task)),
            View::Evidence => {
                let evidence = (self.evidence)(siblings.task).map(|hint| (Some(hint), Part::Queries));
                let gold = gold(siblings.task).map(|hint| (Some(hint), Part::Answer));
                evidence.into_iter().chain(gold).collect()
            }
        }
    }

    /// Critiques of the episodes that failed, by their places. One that the judge could not be asked for is left out.
    fn critiques(
        &self,
        groups: &[Group<'_>],
        episodes: &[Trajectory],
        metrics: &mut Metrics,
    ) -> Result<HashMap<usize, Critique>> {
        let critic = self.critic.ok_or_else(|| {
            Error::invalid("hindsight.view", "a critic beside `view = \"critique\"`", "a training without one")
        })?;
        let wanted = |group: &&Group<'_>| {
            self.settings.apply != Apply::AllFailedGroups || group.failed.len() == group.places.len()
        };
        let open: Vec<(usize, &Task)> = groups
            .iter()
            .filter(wanted)
            .flat_map(|group| group.failed.iter().map(|place| (*place, group.task)))
            .collect();
        let failures: Vec<(&Task, &Trajectory)> = open.iter().map(|(place, task)| (*task, &episodes[*place])).collect();
        let (mut found, mut faults, mut dropped) = (HashMap::new(), 0, 0);
        let mut fault = None;
        for ((place, _), critique) in open.iter().zip(critic.critique(&failures)) {
            match critique {
                Ok(Some(critique)) => drop(found.insert(*place, critique)),
                Ok(None) => dropped += 1,
                // What no other try changes, such as a budget that is used up.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error.into()),
                Err(error) => {
                    faults += 1;
                    fault.get_or_insert(error);
                }
            }
        }
        if let (Some(fault), true) = (fault, faults == open.len()) {
            return Err(fault.into());
        }
        let count = open.len() as f64;
        let with_gold = found.values().filter(|critique| critique.contains_gold).count() as f64;
        metrics.add("critique/written", Metric::Sum(found.len() as f64));
        metrics.add("critique/dropped", Metric::Mean { sum: f64::from(dropped), count });
        metrics.add("critique/failed", Metric::Mean { sum: faults as f64, count });
        metrics.add("critique/contains_gold", Metric::Mean { sum: with_gold, count: found.len() as f64 });
        Ok(found)
    }
}

fn groups<'a>(tasks: &'a [Task], episodes: &[Trajectory]) -> Vec<Group<'a>> {
    let mut by_task: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, episode) in episodes.iter().enumerate().filter(|(_, episode)| episode.reward.is_some()) {
        by_task.entry(&episode.task).or_default().push(place);
    }
    let group = |task: &'a Task| {
        let places = by_task.remove(task.id())?;
        let attempts: Vec<&Trajectory> = places.iter().map(|place| &episodes[*place]).collect();
        let failed = failures(task, &attempts).into_iter().map(|number| places[number]).collect();
        Some(Group { task, places, failed })
    };
    tasks.iter().filter_map(group).collect()
}
