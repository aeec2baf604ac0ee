//! What makes a record a passage, whatever the format: the field names and the rules of `Passage`.

use std::path::Path;

use crate::{Error, Passage};

/// Largest line and largest passage, in bytes.
pub(super) const MAX_LINE: usize = 16 << 20;

/// What a record should hold, for messages.
pub(super) const SHAPES: &str = "`id` (or `_id`) with `contents`, or with `title` and `text`, or with `text`";

/// What is wrong with a record, before its place is known.
#[derive(Debug)]
pub(super) struct Problem {
    pub expected: String,
    pub found: String,
}

impl Problem {
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into() }
    }

    pub fn at(self, path: &Path, line: u64, byte: u64) -> Error {
        Error::Line { path: path.to_path_buf(), line, byte, expected: self.expected, found: self.found }
    }
}

/// The named fields of a record; absent and null are the same.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub id: Option<String>,
    pub contents: Option<String>,
    pub title: Option<String>,
    pub text: Option<String>,
}

impl Fields {
    pub fn into_passage(self) -> Result<Passage, Problem> {
        let id = self.id.ok_or_else(|| Problem::new(SHAPES, "no id"))?;
        if id.is_empty() {
            return Err(Problem::new("an id", "an empty id"));
        }
        let passage = match (self.contents, self.text) {
            (Some(contents), _) => Passage::from_contents(id, &contents),
            (None, Some(text)) => Passage::from_fields(id, self.title.as_deref().unwrap_or_default(), text),
            (None, None) => {
                return Err(Problem::new(
                    SHAPES,
                    format!("neither `contents` nor `text` for id `{}`", excerpt(&id, 0)),
                ));
            }
        };
        let size = passage.id.len() + passage.title.as_ref().map_or(0, String::len) + passage.text.len();
        if size > MAX_LINE {
            return Err(Problem::new(format!("a passage of at most {MAX_LINE} bytes"), format!("{size} bytes")));
        }
        if passage.text.is_empty() && passage.display_title().is_empty() {
            let found = format!("neither for id `{}`", excerpt(&passage.id, 0));
            return Err(Problem::new("a title or a text", found));
        }
        Ok(passage)
    }
}

/// At most 60 characters of `text` near the byte `around`, safe to print: control, zero-width and direction-changing
/// characters are escaped.
pub(super) fn excerpt(text: &str, around: usize) -> String {
    let start = text.floor_char_boundary(around.saturating_sub(30));
    let mut shown = String::from(if start > 0 { "…" } else { "" });
    let mut characters = text[start..].chars();
    for c in characters.by_ref().take(60) {
        let hidden =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hidden { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}
