//! What do the prompts of the tasks that come next show?

use std::collections::HashMap;

use crate::experience::Guide;
use crate::trajectory::Advice;
use crate::{Result, Task};

/// Tasks that experience is looked up for at a time.
pub(super) const PLANNED: usize = 256;

/// What the prompts of the tasks that come next show. All plays of a task begin alike.
pub(super) struct Plans<'a> {
    guide: Option<&'a Guide>,
    known: HashMap<&'a str, Vec<Advice>>,
}

impl<'a> Plans<'a> {
    pub fn new(guide: Option<&'a Guide>) -> Self {
        Self { guide, known: HashMap::new() }
    }

    /// What is shown for this task; nothing where that was not looked up yet.
    pub fn of(&self, task: &Task) -> Option<&[Advice]> {
        match self.guide {
            None => Some(&[]),
            Some(_) => self.known.get(task.id()).map(Vec::as_slice),
        }
    }

    /// Looks up what is shown for these tasks, and forgets earlier ones.
    pub fn make(&mut self, tasks: Vec<&'a Task>) -> Result<()> {
        let mut tasks = tasks;
        tasks.dedup_by_key(|task| task.id());
        tasks.truncate(PLANNED);
        let planned = self.guide.map_or_else(|| Ok(Vec::new()), |guide| guide.planning(&tasks))?;
        self.known = tasks.iter().map(|task| task.id()).zip(planned).collect();
        Ok(())
    }
}
