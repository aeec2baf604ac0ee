//! Rankings in TREC's run format, for trec_eval and its kin.

use std::io::{self, Write};

use super::Question;
use crate::Ranked;

/// Writes one line a hit: question id, `Q0`, passage id, rank from 1, score, tag.
///
/// # Errors
/// Whatever `sink` refuses. Blanks in ids would break the format's columns and become `_`.
pub fn write_run(sink: &mut dyn Write, questions: &[Question], rankings: &[Vec<Ranked>]) -> io::Result<()> {
    let column = |id: &str| id.replace(char::is_whitespace, "_");
    for (question, ranking) in questions.iter().zip(rankings) {
        for (at, hit) in ranking.iter().enumerate() {
            let (question, passage) = (column(&question.id), column(&hit.passage.id));
            writeln!(sink, "{question} Q0 {passage} {} {:.6} hindsearch", at + 1, hit.score)?;
        }
    }
    sink.flush()
}
