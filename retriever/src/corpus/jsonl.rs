//! JSON lines: wiki-18, its relatives, and BEIR.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Visitor};
use serde_json::error::Category;

use super::fields::{Fields, Problem, SHAPES, excerpt};
use super::lines::Lines;
use crate::{Passage, Result};

pub(super) struct JsonLines(pub Lines);

impl Iterator for JsonLines {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.0.next_filled().transpose()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        Some(parse(line.text.trim_ascii()).map_err(|problem| line.error(problem)))
    }
}

#[derive(Deserialize)]
struct Row {
    id: Option<Id>,
    #[serde(rename = "_id")]
    beir_id: Option<Id>,
    contents: Option<String>,
    title: Option<String>,
    text: Option<String>,
}

fn parse(text: &str) -> Result<Passage, Problem> {
    // Serde would take `["1", ...]` for a row, by position.
    if !text.starts_with('{') {
        return Err(Problem::new("a JSON object", format!("`{}`", excerpt(text, 0))));
    }
    let row: Row = serde_json::from_str(text).map_err(|error| {
        let near = excerpt(text, error.column());
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        match error.classify() {
            Category::Eof => Problem::new("a whole JSON object", format!("a line that ends inside it, near `{near}`")),
            Category::Data => Problem::new(SHAPES, format!("{message}, near `{near}`")),
            _ => Problem::new("a JSON object", format!("{message} (column {}), near `{near}`", error.column())),
        }
    })?;
    let id = row.id.or(row.beir_id).map(|id| id.0);
    Fields { id, contents: row.contents, title: row.title, text: row.text }.into_passage()
}

/// An id: a string, or an integer taken as its decimal digits.
struct Id(String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id that is a string or an integer")
            }

            fn visit_str<E>(self, id: &str) -> Result<Id, E> {
                Ok(Id(id.to_owned()))
            }

            fn visit_u64<E>(self, id: u64) -> Result<Id, E> {
                Ok(Id(id.to_string()))
            }

            fn visit_i64<E>(self, id: i64) -> Result<Id, E> {
                Ok(Id(id.to_string()))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}
