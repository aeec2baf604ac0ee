//! How does a row of a file become a task? No error here shows a value, since the value may be an answer.

use serde_json::Value;

use super::format::Format;
use crate::Task;

/// What a row that says nothing of it belongs to.
pub(super) struct Defaults {
    pub source: String,
    pub split: Option<String>,
}

/// What was expected, and what is there.
pub(super) struct Problem {
    pub expected: String,
    pub found: String,
}

/// Where a format's optional fields may stand.
const HOLDERS: [&str; 3] = ["", "/extra_info", "/metadata"];
const SOURCE: [&str; 3] = ["data_source", "source", "dataset"];
const SPLIT: [&str; 1] = ["split"];
const AUGMENTED: [&str; 2] = ["aug_answer", "aug_answers"];
const PASSAGES: [&str; 3] = ["gold_passage_ids", "supporting_passage_ids", "evidence_passage_ids"];
const ID: [&str; 5] = ["id", "_id", "qid", "idx", "example_id"];

/// A task from a row in the given format.
pub(super) fn task(row: &Value, format: Format, defaults: &Defaults) -> Result<Task, Problem> {
    let places = format.places();
    let question = match first(row, places.question) {
        Some((place, value)) => text(value).ok_or_else(|| wrong("text", place, value))?,
        None => places.prompt.and_then(|place| row.pointer(place)).and_then(from_prompt).ok_or_else(|| {
            let prompt = places.prompt.map(|place| format!(", or a user's message in {}", name(place)));
            missing(row, format!("the question in {}{}", list(places.question), prompt.unwrap_or_default()))
        })?,
    };
    if question.trim().is_empty() {
        return Err(Problem { expected: "a question".into(), found: "blank text".into() });
    }
    let (place, gold) = first(row, places.answers)
        .ok_or_else(|| missing(row, format!("accepted answers in {} (format `{format}`)", list(places.answers))))?;
    let answers = filled(texts(gold).ok_or_else(|| wrong("answers as text or as a list of texts", place, gold))?);
    if answers.is_empty() {
        let found = format!("none in {}", name(place));
        return Err(Problem { expected: "at least one answer that is not blank".into(), found });
    }
    let source = optional(row, &SOURCE).and_then(text).unwrap_or_else(|| defaults.source.clone());
    let source = source.strip_prefix(format.source_prefix()).unwrap_or(&source).to_owned();
    let task = Task::new(question, answers, source);
    // A writer gives a task without an id of its data set ours, for want of a better one.
    let id = source_id(row).filter(|id| id != task.id());
    let split = optional(row, &SPLIT).and_then(text).or_else(|| defaults.split.clone());
    Ok(task
        .with_source_id(id)
        .with_split(split)
        .with_passages(strings(row, &PASSAGES)?)
        .with_augmented(filled(strings(row, &AUGMENTED)?)))
}

/// The id that the data set gives to a row.
pub(super) fn source_id(row: &Value) -> Option<String> {
    ID.iter().filter_map(|id| row.get(id)).find_map(text)
}

/// The first of these places that holds something.
fn first<'a>(row: &'a Value, places: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    places.iter().find_map(|place| Some((*place, row.pointer(place).filter(|value| !value.is_null())?)))
}

fn optional<'a>(row: &'a Value, names: &[&str]) -> Option<&'a Value> {
    let mut values = HOLDERS
        .iter()
        .filter_map(|holder| row.pointer(holder))
        .flat_map(|holder| names.iter().filter_map(move |name| holder.get(name)));
    values.find(|value| !value.is_null())
}

fn strings(row: &Value, names: &[&str]) -> Result<Vec<String>, Problem> {
    let Some(value) = optional(row, names) else { return Ok(Vec::new()) };
    texts(value).ok_or_else(|| Problem {
        expected: format!("text or a list of texts in `{}`", names.join("` or `")),
        found: kind(value).into(),
    })
}

/// Text, or a number as text: data sets have both as ids and as answers.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// All shapes that answers come in: text, a list, and either as the `target` of an object.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        Value::Object(fields) => {
            let target = fields.get("target")?;
            if target.is_object() { None } else { texts(target) }
        }
        one => Some(vec![text(one)?]),
    }
}

fn filled(mut answers: Vec<String>) -> Vec<String> {
    answers.retain(|answer| !answer.trim().is_empty());
    answers
}

/// The question in a prompt: what follows the last `Question:` of the user's last message, or the whole message.
fn from_prompt(prompt: &Value) -> Option<String> {
    let message = match prompt {
        Value::String(text) => text,
        messages => {
            let mut users = messages.as_array()?.iter().rev().filter(|message| message["role"] == "user");
            users.next()?["content"].as_str()?
        }
    };
    Some(message.rsplit_once("Question:").map_or(message, |(_, question)| question).trim().to_owned())
}

fn wrong(expected: &str, place: &str, value: &Value) -> Problem {
    Problem { expected: format!("{expected} in {}", name(place)), found: kind(value).into() }
}

fn missing(row: &Value, expected: String) -> Problem {
    Problem { expected, found: fields(row) }
}

/// The names of a row's fields.
pub(super) fn fields(row: &Value) -> String {
    let Some(fields) = row.as_object() else { return kind(row).into() };
    let names: Vec<_> = fields.keys().take(20).map(|name| format!("`{}`", name.escape_debug())).collect();
    if names.is_empty() { "no fields".into() } else { format!("the fields {}", names.join(", ")) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list of something else",
        Value::Object(_) => "an object without such a `target`",
    }
}

fn list(places: &[&str]) -> String {
    places.iter().map(|place| name(place)).collect::<Vec<_>>().join(", ")
}

/// `/a/b` as `a.b`.
fn name(place: &str) -> String {
    format!("`{}`", place.trim_start_matches('/').replace('/', "."))
}
