//! What a teacher may be told of an episode, for Python: the same texts, places and masks as over HTTP.

use hindsearch_env::hindsight::{
    AlignOptions, Critic, CriticOptions, Critique as Written, RuleCritic, SiblingOptions, Siblings, WrittenCritic,
    failures,
};
use hindsearch_env::{Error, FourCharacters, Measure, Request, Task, Trajectory, Writer};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;

use crate::count::Count;
use crate::episode::Episode;
use crate::errors;
use crate::passages::{Hit, ranked};
use crate::preset::role_name;

/// What a failed episode should have searched for.
#[pyclass(frozen, get_all, module = "hindsearch._core")]
pub(crate) struct Critique {
    text: String,
    /// The first turn that went wrong, from 0.
    turn: Option<usize>,
    /// Whether the text names an accepted answer.
    contains_gold: bool,
    /// The text as a teacher reads it.
    hint: String,
}

/// An episode as its teacher reads it.
#[pyclass(frozen, module = "hindsearch._core")]
pub(crate) struct Aligned(hindsearch_env::hindsight::Aligned);

#[pymethods]
impl Aligned {
    /// What stands before the chat and its template.
    #[getter]
    fn before(&self) -> &str {
        &self.0.before
    }

    /// The teacher's prompt.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let message = |message: &hindsearch_env::hindsight::PromptMessage| {
            let told = PyDict::new(py);
            told.set_item("role", role_name(message.role))?;
            told.set_item("content", &message.content)?;
            Ok(told)
        };
        self.0.messages.iter().map(message).collect()
    }

    /// All tokens behind the prompt.
    #[getter]
    fn response(&self) -> Vec<u32> {
        self.0.response.clone()
    }

    /// For each of these whether the policy wrote it.
    #[getter]
    fn policy_mask(&self) -> Vec<bool> {
        self.0.policy_mask.clone()
    }

    /// For each of these whether it is part of a query that was searched for.
    #[getter]
    fn query_mask(&self) -> Vec<bool> {
        self.0.query_mask.clone()
    }

    /// Tokens that hold letters of a query and letters around it.
    #[getter]
    fn straddling(&self) -> usize {
        self.0.straddling
    }

    /// Hints within the response, each with the token before which it stands.
    #[getter]
    fn inserts(&self) -> Vec<(usize, String)> {
        self.0.inserts.iter().map(|insert| (insert.at, insert.text.clone())).collect()
    }
}

