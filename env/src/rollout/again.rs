//! What is a trajectory worth, and does it come out the same when it is played again?

use hindsearch_retriever::Retrieve;

use super::wrong_count;
use crate::policy::{self, Policy};
use crate::rules::{Decision, Rules};
use crate::trajectory::Trajectory;
use crate::{Result, Task};

/// What the trajectory of this task earns, put on it. One that was kept from its end earns nothing.
pub fn score(rules: &Rules, task: &Task, trajectory: &mut Trajectory) {
    let preset = rules.preset();
    trajectory.reward = (trajectory.error.is_none() && trajectory.stop.is_some())
        .then(|| preset.reward.score(preset, task.gold(), trajectory));
}

/// Plays a trajectory again: the same messages and the same experience, and passages looked for anew.
///
/// # Errors
/// Those of the rules and of the retriever.
pub fn replay(rules: &Rules, task: &Task, retriever: &dyn Retrieve, trajectory: &Trajectory) -> Result<Trajectory> {
    let said = policy::Recorded(trajectory);
    let mut episode = rules.begin_with(task, trajectory.sample, &trajectory.experience);
    while episode.stop.is_none() && episode.turns.len() < trajectory.turns.len() {
        let turn = policy::Turn { episode: &episode, rules, seed: 0 };
        let message = said.generate(&[turn]).pop().unwrap_or_else(|| Err(wrong_count(1, 0)))?;
        if let Decision::Search(queries) = rules.decide(&mut episode, message)? {
            let found = retriever.retrieve(&queries, rules.preset().observation.top_k)?;
            let experience = trajectory.turns.get(episode.turns.len() - 1).map(|turn| turn.experience.as_slice());
            rules.observe_with(&mut episode, &found, experience.unwrap_or_default())?;
        }
    }
    score(rules, task, &mut episode);
    Ok(episode)
}
