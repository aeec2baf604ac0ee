//! How do other programs get tasks? The only place where accepted answers leave the process: it writes files for trainers and
//! scorers, and no part of an episode calls it.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::format::Format;
use super::read::{GZIP, PARQUET, TEXT, ZSTD, has_extension};
use super::{json_lines, parquet};
use crate::{Error, Result, Rules, Task};

/// Writes tasks so that [`read`](super::read) gives the same tasks again, and the format's own programs read them.
///
/// The name says the container: `.parquet`, or `.jsonl`, perhaps with `.gz` or `.zst`; any other name is given the format's own.
/// Formats with a prompt get what `rules` begin with, or the question alone. BEIR gets its `qrels` beside it, a file a split
/// (`test` where there is none), for tasks with known passages. Files appear whole or not at all, and replace what is there.
///
/// # Errors
/// [`Error::InvalidInput`] without tasks, for tasks without an answer, and in BEIR's form for ids that are there twice or hold
/// blanks; [`Error::Io`].
pub fn write<'a>(
    path: &Path,
    tasks: impl IntoIterator<Item = &'a Task>,
    format: Format,
    rules: Option<&Rules>,
) -> Result<()> {
    let tasks: Vec<&Task> = tasks.into_iter().collect();
    check(&tasks, format)?;
    let row = |(index, task): (usize, &&Task)| row(task, format, index, rules);
    let rows = tasks.iter().enumerate().map(row);
    let columnar = has_extension(path, &PARQUET)
        || format.is_columnar() && ![&TEXT[..], &GZIP, &ZSTD].iter().any(|names| has_extension(path, names));
    whole(path, |file| {
        if columnar {
            let columns = self::row(&complete(), format, 0, rules);
            parquet::write(file, &columns, rows).map_err(io::Error::other)
        } else {
            json_lines::write(file, path, rows)
        }
    })?;
    if format == Format::Beir { write_qrels(path, &tasks) } else { Ok(()) }
}

fn check(tasks: &[&Task], format: Format) -> Result<()> {
    let refuse = |expected: &str, found: String| Err(Error::invalid("tasks to write", expected, found));
    if tasks.is_empty() {
        return refuse("at least one", "none".into());
    }
    if let Some(task) = tasks.iter().find(|task| task.gold().answers().iter().all(|answer| answer.trim().is_empty())) {
        return refuse("at least one answer a task that is not blank", format!("none for `{}`", task.id()));
    }
    if format != Format::Beir {
        return Ok(());
    }
    // Qrels are columns between blanks.
    let names = tasks.iter().flat_map(|task| task.passages().iter().map(String::as_str).chain([id(task)]));
    if let Some(name) = names.into_iter().find(|name| name.is_empty() || name.contains(char::is_whitespace)) {
        return refuse("ids without blanks (BEIR)", format!("`{}`", name.escape_debug()));
    }
    let mut seen = HashSet::new();
    match tasks.iter().find(|task| !seen.insert(id(task))) {
        Some(task) => refuse("ids that are used once (BEIR)", format!("`{}` again", id(task))),
        None => Ok(()),
    }
}

/// The id of the data set, or ours.
fn id(task: &Task) -> &str {
    task.source_id().unwrap_or(task.id())
}

