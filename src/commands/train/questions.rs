//! What is learnt on, and what is tested on?

use std::path::PathBuf;

use hindsearch::env::tasks::TaskSet;

use crate::commands::env::read_tasks;
use crate::failure::Failure;

/// Tasks that a run learns on, and others that it is tested on.
pub struct Questions {
    /// What is learnt on.
    pub learnt: TaskSet,
    /// What is tested on and not learnt on.
    pub held_out: TaskSet,
}

impl Questions {
    /// Reads tasks. `held_out` is a file, or how many of the tasks are held out, drawn by `seed`.
    ///
    /// # Errors
    /// Files that cannot be read; questions that are in both; more tasks held out than there are.
    pub fn read(files: &[PathBuf], held_out: &str, seed: u64) -> Result<Self, Failure> {
        let tasks = read_tasks(files)?;
        let Ok(count) = held_out.parse::<usize>() else {
            let tested = read_tasks(&[PathBuf::from(held_out)])?;
            let shared = tasks.overlap(&tested).len();
            return if shared == 0 {
                Ok(Self { learnt: tasks, held_out: tested })
            } else {
                let remedy = "take them out with `hindsearch env tasks`, or what is tested was learnt";
                Err(Failure::Usage(format!("{shared} questions of the tasks are also in `{held_out}`; {remedy}")))
            };
        };
        let found = tasks.tasks().len();
        if count >= found {
            return Err(Failure::Usage(format!(
                "{count} tasks held out: expected fewer than the {found} tasks that there are"
            )));
        }
        let held_out = tasks.clone().sample(seed, count);
        let learnt = tasks.filter(|task| !held_out.tasks().iter().any(|held| held.id() == task.id()));
        Ok(Self { learnt, held_out })
    }
}
