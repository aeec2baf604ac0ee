//! What is served: tasks, presets, and the episodes under way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{Code, Fault, Limits};
use serde_json::Value;

use super::episodes::Episodes;
use crate::render::{FourCharacters, Measure};
use crate::tasks::TaskSet;
use crate::{Error, PRESETS, Preset, Result, Rules, Task, Writer};

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// How episodes are served.
#[derive(Clone)]
pub struct EnvOptions {
    /// The tasks that clients may name.
    pub tasks: TaskSet,
    /// The preset of clients that name none.
    pub preset: Preset,
    /// How long texts are for the policy.
    pub measure: Arc<dyn Measure>,
    /// Episodes that may be under way.
    pub capacity: usize,
    /// Bytes that all episodes may take.
    pub memory: usize,
    /// How long an episode is kept that nobody asks for.
    pub idle: Duration,
    /// What time it is.
    pub clock: Clock,
    /// Who writes critiques of failed episodes, where clients want a language model's.
    pub judge: Option<Arc<dyn Writer>>,
}

impl EnvOptions {
    /// Room for 10,000 episodes of these tasks, 1 GiB and half an hour.
    pub fn new(tasks: TaskSet, preset: Preset) -> Self {
        Self {
            tasks,
            preset,
            measure: Arc::new(FourCharacters),
            capacity: 10_000,
            memory: 1 << 30,
            idle: Duration::from_secs(30 * 60),
            clock: Arc::new(Instant::now),
            judge: None,
        }
    }
}

/// All that the routes share.
pub struct EnvServer {
    tasks: Vec<Arc<Task>>,
    by_id: HashMap<String, usize>,
    presets: BTreeMap<String, Rules>,
    default: String,
    measure: Arc<dyn Measure>,
    judge: Option<Arc<dyn Writer>>,
    pub(super) episodes: Episodes,
}

impl EnvServer {
    /// A server without its routes; [`routes`](Self::routes) hangs them in a retrieval server.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a preset that asks for more than the server gives.
    pub fn new(options: EnvOptions) -> Result<Arc<Self>> {
        let EnvOptions { tasks, preset, measure, capacity, memory, idle, clock, judge } = options;
        let tasks: Vec<Arc<Task>> = tasks.tasks().iter().cloned().map(Arc::new).collect();
        let default = preset.name.clone();
        let mut presets = BTreeMap::new();
        for preset in PRESETS.iter().map(|name| Preset::named(name)).chain([Ok(preset)]) {
            let preset = within_limits(preset?)?;
            presets.insert(preset.name.clone(), Rules::measured(Arc::new(preset), Arc::clone(&measure)));
        }
        Ok(Arc::new(Self {
            by_id: tasks.iter().enumerate().map(|(number, task)| (task.id().to_owned(), number)).collect(),
            tasks,
            presets,
            default,
            measure,
            judge,
            episodes: Episodes::new(capacity, memory, idle, clock),
        }))
    }

    pub(super) fn tasks(&self) -> &[Arc<Task>] {
        &self.tasks
    }

    /// The preset of clients that name none.
    pub(super) fn default_preset(&self) -> &str {
        &self.default
    }

    /// How long texts are for the policy.
    pub(super) fn measure(&self) -> &dyn Measure {
        &*self.measure
    }

    /// Who writes critiques.
    pub(super) fn judge(&self) -> Option<&Arc<dyn Writer>> {
        self.judge.as_ref()
    }

    pub(super) fn presets(&self) -> impl Iterator<Item = &Preset> {
        self.presets.values().map(|rules| &**rules.preset())
    }

    /// The rules of a preset, with some of its fields replaced.
    pub(super) fn rules(&self, preset: Option<&str>, overrides: Option<&Value>) -> Result<Rules, Fault> {
        let name = preset.unwrap_or(&self.default);
        let rules = self.presets.get(name).ok_or_else(|| {
            let known = self.presets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Fault::new(Code::NotFound, format!("preset: no preset `{}`; there are {known}", name.escape_debug()))
        })?;
        let Some(overrides) = overrides else { return Ok(rules.clone()) };
        let preset = rules.preset().with(overrides).and_then(within_limits).map_err(|error| fault(&error))?;
        Ok(Rules::measured(Arc::new(preset), Arc::clone(&self.measure)))
    }

    /// The task of an id.
    pub(super) fn task(&self, id: &str) -> Result<&Arc<Task>, Fault> {
        self.by_id.get(id).and_then(|&at| self.tasks.get(at)).ok_or_else(|| {
            let message = format!("task_id: no task `{}` here; `/env/v1/tasks` lists all", id.escape_debug());
            Fault::new(Code::NotFound, message)
        })
    }

    /// The task that a client names, or sends, or leaves to a seed; without a seed it is drawn by chance.
    pub(super) fn choose(&self, id: Option<&str>, row: Option<&Value>, seed: Option<u64>) -> Result<Arc<Task>, Fault> {
        match (id, row) {
            (Some(id), None) => self.task(id).cloned(),
            (None, Some(row)) => crate::tasks::from_row(row).map(Arc::new).map_err(|error| fault(&error)),
            (Some(_), Some(_)) => Err(Fault::invalid("expected `task_id` or `task`, found both")),
            (None, None) => {
                let at = crate::tasks::pick(seed.unwrap_or_else(rand::random), self.tasks.len());
                let none = || Fault::new(Code::NotFound, "no tasks are served; send one, or start with `--tasks FILE`");
                at.and_then(|at| self.tasks.get(at)).cloned().ok_or_else(none)
            }
        }
    }
}

/// What this crate's errors are for a client.
pub(super) fn fault(error: &Error) -> Fault {
    use hindsearch_indexes::ErrorKind;
    let code = match error.kind() {
        ErrorKind::InvalidInput => Code::InvalidInput,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Unavailable => Code::Unavailable,
        _ => Code::Internal,
    };
    Fault::new(code, error.to_string())
}

/// A preset that asks for no more passages than any request may.
fn within_limits(mut preset: Preset) -> Result<Preset> {
    let limits = Limits::default();
    let top_k = preset.observation.top_k;
    if !(1..=limits.top_k).contains(&top_k) {
        let expected = format!("1 to {}", limits.top_k);
        return Err(Error::invalid("`observation.top_k`", expected, top_k.to_string()));
    }
    let most = limits.queries.min(limits.passages / top_k);
    preset.limits.queries = Some(preset.limits.queries.map_or(most, |queries| queries.min(most)));
    Ok(preset)
}
