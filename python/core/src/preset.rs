//! A recipe for Python: its limits, and how an action is written in its grammar.

use std::sync::Arc;

use hindsearch_env::{self as env, QueryForm, Tags};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors;

/// A published recipe as data.
#[pyclass(frozen, module = "hindsearch._core")]
#[derive(Clone)]
pub(crate) struct Preset(pub Arc<env::Preset>);

/// Names of the presets that are built in.
#[pyfunction]
pub(crate) fn presets() -> Vec<&'static str> {
    env::PRESETS.to_vec()
}

#[pymethods]
impl Preset {
    /// A preset that is built in.
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        env::Preset::named(name).map(Self::new).map_err(|error| errors::raise(py, &error))
    }

    /// A preset that is built in, or one of a file, whose name ends in `.toml`.
    #[staticmethod]
    fn load(py: Python<'_>, name: &str) -> PyResult<Self> {
        env::Preset::load(name).map(Self::new).map_err(|error| errors::raise(py, &error))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn about(&self) -> &str {
        &self.0.about
    }

    /// Strings that end a message of the policy, and belong to it.
    #[getter]
    fn stop(&self) -> Vec<String> {
        self.0.grammar.stop.clone()
    }

    /// Whether messages stand one behind the other, without a chat template.
    #[getter]
    fn bare(&self) -> bool {
        self.0.prompt.bare
    }

    /// The tools that a chat template is to tell of, as JSON.
    #[getter]
    fn tools(&self) -> Option<&str> {
        self.0.prompt.tools.as_deref()
    }

    /// Passages for a query.
    #[getter]
    fn top_k(&self) -> usize {
        self.0.observation.top_k
    }

    /// Messages of the policy in which it may search.
    #[getter]
    fn turns(&self) -> usize {
        self.0.limits.turns
    }

    /// Tokens of a message of the policy.
    #[getter]
    fn response_tokens(&self) -> usize {
        self.0.limits.response_tokens
    }

    /// Tokens of prompt and episode together.
    #[getter]
    fn context_tokens(&self) -> usize {
        self.0.limits.context_tokens
    }

    /// In which message observations stand; `assistant` where they are running text.
    #[getter]
    fn observation_role(&self) -> &'static str {
        role_name(self.0.observation.role)
    }

    /// A search in this recipe's grammar, for trainers that parse calls of tools themselves.
    fn search_text(&self, py: Python<'_>, queries: Vec<String>) -> PyResult<String> {
        let grammar = &self.0.grammar;
        let inside = match (&grammar.query, queries.as_slice()) {
            (QueryForm::Call { name, argument }, _) => {
                let call = serde_json::json!({"name": name, "arguments": {argument: queries}});
                // Inside JSON a tag can be written so that it is none.
                call.to_string().replace('<', "\\u003c")
            }
            (QueryForm::Text, [query]) => without(query, &grammar.search),
            (QueryForm::Text, _) => {
                let message = format!("`{}` takes one query at a time, found {}", self.0.name, queries.len());
                return Err(errors::invalid(py, message));
            }
        };
        Ok(format!("{}{inside}{}", grammar.search.open, grammar.search.close))
    }

    /// An answer in this recipe's grammar; a bare text where it has no tags for answers.
    fn answer_text(&self, text: &str) -> String {
        match &self.0.grammar.answer {
            Some(tags) => format!("{}{}{}", tags.open, without(text, tags), tags.close),
            None => text.to_owned(),
        }
    }

    /// The whole recipe.
    fn to_json(&self) -> String {
        serde_json::to_string(&*self.0).unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        format!("Preset({:?})", self.0.name)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        let rebuild = slf.get_type().getattr("_rebuild")?.unbind();
        Ok((rebuild, (slf.get().to_json(),)))
    }

    /// What a pickle holds is what was loaded and checked.
    #[classmethod]
    fn _rebuild(cls: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map(Self::new).map_err(|error| errors::invalid(cls.py(), error.to_string()))
    }
}

impl Preset {
    pub(crate) fn new(preset: env::Preset) -> Self {
        Self(Arc::new(preset))
    }
}

pub(crate) fn role_name(role: env::Role) -> &'static str {
    match role {
        env::Role::System => "system",
        env::Role::User => "user",
        env::Role::Assistant => "assistant",
        env::Role::Tool => "tool",
    }
}

/// The text, made inert where a tag in it would end the action early.
fn without(text: &str, tags: &Tags) -> String {
    if text.contains(&tags.open) || text.contains(&tags.close) {
        env::escape(text).into_owned()
    } else {
        text.to_owned()
    }
}