/// A task's row, the `index`th.
fn row(task: &Task, format: Format, index: usize, rules: Option<&Rules>) -> Value {
    let (question, answers) = (task.question(), task.gold().answers());
    let source = format!("{}{}", format.source_prefix(), task.source());
    let ground_truth = json!({ "target": answers });
    let reward = json!({ "style": "rule", "ground_truth": ground_truth });
    let mut extra = extra(task);
    match format {
        Format::FlashRag => {
            extra.insert("data_source".into(), source.into());
            json!({ "id": id(task), "question": question, "golden_answers": answers, "metadata": extra })
        }
        Format::Beir => {
            extra.insert("data_source".into(), source.into());
            extra.insert("golden_answers".into(), json!(answers));
            json!({ "_id": id(task), "text": question, "metadata": extra })
        }
        Format::SearchR1 => {
            extra.insert("index".into(), index.into());
            json!({
                "id": id(task), "question": question, "golden_answers": answers, "data_source": source,
                "prompt": prompt(task, rules), "ability": "fact-reasoning", "reward_model": reward, "extra_info": extra,
            })
        }
        Format::Verl | Format::SkyRl => {
            let kwargs = json!({ "ground_truth": ground_truth, "question": question, "data_source": source });
            extra.insert("index".into(), index.into());
            extra.insert("question".into(), question.into());
            extra.insert("need_tools_kwargs".into(), true.into());
            extra.insert("tools_kwargs".into(), json!({ "search": { "create_kwargs": kwargs } }));
            let mut row = json!({
                "id": id(task), "data_source": source, "prompt": prompt(task, rules), "ability": "fact-reasoning",
                "extra_info": extra,
            });
            if format == Format::Verl {
                // Without it verl plays a single turn.
                row["agent_name"] = "tool_agent".into();
                row["reward_model"] = reward;
            } else {
                row["env_class"] = "search".into();
                row["reward_spec"] = reward;
            }
            row
        }
        Format::ASearcher => with(
            extra,
            json!({
                "qid": id(task), "question": question, "answer": answers, "aug_answer": task.gold().augmented(),
                "source": source,
            }),
        ),
        // Its verifiers compare with one answer; ours read all.
        Format::NemoGym => with(
            extra,
            json!({
                "id": id(task), "question": question, "data_source": source,
                "responses_create_params": { "input": prompt(task, rules) },
                "expected_answer": answers.first(), "expected_answers": answers,
            }),
        ),
        Format::Plain => with(
            extra,
            json!({
                "id": id(task), "question": question, "target": answers, "data_source": source,
            }),
        ),
    }
}

/// What not every task has.
fn extra(task: &Task) -> Map<String, Value> {
    let mut extra = Map::new();
    if let Some(split) = task.split() {
        extra.insert("split".into(), split.into());
    }
    if !task.passages().is_empty() {
        extra.insert("gold_passage_ids".into(), task.passages().into());
    }
    if !task.gold().augmented().is_empty() {
        extra.insert("aug_answer".into(), task.gold().augmented().into());
    }
    extra
}

fn with(mut fields: Map<String, Value>, row: Value) -> Value {
    if let Value::Object(row) = row {
        fields.extend(row);
    }
    Value::Object(fields)
}

fn prompt(task: &Task, rules: Option<&Rules>) -> Value {
    match rules {
        Some(rules) => {
            let messages = rules.begin(task, 0).messages();
            messages.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
        }
        None => json!([{ "role": "user", "content": task.question() }]),
    }
}

/// A task that has everything: its row says which columns there are, whatever the tasks at hand lack. So all files of a format
/// have the same columns.
fn complete() -> Task {
    let text = String::new;
    Task::new(text(), vec![text()], text())
        .with_split(Some(text()))
        .with_passages(vec![text()])
        .with_augmented(vec![text()])
}

fn write_qrels(queries: &Path, tasks: &[&Task]) -> Result<()> {
    let mut splits: BTreeMap<&str, String> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.passages().is_empty()) {
        let lines =
            splits.entry(task.split().unwrap_or("test")).or_insert_with(|| "query-id\tcorpus-id\tscore\n".into());
        lines.extend(task.passages().iter().map(|passage| format!("{}\t{passage}\t1\n", id(task))));
    }
    let folder = queries.parent().unwrap_or(Path::new("")).join("qrels");
    if !splits.is_empty() {
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    }
    for (split, lines) in splits {
        // A split is a name in a file of someone else; it may not lead elsewhere.
        let name = format!("{}.tsv", split.replace(['/', '\\'], "_"));
        whole(&folder.join(name), |mut file| io::Write::write_all(&mut file, lines.as_bytes()).map(|()| file))?;
    }
    Ok(())
}

/// Writes a file under another name first, so that nobody sees half of it.
fn whole(path: &Path, write: impl FnOnce(File) -> io::Result<File>) -> Result<()> {
    let partial: PathBuf = path.with_added_extension("tmp");
    let file = File::create(&partial).map_err(Error::io("create", &partial))?;
    let written = write(file).and_then(|file| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // The first error counts.
        let _ = fs::remove_file(&partial);
        Error::io("write", path)(error)
    })
}