/// A critique of a failed episode by the passages that hold its answer, in the order in which they are needed. Nothing of one that did not
/// fail, and where nothing is known.
#[pyfunction]
#[pyo3(signature = (episode, golds, passages, **options))]
pub(crate) fn critique_by_rules(
    py: Python<'_>,
    episode: &Episode,
    golds: Vec<String>,
    passages: Vec<Hit>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<Critique>> {
    let options: CriticOptions = read(py, options)?;
    let (found, _) = ranked(py, vec![passages])?;
    let passages: Vec<_> = found.into_iter().flatten().map(|ranked| ranked.passage).collect();
    let attempt = episode.lock(py).clone();
    let ids = passages.iter().map(|passage| passage.id.clone()).collect();
    let task = task(&attempt, golds).with_passages(ids);
    let lookup = |id: &str| passages.iter().find(|passage| passage.id == id).cloned();
    let critic = RuleCritic::new(options, lookup).map_err(|error| errors::raise(py, &error))?;
    Ok(said(py, &critic, &[(&task, &attempt)])?.pop().flatten())
}

/// A critique of each failed episode by a model. `write` is given a list of requests, dictionaries with `system`, `user` and `tokens`, and
/// gives a text for each; it is called a second time for replies that cannot be used.
#[pyfunction]
#[pyo3(signature = (write, failures, **options))]
pub(crate) fn critiques_by_model(
    py: Python<'_>,
    write: Py<PyAny>,
    failures: Vec<(PyRef<'_, Episode>, Vec<String>)>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Option<Critique>>> {
    let options: CriticOptions = read(py, options)?;
    let writer = Function { write, raised: std::sync::Mutex::new(None) };
    let attempts: Vec<(Task, Trajectory)> = failures
        .into_iter()
        .map(|(episode, golds)| {
            let attempt = episode.lock(py).clone();
            (task(&attempt, golds), attempt)
        })
        .collect();
    let pairs: Vec<(&Task, &Trajectory)> = attempts.iter().map(|(task, attempt)| (task, attempt)).collect();
    let critic = WrittenCritic::new(&writer, options).map_err(|error| errors::raise(py, &error))?;
    let said = said(py, &critic, &pairs);
    // What the function raised says more than what became of it.
    match writer.raised.into_inner() {
        Ok(Some(raised)) => Err(raised),
        _ => said,
    }
}

/// What the attempts at a task tell the teacher of one of them: their queries and verdicts. Nothing where nothing is told or fits.
#[pyfunction]
#[pyo3(signature = (episodes, own, golds, *, seed = 0, budget = None, **options))]
pub(crate) fn sibling_block(
    py: Python<'_>,
    episodes: Vec<PyRef<'_, Episode>>,
    own: usize,
    golds: Vec<String>,
    seed: u64,
    budget: Option<usize>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<String>> {
    let options: SiblingOptions = read(py, options)?;
    let Some(teacher) = episodes.get(own) else {
        return Err(errors::invalid(py, format!("own: expected a number below {}, found {own}", episodes.len())));
    };
    let attempts: Vec<Trajectory> = episodes.iter().map(|episode| episode.lock(py).clone()).collect();
    let task = task(&attempts[own], golds);
    let attempts: Vec<&Trajectory> = attempts.iter().collect();
    let hint = Siblings { task: &task, attempts: &attempts, own }.block(&options, seed);
    let Some(mut hint) = hint else { return Ok(None) };
    if let Some(budget) = budget {
        let count = teacher.rules.count.clone();
        let length = |text: &str| count.as_ref().map_or_else(|| FourCharacters.length(text), |own| own.length(text));
        hint.shorten(|text| length(text) <= budget);
        Count::raised().map_or(Ok(()), Err)?;
    }
    Ok(Some(hint.text()).filter(|text| !text.is_empty()))
}

/// The episode with a hint, as its teacher reads it.
#[pyfunction]
#[pyo3(signature = (episode, hint = "", **options))]
pub(crate) fn align(
    py: Python<'_>,
    episode: &Episode,
    hint: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Aligned> {
    let options: AlignOptions = read(py, options)?;
    let aligned = hindsearch_env::hindsight::align(&episode.lock(py), hint, &options);
    aligned.map(Aligned).map_err(|error| errors::raise(py, &error))
}

/// Keywords as the options that they name.
fn read<T: DeserializeOwned + Default>(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<T> {
    let Some(options) = options else { return Ok(T::default()) };
    let json: String = py.import("json")?.call_method1("dumps", (options,))?.extract()?;
    serde_json::from_str(&json).map_err(|error| errors::invalid(py, format!("options: {error}")))
}

/// The task of an episode. Nothing of its answers is kept.
fn task(attempt: &Trajectory, golds: Vec<String>) -> Task {
    Task::new(attempt.question.clone(), golds, attempt.source.clone())
}

/// What a critic says of those that failed, and nothing of the others.
fn said(py: Python<'_>, critic: &dyn Critic, attempts: &[(&Task, &Trajectory)]) -> PyResult<Vec<Option<Critique>>> {
    let failed = |(task, attempt): &(&Task, &Trajectory)| !failures(task, &[attempt]).is_empty();
    let places: Vec<usize> = (0..attempts.len()).filter(|&at| failed(&attempts[at])).collect();
    let shown: Vec<_> = places.iter().map(|&at| attempts[at]).collect();
    let mut all: Vec<Option<Critique>> = attempts.iter().map(|_| None).collect();
    for (at, written) in places.into_iter().zip(critic.critique(&shown)) {
        all[at] = written.map_err(|error| errors::raise(py, &error))?.map(Critique::from);
    }
    Ok(all)
}

impl From<Written> for Critique {
    fn from(written: Written) -> Self {
        let hint = written.hint().text();
        Self { text: written.text, turn: written.turn, contains_gold: written.contains_gold, hint }
    }
}

/// A function of Python's as a writer.
struct Function {
    write: Py<PyAny>,
    raised: std::sync::Mutex<Option<PyErr>>,
}

impl Writer for Function {
    fn name(&self) -> &str {
        "write"
    }

    fn write(&self, requests: &[Request]) -> Vec<hindsearch_env::Result<String>> {
        let written = Python::attach(|py| {
            let request = |request: &Request| {
                let told = PyDict::new(py);
                told.set_item("system", &request.system)?;
                told.set_item("user", &request.user)?;
                told.set_item("tokens", request.tokens)?;
                Ok(told)
            };
            let requests = requests.iter().map(request).collect::<PyResult<Vec<_>>>()?;
            self.write.call1(py, (requests,))?.extract::<Vec<String>>(py)
        });
        let fault = |found: String| {
            Err(Error::Unavailable {
                what: "`write`".into(),
                found,
                remedy: "give a text for each request, in their order".into(),
            })
        };
        match written {
            Ok(texts) if texts.len() == requests.len() => texts.into_iter().map(Ok).collect(),
            Ok(texts) => {
                let found = format!("{} texts for {} requests", texts.len(), requests.len());
                requests.iter().map(|_| fault(found.clone())).collect()
            }
            Err(error) => {
                let found = error.to_string();
                if let Ok(mut raised) = self.raised.lock() {
                    *raised = Some(error);
                }
                requests.iter().map(|_| fault(found.clone())).collect()
            }
        }
    }
}
