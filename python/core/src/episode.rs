//! An episode for Python: its record, and the two steps in which it goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hindsearch_env::{self as env, Action, Author, Decision, Message, Stop, TRAJECTORY_VERSION, Trajectory};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::count::Count;
use crate::errors;
use crate::passages::{Hit, ranked};
use crate::preset::role_name;
use crate::reward::Reward;
use crate::rules::Rules;

/// Bytes from which other threads of Python may run meanwhile. Below, waiting for one's turn would take longer than the work.
const LONG: usize = 64 * 1024;

/// One play of one task. The record is the state.
#[pyclass(frozen, module = "hindsearch._core")]
pub(crate) struct Episode {
    pub rules: Rules,
    pub state: Mutex<Trajectory>,
}

/// What the policy is shown, and whether it goes on.
#[pyclass(frozen, get_all, module = "hindsearch._core")]
pub(crate) struct Transition {
    observation: String,
    stop: Option<&'static str>,
    truncated: bool,
}

/// A run of tokens by one author.
#[pyclass(frozen, get_all, module = "hindsearch._core")]
pub(crate) struct Span {
    author: &'static str,
    role: &'static str,
    text: String,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    /// Where each token ends in the text, in characters.
    ends: Vec<usize>,
}

/// What a message leads to.
#[derive(IntoPyObject)]
enum Decided {
    Search(Vec<String>),
    Next(Transition),
}

#[pymethods]
impl Episode {
    /// Takes a message of the policy. A list are the queries of a search, which `observe` waits for.
    #[pyo3(signature = (text, tokens = None, logprobs = None, ends = None, cut_off = false))]
    fn decide(
        &self,
        py: Python<'_>,
        text: String,
        tokens: Option<Vec<u32>>,
        logprobs: Option<Vec<f32>>,
        ends: Option<Vec<usize>>,
        cut_off: bool,
    ) -> PyResult<Decided> {
        let ends =
            ends.map(|ends| in_bytes(&text, &ends)).transpose().map_err(|message| errors::invalid(py, message))?;
        let message = Message {
            text,
            tokens: tokens.unwrap_or_default(),
            logprobs: logprobs.unwrap_or_default(),
            ends: ends.unwrap_or_default(),
            cut_off,
        };
        match self.go_on(py, 0, |rules, state| rules.decide(state, message))? {
            Decision::Search(queries) => Ok(Decided::Search(queries)),
            Decision::Next(next) => Ok(Decided::Next(next.into())),
        }
    }

    /// Takes what was found for the queries that wait, a list of hits for each.
    fn observe(&self, py: Python<'_>, found: Vec<Vec<Hit>>) -> PyResult<Transition> {
        let (found, bytes) = ranked(py, found)?;
        self.go_on(py, bytes, |rules, state| rules.observe(state, &found)).map(Transition::from)
    }

    /// Puts a trainer's tokens on the prompt, with those that its chat template adds.
    fn set_prompt_tokens(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<()> {
        let shared = {
            let mut state = self.lock(py);
            let prompt = state.spans.iter().take_while(|span| span.author == Author::Prompt).count();
            share(&mut state.spans[..prompt], tokens)
        };
        shared.map_err(|message| errors::invalid(py, message))
    }

    /// Puts a trainer's tokens on the newest observation, with those that its chat template adds.
    fn set_observation_tokens(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<()> {
        let is_observation = match self.lock(py).spans.last_mut() {
            Some(span) if span.author == Author::Environment => {
                span.tokens = tokens;
                true
            }
            _ => false,
        };
        if is_observation { Ok(()) } else { Err(errors::invalid(py, "the newest span is no observation")) }
    }

    /// Writes down what it earned.
    fn set_reward(&self, py: Python<'_>, reward: &Reward) {
        self.lock(py).reward = Some(reward.reward.clone());
    }

    /// Writes down what to do instead, in hindsight.
    fn set_critique(&self, py: Python<'_>, text: String) {
        self.lock(py).critique = Some(text);
    }

    /// The episode as a chat.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let message = |(role, content): (env::Role, String)| {
            let message = PyDict::new(py);
            message.set_item("role", role_name(role))?;
            message.set_item("content", content)?;
            Ok(message)
        };
        let messages = self.lock(py).messages();
        messages.into_iter().map(message).collect()
    }

    /// What was written, in order.
    fn spans(&self, py: Python<'_>) -> Vec<Span> {
        self.lock(py).spans.iter().map(Span::from).collect()
    }

    /// All tokens that are known, in order.
    fn tokens(&self, py: Python<'_>) -> Vec<u32> {
        self.lock(py).tokens()
    }

    /// For each token whether the policy wrote it.
    fn policy_mask(&self, py: Python<'_>) -> Vec<bool> {
        self.lock(py).policy_mask()
    }

    /// For each token whether it belongs to a query that was searched for.
    fn query_mask(&self, py: Python<'_>) -> Vec<bool> {
        self.lock(py).query_mask()
    }

    fn to_json(&self, py: Python<'_>) -> String {
        serde_json::to_string(&*self.lock(py)).unwrap_or_default()
    }

    /// Goes on where `to_json` stopped.
    #[staticmethod]
    fn from_json(py: Python<'_>, rules: &Rules, json: &str) -> PyResult<Self> {
        let trajectory: Trajectory = serde_json::from_str(json).map_err(|error| {
            errors::invalid(py, format!("an episode: expected the JSON of `to_json`, found {error}"))
        })?;
        let (name, version) = (&rules.rules.preset().name, trajectory.version);
        if trajectory.preset != *name || version != TRAJECTORY_VERSION {
            let expected = format!("version {TRAJECTORY_VERSION} and preset `{name}`");
            let found = format!("version {version} and preset `{}`", trajectory.preset);
            return Err(errors::invalid(py, format!("an episode: expected {expected}, found {found}")));
        }
        Ok(rules.episode(trajectory))
    }

