//! Tab-separated values: DPR's, with a header and csv quoting, and MS MARCO's, with neither.

use super::fields::{Fields, MAX_LINE, Problem, excerpt};
use super::lines::{Lines, without_line_end};
use crate::{Passage, Result};

pub(super) struct MsMarco(pub Lines);

impl Iterator for MsMarco {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.0.next_filled().transpose()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let passage = match line.body().split_once('\t') {
            Some((id, text)) => {
                Fields { id: Some(id.into()), text: Some(text.into()), ..Fields::default() }.into_passage()
            }
            None => Err(Problem::new("id, tab, text", format!("no tab in `{}`", excerpt(line.body(), 0)))),
        };
        Some(passage.map_err(|problem| line.error(problem)))
    }
}

pub(super) struct Dpr {
    lines: Lines,
    columns: Vec<String>,
}

impl Dpr {
    pub fn open(mut lines: Lines) -> Result<Self> {
        let header = next_record(&mut lines)?.map_or_else(Vec::new, |record| record.fields);
        let columns: Vec<String> = header.iter().map(|name| name.to_ascii_lowercase()).collect();
        let has = |name: &str| columns.iter().any(|column| column == name);
        if has("id") && (has("text") || has("contents")) {
            return Ok(Self { lines, columns });
        }
        let found = format!("`{}`", excerpt(&columns.join("\t"), 0));
        Err(Problem::new("a header with `id`, `text` and perhaps `title`", found).at(lines.path(), 1, 0))
    }

    fn passage(&self, values: Vec<String>) -> Result<Passage, Problem> {
        if values.len() != self.columns.len() {
            let found = format!("{} in `{}`", values.len(), excerpt(&values.join("\t"), 0));
            return Err(Problem::new(format!("{} fields, as in the header", self.columns.len()), found));
        }
        let mut fields = Fields::default();
        for (column, value) in self.columns.iter().zip(values) {
            match column.as_str() {
                "id" => fields.id = Some(value),
                "contents" => fields.contents = Some(value),
                "title" => fields.title = Some(value),
                "text" => fields.text = Some(value),
                _ => {}
            }
        }
        fields.into_passage()
    }
}

impl Iterator for Dpr {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match next_record(&mut self.lines).transpose()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let passage = self.passage(record.fields);
        Some(passage.map_err(|problem| problem.at(self.lines.path(), record.line, record.byte)))
    }
}

/// The next record, which may span lines inside quotes.
fn next_record(lines: &mut Lines) -> Result<Option<Record>> {
    let Some(line) = lines.next_filled()? else { return Ok(None) };
    let mut record = Record { line: line.number, byte: line.byte, ..Record::default() };
    let mut whole = record.feed(line.text).map_err(|problem| line.error(problem))?;
    while !whole {
        let Some(line) = lines.next_any()? else {
            let start = excerpt(record.fields.last().map_or("", String::as_str), 0);
            let problem = Problem::new("a closing quote", format!("the file's end; the quoted field begins `{start}`"));
            return Err(problem.at(lines.path(), record.line, record.byte));
        };
        whole = record.feed(line.text).map_err(|problem| line.error(problem))?;
    }
    Ok(Some(record))
}

/// A record of csv with tabs, fed line by line.
///
/// Stricter than most readers, which take anything after a closing quote: there a wrong quote swallows whole rows.
#[derive(Default)]
struct Record {
    fields: Vec<String>,
    state: State,
    length: usize,
    /// The place of its first line.
    line: u64,
    byte: u64,
}

#[derive(Default, Clone, Copy)]
enum State {
    #[default]
    Start,
    Bare,
    Quoted,
    Closed,
}

impl Record {
    /// Takes a line with its end; true when the record is whole.
    fn feed(&mut self, line: &str) -> Result<bool, Problem> {
        self.length += line.len();
        if self.length > MAX_LINE {
            let found = "more: is a quote missing?";
            return Err(Problem::new(format!("a record of at most {} MiB", MAX_LINE >> 20), found));
        }
        let mut rest = line;
        loop {
            match self.state {
                State::Start => {
                    self.fields.push(String::new());
                    let quoted = rest.strip_prefix('"');
                    self.state = if quoted.is_some() { State::Quoted } else { State::Bare };
                    rest = quoted.unwrap_or(rest);
                }
                State::Bare => match rest.split_once('\t') {
                    Some((value, tail)) => {
                        self.append(value);
                        self.state = State::Start;
                        rest = tail;
                    }
                    None => {
                        self.append(without_line_end(rest));
                        return Ok(true);
                    }
                },
                State::Quoted => match rest.split_once('"') {
                    Some((value, tail)) => {
                        self.append(value);
                        self.state = State::Closed;
                        rest = tail;
                    }
                    None => {
                        self.append(rest);
                        return Ok(false);
                    }
                },
                State::Closed => {
                    if let Some(tail) = rest.strip_prefix('"') {
                        self.append("\"");
                        self.state = State::Quoted;
                        rest = tail;
                    } else if let Some(tail) = rest.strip_prefix('\t') {
                        self.state = State::Start;
                        rest = tail;
                    } else if without_line_end(rest).is_empty() {
                        return Ok(true);
                    } else {
                        let found = format!("`{}`", excerpt(rest, 0));
                        return Err(Problem::new("a tab or the line's end after a closing quote", found));
                    }
                }
            }
        }
    }

    fn append(&mut self, value: &str) {
        if let Some(field) = self.fields.last_mut() {
            field.push_str(value);
        }
    }
}
