//! Which passages hold the answer, as BEIR's and TREC's relevance judgements say it?

use std::collections::HashMap;
use std::path::Path;

use super::json_lines::read_lines;
use crate::{Error, Result};

/// The relevant passages of each question that has some, in the file's order, by the data set's ids.
pub(super) type Judged = HashMap<String, Vec<String>>;

/// Reads BEIR's three columns with a header, or TREC's four without.
pub(super) fn read(path: &Path) -> Result<Judged> {
    let mut judged = Judged::new();
    read_lines(path, &mut |number, line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (question, passage, relevance) = match columns[..] {
            ["query-id", "corpus-id", "score"] => return Ok(()),
            [question, passage, relevance] | [question, _, passage, relevance] => (question, passage, relevance),
            _ => return Err(bad(path, number, "three columns (BEIR) or four (TREC)", &columns.len().to_string())),
        };
        match relevance.parse::<f64>() {
            Ok(relevance) if relevance > 0.0 => {
                judged.entry(question.to_owned()).or_default().push(passage.to_owned());
                Ok(())
            }
            Ok(relevance) if relevance <= 0.0 => Ok(()),
            _ => Err(bad(path, number, "a number as relevance", &format!("`{}`", relevance.escape_debug()))),
        }
    })?;
    Ok(judged)
}

fn bad(path: &Path, line: u64, expected: &str, found: &str) -> Error {
    Error::Line { path: path.to_path_buf(), line, expected: expected.into(), found: found.into() }
}
