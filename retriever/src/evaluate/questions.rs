//! Question files: FlashRAG JSONL, BEIR queries with qrels, TREC topics with qrels.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Error, Result};

/// A question and its gold.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Unique in its file.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// Gold passage ids with their relevance (1 where the file has none).
    pub relevant: BTreeMap<String, f64>,
    /// Accepted answers.
    pub answers: Vec<String>,
}

/// Where FlashRAG-form files keep gold passage ids, inside `metadata`.
const GOLD_KEYS: [&str; 3] = ["gold_passage_ids", "supporting_passage_ids", "evidence_passage_ids"];

/// Reads questions, and their relevance judgements when `qrels` is given.
///
/// Lines that begin with `{` are JSON: FlashRAG (`id`, `question`, `golden_answers`, `metadata`) or BEIR (`_id`,
/// `text`). Others are TREC topics: id, tab, text. Qrels are BEIR's (header, three columns) or TREC's (four).
///
/// # Errors
/// [`Error::Line`] naming the first bad line; [`Error::File`] for a file without questions; [`Error::InvalidInput`]
/// when `qrels` judges none of the questions.
pub fn read_questions(path: &Path, qrels: Option<&Path>) -> Result<Vec<Question>> {
    let mut questions = Vec::new();
    let mut seen = HashSet::new();
    for line in lines(path)? {
        let line = line?;
        let question = if line.text.starts_with('{') { from_json(&line) } else { from_topic(&line) }?;
        if !seen.insert(question.id.clone()) {
            return Err(line.error("a question id used once", format!("`{}` again", question.id)));
        }
        questions.push(question);
    }
    if questions.is_empty() {
        return Err(Error::File {
            path: path.to_path_buf(),
            expected: "questions".into(),
            found: "none".into(),
            remedy: "give a FlashRAG or BEIR JSONL file, or TREC topics (id, tab, text)".into(),
        });
    }
    if let Some(qrels) = qrels {
        judge(&mut questions, qrels)?;
    }
    Ok(questions)
}

struct Line {
    path: PathBuf,
    number: u64,
    byte: u64,
    text: String,
}

impl Line {
    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Line {
            path: self.path.clone(),
            line: self.number,
            byte: self.byte,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The non-empty lines of a text file, without line ends and byte-order mark.
fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line>> + use<>> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let path = path.to_path_buf();
    let (mut number, mut at) = (0, 0);
    Ok(std::iter::from_fn(move || {
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |end| end + 1);
            let raw = rest[..length].trim_ascii_end();
            let raw = if number == 0 { raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw) } else { raw };
            number += 1;
            let mut line = Line { path: path.clone(), number, byte: at as u64, text: String::new() };
            at += length;
            if raw.is_empty() {
                continue;
            }
            return Some(match std::str::from_utf8(raw) {
                Ok(text) => {
                    line.text = text.to_owned();
                    Ok(line)
                }
                Err(error) => {
                    Err(line.error("UTF-8", format!("a broken character at byte {} of the line", error.valid_up_to())))
                }
            });
        }
        None
    }))
}

fn from_json(line: &Line) -> Result<Question> {
    let value: Value = serde_json::from_str(&line.text).map_err(|e| line.error("one JSON object", e.to_string()))?;
    let text_of = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let id = value.get("id").or_else(|| value.get("_id")).and_then(text_of);
    let text = value.get("question").or_else(|| value.get("text")).and_then(Value::as_str);
    let (Some(id), Some(text)) = (id, text) else {
        return Err(line.error(
            "`id` and `question` (FlashRAG), or `_id` and `text` (BEIR)",
            format!("the keys {}", keys(&value)),
        ));
    };
    let list = |value: Option<&Value>, key: &str| -> Result<Vec<String>> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| text_of(item).ok_or_else(|| line.error(format!("text in `{key}`"), item.to_string())))
                .collect(),
            Some(other) => text_of(other)
                .map(|one| vec![one])
                .ok_or_else(|| line.error(format!("a list in `{key}`"), other.to_string())),
        }
    };
    let metadata = value.get("metadata");
    let mut relevant = BTreeMap::new();
    for key in GOLD_KEYS {
        let ids = list(metadata.and_then(|m| m.get(key)).or_else(|| value.get(key)), key)?;
        relevant.extend(ids.into_iter().map(|id| (id, 1.0)));
    }
    let answers = list(value.get("golden_answers").or_else(|| value.get("answers")), "golden_answers")?;
    Ok(Question { id, text: text.to_owned(), relevant, answers })
}

fn keys(value: &Value) -> String {
    let names: Vec<_> = value.as_object().map(|o| o.keys().map(|k| format!("`{k}`")).collect()).unwrap_or_default();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn from_topic(line: &Line) -> Result<Question> {
    match line.text.split_once('\t') {
        Some((id, text)) if !id.trim().is_empty() && !text.trim().is_empty() => Ok(Question {
            id: id.trim().to_owned(),
            text: text.trim().to_owned(),
            relevant: BTreeMap::new(),
            answers: Vec::new(),
        }),
        _ => Err(line.error("a JSON object, or an id, a tab and a question", excerpt(&line.text))),
    }
}

fn judge(questions: &mut [Question], qrels: &Path) -> Result<()> {
    let by_id: HashMap<String, usize> = questions.iter().enumerate().map(|(at, q)| (q.id.clone(), at)).collect();
    let (mut judged, mut total) = (0, 0);
    for line in lines(qrels)? {
        let line = line?;
        let columns: Vec<&str> = line.text.split_whitespace().collect();
        let (question, passage, relevance) = match columns[..] {
            ["query-id", "corpus-id", "score"] => continue,
            [question, passage, relevance] | [question, _, passage, relevance] => (question, passage, relevance),
            _ => {
                return Err(line.error(
                    "three columns (BEIR) or four (TREC)",
                    format!("{} in {}", columns.len(), excerpt(&line.text)),
                ));
            }
        };
        let relevance: f64 = relevance
            .parse()
            .ok()
            .filter(|r: &f64| r.is_finite())
            .ok_or_else(|| line.error("a number as relevance", excerpt(relevance)))?;
        total += 1;
        if let Some(&at) = by_id.get(question) {
            questions[at].relevant.insert(passage.to_owned(), relevance);
            judged += 1;
        }
    }
    if judged == 0 {
        return Err(Error::InvalidInput {
            what: format!("`{}`", qrels.display()),
            expected: "judgements of the given questions".into(),
            found: format!("{total} judgements, none with a question id of the questions file"),
        });
    }
    Ok(())
}

fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{rest}`", short.escape_debug())
}
