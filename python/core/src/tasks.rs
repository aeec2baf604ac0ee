//! Tasks from files and from what is built in, for Python.

use std::path::PathBuf;

use hindsearch_env::tasks::{self, BUILT_IN, ReadOptions};
use pyo3::prelude::*;

use crate::errors;

/// A question, as `SearchEnv.reset` takes it.
#[derive(IntoPyObject)]
pub(crate) struct Question {
    question: String,
    golds: Vec<String>,
    augmented: Vec<String>,
    source: String,
}

/// Which of `count` tasks a seed chooses, by the rule of the program and of the server; `None` where there are none.
#[pyfunction]
pub(crate) fn pick(seed: u64, count: usize) -> Option<usize> {
    tasks::pick(seed, count)
}

/// The tasks of a set that is built in (`sample`), or of a file in a form that trainers or benchmarks use: JSON lines, compressed or
/// not, or Parquet.
#[pyfunction(name = "tasks")]
pub(crate) fn read(py: Python<'_>, name: &str) -> PyResult<Vec<Question>> {
    let set = py.detach(|| {
        if BUILT_IN.contains(&name) {
            tasks::built_in(name)
        } else {
            tasks::read(&[PathBuf::from(name)], &ReadOptions::default())
        }
    });
    let set = set.map_err(|error| errors::raise(py, &error))?;
    let question = |task: &hindsearch_env::Task| Question {
        question: task.question().to_owned(),
        golds: task.gold().answers().to_vec(),
        augmented: task.gold().augmented().to_vec(),
        source: task.source().to_owned(),
    };
    Ok(set.tasks().iter().map(question).collect())
}
