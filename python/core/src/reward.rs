//! What an episode earns, for Python.

use hindsearch_env::{self as env, RewardRules, Scored, ScoredText, Scorer, Task, Term};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::episode::{Episode, long};
use crate::preset::Preset;
use crate::rules::Rules;

/// A reward and its parts.
#[pyclass(frozen, module = "hindsearch._core")]
#[derive(Clone)]
pub(crate) struct Reward {
    pub reward: env::Reward,
    /// Whether a search found an accepted answer; nothing where only a text is known.
    #[pyo3(get)]
    retrieval_hit: Option<bool>,
}

/// Whose scorers are asked.
#[derive(FromPyObject)]
pub(crate) enum Recipe<'py> {
    Rules(Bound<'py, Rules>),
    Preset(Bound<'py, Preset>),
}

#[pymethods]
impl Reward {
    /// The weighted sum.
    #[getter]
    fn total(&self) -> f64 {
        self.reward.total
    }

    /// Each scorer's value by its name, before it is weighted.
    #[getter]
    fn terms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let terms = PyDict::new(py);
        for Scored { name, value, .. } in &self.reward.terms {
            terms.set_item(name, value)?;
        }
        Ok(terms)
    }

    fn __float__(&self) -> f64 {
        self.reward.total
    }

    fn __repr__(&self) -> String {
        let terms: Vec<String> = self.reward.terms.iter().map(|term| format!("{} {}", term.name, term.value)).collect();
        format!("Reward({}: {})", self.reward.total, terms.join(", "))
    }
}

/// What the episode earns by a recipe. The only place that is given the accepted answers; `augmented` are further wordings, which some
/// scorers count for less.
#[pyfunction]
#[pyo3(signature = (recipe, episode, golds, augmented = Vec::new()))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python")]
pub(crate) fn score(
    py: Python<'_>,
    recipe: Recipe<'_>,
    episode: &Episode,
    golds: Vec<String>,
    augmented: Vec<String>,
) -> Reward {
    let preset = match &recipe {
        Recipe::Rules(rules) => rules.get().rules.preset(),
        Recipe::Preset(preset) => &preset.get().0,
    };
    let state = episode.lock(py);
    let trajectory = &*state;
    let bytes = trajectory.spans.iter().map(|span| span.text.len()).sum();
    long(py, bytes, || {
        let task = Task::new(trajectory.question.clone(), golds, trajectory.source.clone()).with_augmented(augmented);
        let by = |rules: &RewardRules| rules.score(preset, task.gold(), trajectory);
        let retrieval = Term { scorer: Scorer::Retrieval {}, name: None, weight: 1.0 };
        let hit = RewardRules { text: ScoredText::Policy, minimum_spans: 1, terms: vec![retrieval] };
        let retrieval_hit = (!trajectory.turns.is_empty()).then(|| by(&hit).total > 0.0);
        Reward { reward: by(&preset.reward), retrieval_hit }
    })
}
