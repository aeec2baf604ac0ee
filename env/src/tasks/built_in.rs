//! Which tasks need no download?

use std::path::Path;

use super::json_lines::{each_line, object};
use super::read::{ReadOptions, Rows};
use super::set::TaskSet;
use crate::{Error, Result};

/// The names of the task sets that are built in: `sample` is the questions about the sample corpus.
pub const BUILT_IN: [&str; 1] = ["sample"];

const SAMPLE: &str = include_str!("../../../examples/data/questions.jsonl");

/// A task set that is built in.
///
/// # Errors
/// [`Error::NotFound`] for any other name.
pub fn built_in(name: &str) -> Result<TaskSet> {
    if name != BUILT_IN[0] {
        return Err(Error::NotFound {
            what: format!("task set `{}`", name.escape_debug()),
            remedy: format!("built in is `{}`; others are read from files", BUILT_IN.join("`, `")),
        });
    }
    let path = Path::new("sample.jsonl");
    let mut rows = Rows::new(path, &ReadOptions::default(), None);
    let mut tasks = Vec::new();
    each_line(path, &mut SAMPLE.as_bytes(), &mut |number, line| {
        tasks.extend(rows.task(number, &object(path, number, line)?)?);
        Ok(())
    })?;
    Ok(TaskSet::new(tasks))
}
