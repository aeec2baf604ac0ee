//! Rankings in TREC's run format, for trec_eval and its kin.

use std::io::{self, Write};

use super::Question;
use crate::Ranked;

/// Writes one line a hit: question id, `Q0`, passage id, rank from 1, score, tag. Blanks in ids would break the
/// format's columns and become `_`.
///
/// # Errors
/// Whatever `sink` refuses.
pub fn write_run(sink: &mut dyn Write, question: &Question, ranking: &[Ranked]) -> io::Result<()> {
    let column = |id: &str| id.replace(char::is_whitespace, "_");
    for (at, hit) in ranking.iter().enumerate() {
        // All digits of a score: tools that sort by it must not see ties where there are none.
        let (question, passage) = (column(&question.id), column(&hit.passage.id));
        writeln!(sink, "{question} Q0 {passage} {} {} hindsearch", at + 1, hit.score)?;
    }
    Ok(())
}
