//! `hindsearch._core`: what decides, shows and scores in Python is the code that does so everywhere else.
//!
//! The accepted answers of a task come in by [`reward::score`] and by what [`hindsight`] tells a teacher, and are kept nowhere.

mod count;
mod episode;
mod errors;
mod hindsight;
mod passages;
mod preset;
mod reward;
mod rules;
mod tasks;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::episode::{Episode, Span, Transition};
    #[pymodule_export]
    use super::hindsight::{Aligned, Critique, align, critique_by_rules, critiques_by_model, sibling_block};
    #[pymodule_export]
    use super::preset::{Preset, presets};
    #[pymodule_export]
    use super::reward::{Reward, score};
    #[pymodule_export]
    use super::rules::Rules;
    #[pymodule_export]
    use super::tasks::{pick, read};

    use pyo3::prelude::*;

    /// The text made inert: nothing in it looks like a tag or a control token.
    #[pyfunction]
    fn escape(text: &str) -> String {
        hindsearch_env::escape(text).into_owned()
    }

    /// The text as it was before `escape`.
    #[pyfunction]
    fn unescape(text: &str) -> String {
        hindsearch_env::unescape(text).into_owned()
    }
}
