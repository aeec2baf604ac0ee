//! An episode for Python: its record, and the two steps in which it goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hindsearch_env::{self as env, Action, Author, Decision, Message, Stop, TRAJECTORY_VERSION, Trajectory};
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
    pub rules: env::Rules,
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
        let decided = self.rules.decide(&mut self.lock(), message);
        match decided.map_err(|error| errors::raise(py, &error))? {
            Decision::Search(queries) => Ok(Decided::Search(queries)),
            Decision::Next(next) => Ok(Decided::Next(next.into())),
        }
    }

    /// Takes what was found for the queries that wait, a list of hits for each.
    fn observe(&self, py: Python<'_>, found: Vec<Vec<Hit>>) -> PyResult<Transition> {
        let (found, bytes) = ranked(py, found)?;
        let next = long(py, bytes, || self.rules.observe(&mut self.lock(), &found));
        next.map(Transition::from).map_err(|error| errors::raise(py, &error))
    }

    /// Puts a trainer's tokens on the prompt, with those that its chat template adds.
    fn set_prompt_tokens(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<()> {
        let shared = {
            let mut state = self.lock();
            let prompt = state.spans.iter().take_while(|span| span.author == Author::Prompt).count();
            share(&mut state.spans[..prompt], tokens)
        };
        shared.map_err(|message| errors::invalid(py, message))
    }

    /// Puts a trainer's tokens on the newest observation, with those that its chat template adds.
    fn set_observation_tokens(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<()> {
        let is_observation = match self.lock().spans.last_mut() {
            Some(span) if span.author == Author::Environment => {
                span.tokens = tokens;
                true
            }
            _ => false,
        };
        if is_observation { Ok(()) } else { Err(errors::invalid(py, "the newest span is no observation")) }
    }

    /// Writes down what it earned.
    fn set_reward(&self, reward: &Reward) {
        self.lock().reward = Some(reward.0.clone());
    }

    /// The episode as a chat.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let message = |(role, content): (env::Role, String)| {
            let message = PyDict::new(py);
            message.set_item("role", role_name(role))?;
            message.set_item("content", content)?;
            Ok(message)
        };
        let messages = self.lock().messages();
        messages.into_iter().map(message).collect()
    }

    /// What was written, in order.
    fn spans(&self) -> Vec<Span> {
        self.lock().spans.iter().map(Span::from).collect()
    }

    /// All tokens that are known, in order.
    fn tokens(&self) -> Vec<u32> {
        self.lock().tokens()
    }

    /// For each token whether the policy wrote it.
    fn policy_mask(&self) -> Vec<bool> {
        self.lock().policy_mask()
    }

    /// For each token whether it belongs to a query that was searched for.
    fn query_mask(&self) -> Vec<bool> {
        self.lock().query_mask()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&*self.lock()).unwrap_or_default()
    }

    /// Goes on where `to_json` stopped.
    #[staticmethod]
    fn from_json(py: Python<'_>, rules: &Rules, json: &str) -> PyResult<Self> {
        let trajectory: Trajectory = serde_json::from_str(json).map_err(|error| {
            errors::invalid(py, format!("an episode: expected the JSON of `to_json`, found {error}"))
        })?;
        let (name, version) = (&rules.0.preset().name, trajectory.version);
        if trajectory.preset != *name || version != TRAJECTORY_VERSION {
            let expected = format!("version {TRAJECTORY_VERSION} and preset `{name}`");
            let found = format!("version {version} and preset `{}`", trajectory.preset);
            return Err(errors::invalid(py, format!("an episode: expected {expected}, found {found}")));
        }
        Ok(rules.episode(trajectory))
    }

    #[getter]
    fn question(&self) -> String {
        self.lock().question.clone()
    }

    /// The task's id.
    #[getter]
    fn task(&self) -> String {
        self.lock().task.clone()
    }

    /// `answer`, `end`, `turns` or `context`; `None` while it goes on.
    #[getter]
    fn stop(&self) -> Option<&'static str> {
        self.lock().stop.map(stop_name)
    }

    /// The queries that wait for passages.
    #[getter]
    fn pending(&self) -> Option<Vec<String>> {
        self.lock().pending().map(<[String]>::to_vec)
    }

    /// What the last message was: `search`, `answer`, `end` or `invalid`.
    #[getter]
    fn action(&self) -> Option<&'static str> {
        self.lock().turns.last().map(|turn| match turn.action {
            Action::Search { .. } => "search",
            Action::Answer { .. } => "answer",
            Action::End => "end",
            Action::Invalid { .. } => "invalid",
        })
    }

    /// The answer that ended it.
    #[getter]
    fn answer(&self) -> Option<String> {
        self.lock().turns.last().and_then(|turn| match &turn.action {
            Action::Answer { text } => Some(text.clone()),
            _ => None,
        })
    }

    /// Messages of the policy.
    #[getter]
    fn turns(&self) -> usize {
        self.lock().turns.len()
    }

    /// Searches that were answered.
    #[getter]
    fn searches(&self) -> usize {
        self.lock().searches()
    }

    /// Tokens of prompt and episode.
    #[getter]
    fn length(&self) -> usize {
        self.rules.length(&self.lock())
    }

    fn __repr__(&self) -> String {
        let state = self.lock();
        let stop = state.stop.map_or("goes on", stop_name);
        format!("Episode({:?}, {} turns, {stop})", state.question, state.turns.len())
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (Rules, String))> {
        let from_json = slf.get_type().getattr("from_json")?.unbind();
        Ok((from_json, (Rules(slf.get().rules.clone()), slf.get().to_json())))
    }
}

impl Episode {
    /// Python must not run while this is held: it might run another thread, which waits for the lock and keeps Python.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Trajectory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what takes long while other threads of Python run. It must not wait for Python.
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
