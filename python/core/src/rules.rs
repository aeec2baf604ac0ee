//! How an episode begins, and how one is read back from text.

use std::sync::{Arc, Mutex};

use hindsearch_env::{self as env, Author, Role, Span, Stop, Task, Trajectory};
use pyo3::prelude::*;

use crate::count::Count;
use crate::episode::Episode;
use crate::errors;
use crate::preset::Preset;

/// The rules of a recipe's episodes. Where no tokens are given, `count` says how many a text has, or else four characters are one.
#[pyclass(frozen, module = "hindsearch._core")]
#[derive(Clone)]
pub(crate) struct Rules {
    pub rules: env::Rules,
    pub count: Option<Arc<Count>>,
}

/// A message of a chat.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Message {
    role: String,
    content: String,
}

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (preset, count = None))]
    fn new(preset: &Preset, count: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let preset = Arc::clone(&preset.0);
        let Some(count) = count else { return Ok(Self { rules: env::Rules::new(preset), count: None }) };
        let count = Arc::new(Count::new(count)?);
        let measure: Arc<dyn env::Measure> = Arc::clone(&count) as _;
        Ok(Self { rules: env::Rules::measured(preset, measure), count: Some(count) })
    }

    #[getter]
    fn preset(&self) -> Preset {
        Preset(Arc::clone(self.rules.preset()))
    }

    /// The function that counts tokens.
    #[getter]
    fn count(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.count.as_ref().map(|count| count.0.clone_ref(py))
    }

    /// A new episode. Of `golds` nothing is kept but a hash, in the task's id.
    ///
    /// `prompt` are the messages of a trainer that renders prompts itself; without them they are the recipe's.
    #[pyo3(signature = (question, source = "", golds = None, sample = 0, *, prompt = None))]
    fn begin(
        &self,
        py: Python<'_>,
        question: &str,
        source: &str,
        golds: Option<Vec<String>>,
        sample: u32,
        prompt: Option<Vec<Message>>,
    ) -> PyResult<Episode> {
        let task = Task::new(question.to_owned(), golds.unwrap_or_default(), source.to_owned());
        let mut trajectory = self.rules.begin(&task, sample);
        if let Some(prompt) = prompt {
            let span = |message: Message| Ok(Span::new(Author::Prompt, role(py, &message.role)?, message.content));
            trajectory.spans = prompt.into_iter().map(span).collect::<PyResult<_>>()?;
        }
        Ok(self.episode(trajectory))
    }

    /// An episode of which only the text behind the prompt is known, as trainers hand it to functions that reward. What stands between the
    /// recipe's marks of an observation, or those of a tool's response, is taken for the environment's.
    #[pyo3(signature = (text, question = "", source = "", golds = None))]
    fn read(&self, text: &str, question: &str, source: &str, golds: Option<Vec<String>>) -> Episode {
        let task = Task::new(question.to_owned(), golds.unwrap_or_default(), source.to_owned());
        let mut trajectory = self.rules.begin(&task, 0);
        let observation = &self.rules.preset().observation;
        let frames = [(observation.before.trim(), observation.after.trim()), ("<tool_response>", "</tool_response>")];
        let mut rest = text;
        while let Some((before, inside, after)) = next_frame(rest, &frames) {
            trajectory.spans.push(Span::new(Author::Policy, Role::Assistant, before));
            trajectory.spans.push(Span::new(Author::Environment, observation.role, inside));
            rest = after;
        }
        trajectory.spans.push(Span::new(Author::Policy, Role::Assistant, rest));
        trajectory.stop = Some(Stop::End);
        self.episode(trajectory)
    }

    fn __repr__(&self) -> String {
        format!("Rules({:?})", self.rules.preset().name)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (Preset, Option<Py<PyAny>>)) {
        (slf.get_type().into_any().unbind(), (slf.get().preset(), slf.get().count(slf.py())))
    }
}

impl Rules {
    pub(crate) fn episode(&self, trajectory: Trajectory) -> Episode {
        Episode { rules: self.clone(), state: Mutex::new(trajectory) }
    }
}

fn role(py: Python<'_>, name: &str) -> PyResult<Role> {
    match name {
        "system" | "developer" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        _ => Err(errors::invalid(
            py,
            format!("a message's role: expected system, user, assistant or tool, found `{name}`"),
        )),
    }
}

/// What stands before, in and behind the first frame that is whole.
fn next_frame<'a>(text: &'a str, frames: &[(&str, &str)]) -> Option<(&'a str, &'a str, &'a str)> {
    let whole = |&(open, close): &(&str, &str)| {
        if open.is_empty() || close.is_empty() {
            return None;
        }
        let start = text.find(open)?;
        let inside = start + open.len();
        let end = inside + text[inside..].find(close)? + close.len();
        Some((start, end))
    };
    let (start, end) = frames.iter().filter_map(whole).min()?;
    Some((&text[..start], &text[start..end], &text[end..]))
}