    #[getter]
    fn question(&self, py: Python<'_>) -> String {
        self.lock(py).question.clone()
    }

    /// The task's id.
    #[getter]
    fn task(&self, py: Python<'_>) -> String {
        self.lock(py).task.clone()
    }

    /// `answer`, `end`, `turns` or `context`; `None` while it goes on.
    #[getter]
    fn stop(&self, py: Python<'_>) -> Option<&'static str> {
        self.lock(py).stop.map(stop_name)
    }

    /// The queries that wait for passages.
    #[getter]
    fn pending(&self, py: Python<'_>) -> Option<Vec<String>> {
        self.lock(py).pending().map(<[String]>::to_vec)
    }

    /// What the last message was: `search`, `answer`, `end` or `invalid`.
    #[getter]
    fn action(&self, py: Python<'_>) -> Option<&'static str> {
        self.lock(py).turns.last().map(|turn| match turn.action {
            Action::Search { .. } => "search",
            Action::Answer { .. } => "answer",
            Action::End => "end",
            Action::Invalid { .. } => "invalid",
        })
    }

    /// The answer that ended it.
    #[getter]
    fn answer(&self, py: Python<'_>) -> Option<String> {
        self.lock(py).turns.last().and_then(|turn| match &turn.action {
            Action::Answer { text } => Some(text.clone()),
            _ => None,
        })
    }

    /// Messages of the policy.
    #[getter]
    fn turns(&self, py: Python<'_>) -> usize {
        self.lock(py).turns.len()
    }

    /// Searches that were answered.
    #[getter]
    fn searches(&self, py: Python<'_>) -> usize {
        self.lock(py).searches()
    }

    /// Tokens of prompt and episode.
    #[getter]
    fn length(&self, py: Python<'_>) -> PyResult<usize> {
        let length = self.rules.rules.length(&self.lock(py));
        Count::raised().map_or(Ok(length), Err)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.lock(py);
        let stop = state.stop.map_or("goes on", stop_name);
        format!("Episode({:?}, {} turns, {stop})", state.question, state.turns.len())
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (Rules, String))> {
        let from_json = slf.get_type().getattr("from_json")?.unbind();
        Ok((from_json, (slf.get().rules.clone(), slf.get().to_json(slf.py()))))
    }
}

impl Episode {
    /// Whoever waits for this lets Python run, which whoever holds it may wait for.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Trajectory> {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the rules. Where the function that counts tokens raises, nothing has changed.
    fn go_on<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        run: impl FnOnce(&env::Rules, &mut Trajectory) -> env::Result<T> + Send,
    ) -> PyResult<T> {
        let mut state = self.lock(py);
        let before = self.rules.count.is_some().then(|| state.clone());
        let next = {
            let state = &mut *state;
            long(py, bytes, || run(&self.rules.rules, state))
        };
        if let (Some(error), Some(before)) = (Count::raised(), before) {
            *state = before;
            return Err(error);
        }
        next.map_err(|error| errors::raise(py, &error))
    }
}

/// Runs what takes long while other threads of Python run.
pub(crate) fn long<T: Send>(py: Python<'_>, bytes: usize, run: impl FnOnce() -> T + Send) -> T {
    if bytes < LONG { run() } else { py.detach(run) }
}

/// Puts the tokens of a whole prompt on its messages: their borders are the chat template's secret, and nothing depends on them, so all but
/// the last message get one token.
fn share(spans: &mut [env::Span], tokens: Vec<u32>) -> Result<(), String> {
    let Some((last, others)) = spans.split_last_mut() else {
        return if tokens.is_empty() { Ok(()) } else { Err("tokens of a prompt without messages".into()) };
    };
    if tokens.len() < others.len() + 1 {
        return Err(format!(
            "expected at least a token for each of {} messages, found {}",
            others.len() + 1,
            tokens.len()
        ));
    }
    let mut tokens = tokens.into_iter();
    for (span, token) in others.iter_mut().zip(&mut tokens) {
        span.tokens = vec![token];
    }
    last.tokens = tokens.collect();
    Ok(())
}

/// Ends of tokens in bytes, from those in characters, as Python counts them.
fn in_bytes(text: &str, ends: &[usize]) -> Result<Vec<usize>, String> {
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let byte = |&end: &usize| {
        let missing = || format!("ends of tokens: expected at most {} characters, found {end}", borders.len() - 1);
        borders.get(end).copied().ok_or_else(missing)
    };
    ends.iter().map(byte).collect()
}

fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::Answer => "answer",
        Stop::End => "end",
        Stop::Turns => "turns",
        Stop::Context => "context",
    }
}

impl From<env::Transition> for Transition {
    fn from(next: env::Transition) -> Self {
        Self { observation: next.observation, stop: next.stop.map(stop_name), truncated: next.truncated }
    }
}

impl From<&env::Span> for Span {
    fn from(span: &env::Span) -> Self {
        let characters = |&end: &usize| span.text.get(..end).map_or(0, |head| head.chars().count());
        Self {
            author: match span.author {
                Author::Prompt => "prompt",
                Author::Policy => "policy",
                Author::Environment => "environment",
            },
            role: role_name(span.role),
            text: span.text.clone(),
            tokens: span.tokens.clone(),
            logprobs: span.logprobs.clone(),
            ends: span.ends.iter().map(characters).collect(),
        }
    }
}
