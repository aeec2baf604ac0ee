//! How do files become tasks?

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::fields::{self, Defaults};
use super::format::{self, Format};
use super::qrels::{self, Judged};
use super::set::TaskSet;
use super::{json_lines, parquet};
use crate::{Error, Result, Task};

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Their format; without it each file's first row says it.
    pub format: Option<Format>,
    /// The data set of rows that name none. Without it the file's name says it: `nq_test.jsonl` and `nq/test.jsonl` are of `nq`.
    pub source: Option<String>,
    /// The split of rows that name none; without it the file's name says it, as above, or that of the judgements.
    pub split: Option<String>,
    /// Relevance judgements, BEIR's (header, three columns) or TREC's (four), by the data set's ids. They say which passages
    /// hold an answer; questions that are not judged are left out, since BEIR has the questions of all splits in one file.
    pub qrels: Option<PathBuf>,
}

/// Reads tasks from files, in order. JSON lines may be compressed (gzip, zstd), and have blank lines, a byte order mark and
/// either line end; a blank answer among others is left out. A task that comes again is kept once.
///
/// # Errors
/// [`Error::Line`] naming the first bad line (of Parquet: row), [`Error::Io`], and [`Error::InvalidInput`] for a file without
/// tasks. No error shows what stands in a row, for it may be an answer.
pub fn read(paths: &[PathBuf], options: &ReadOptions) -> Result<TaskSet> {
    let judged = options.qrels.as_deref().map(qrels::read).transpose()?;
    let mut tasks = Vec::new();
    for path in paths {
        let before = tasks.len();
        let mut file = Rows::new(path, options, judged.as_ref());
        let mut take = |line: u64, row: Value| file.task(line, &row).map(|task| tasks.extend(task));
        if is_parquet(path)? {
            parquet::read(path, &mut take)?;
        } else {
            json_lines::read(path, &mut take)?;
        }
        if tasks.len() == before {
            let expected = if judged.is_some() { "questions that are judged" } else { "at least one task" };
            return Err(Error::invalid(format!("`{}`", path.display()), expected, "none"));
        }
    }
    if tasks.is_empty() {
        return Err(Error::invalid("files of tasks", "at least one", "none"));
    }
    Ok(TaskSet::new(tasks))
}

/// A task from a single row, in any of the formats; one that names no data set is of `unknown`.
///
/// # Errors
/// [`Error::InvalidInput`] for a row without a question or without answers. It shows nothing that stands in the row.
pub fn from_row(row: &Value) -> Result<Task> {
    let refuse = |expected: String, found| Error::invalid("task", expected, found);
    let format = Format::of(row)
        .ok_or_else(|| refuse(format!("a row in one of the formats {}", format::names()), fields::fields(row)))?;
    let defaults = Defaults { source: "unknown".into(), split: None };
    fields::task(row, format, &defaults).map_err(|problem| refuse(problem.expected, problem.found))
}

/// Turns the rows of one file into tasks.
pub(super) struct Rows<'a> {
    path: &'a Path,
    format: Option<Format>,
    defaults: Defaults,
    judged: Option<&'a Judged>,
}

impl<'a> Rows<'a> {
    pub fn new(path: &'a Path, options: &ReadOptions, judged: Option<&'a Judged>) -> Self {
        let (source, split) = named(path);
        let source = options.source.clone().unwrap_or(source);
        let of_qrels = || Some(options.qrels.as_ref()?.file_stem()?.to_string_lossy().into_owned());
        let split = options.split.clone().or(split).or_else(of_qrels);
        Self { path, format: options.format, defaults: Defaults { source, split }, judged }
    }

    pub fn task(&mut self, line: u64, row: &Value) -> Result<Option<Task>> {
        let bad = |expected, found| Error::Line { path: self.path.to_path_buf(), line, expected, found };
        let Some(format) = self.format.or_else(|| Format::of(row)) else {
            let expected = format!("a task in one of the formats {}", format::names());
            return Err(bad(expected, fields::fields(row)));
        };
        let passages = match self.judged {
            Some(judged) => match fields::source_id(row).and_then(|id| judged.get(&id)) {
                Some(passages) => passages.as_slice(),
                None => return Ok(None),
            },
            None => &[],
        };
        let task = fields::task(row, format, &self.defaults).map_err(|problem| bad(problem.expected, problem.found))?;
        self.format = Some(format);
        Ok(Some(if passages.is_empty() { task } else { task.with_passages(passages.to_vec()) }))
    }
}

/// Parquet says what it is at its start; a name can lie.
fn is_parquet(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.take(4).read_to_end(&mut start).map_err(Error::io("read", path))?;
    if start != b"PAR1" && has_extension(path, &PARQUET) {
        let expected = "Parquet, as the name says";
        return Err(Error::invalid(format!("`{}`", path.display()), expected, "something else"));
    }
    Ok(start == b"PAR1")
}

pub(super) const PARQUET: [&str; 2] = ["parquet", "pq"];
pub(super) const TEXT: [&str; 3] = ["jsonl", "ndjson", "json"];
pub(super) const GZIP: [&str; 2] = ["gz", "gzip"];
pub(super) const ZSTD: [&str; 2] = ["zst", "zstd"];
const SPLITS: [&str; 6] = ["train", "dev", "valid", "val", "validation", "test"];

pub(super) fn has_extension(path: &Path, names: &[&str]) -> bool {
    path.extension().is_some_and(|extension| names.iter().any(|name| extension.eq_ignore_ascii_case(name)))
}

/// The data set and the split that a file's name speaks of.
fn named(path: &Path) -> (String, Option<String>) {
    let mut plain = path.to_path_buf();
    for names in [&GZIP[..], &ZSTD, &TEXT, &PARQUET] {
        if has_extension(&plain, names) {
            plain.set_extension("");
        }
    }
    let text = |name: Option<&std::ffi::OsStr>| name.map(|name| name.to_string_lossy().into_owned());
    let name = text(plain.file_name()).unwrap_or_default();
    let folder = text(plain.parent().and_then(Path::file_name));
    let is_split = |part: &str| SPLITS.contains(&part);
    if name == "queries" {
        return (folder.unwrap_or(name), None);
    }
    if is_split(&name) {
        return (folder.unwrap_or_else(|| name.clone()), Some(name));
    }
    match name.rsplit_once(['_', '-', '.']) {
        Some((source, split)) if is_split(split) && !source.is_empty() => (source.into(), Some(split.into())),
        _ => (name, None),
    }
}
