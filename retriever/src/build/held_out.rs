//! Queries that are not in the index, made from its passages: what recall is measured with where nobody brings
//! questions.

use hindsearch_indexes::{Interrupt, Vectors};

use crate::corpus::Corpus;
use crate::embed::{Embedder, InputKind};
use crate::{Passage, Result};

/// Held-out queries that recall is measured with.
const QUERIES: usize = 256;

/// Vectors of sentences from passages spread over the corpus.
///
/// # Errors
/// A damaged passage, a model that fails; interrupted.
pub fn queries(embedder: &Embedder, corpus: &Corpus, interrupt: &Interrupt) -> Result<Vectors> {
    let mut numbered = (0..).zip(corpus.rows());
    let row_at = |at: u64| numbered.find(|(number, _)| *number == at).map(|(_, row)| row);
    let passages = rows(corpus.len(), QUERIES).filter_map(row_at).map(|row| corpus.get(row));
    let texts = passages.map(|passage| Ok(query_of(&passage?).to_owned())).collect::<Result<_>>()?;
    Ok(embedder.submit(texts, InputKind::Query).wait_unless(interrupt)?.vectors)
}

/// `count` items spread evenly over `items`.
pub fn spread<T>(items: &[T], count: usize) -> impl Iterator<Item = &T> {
    rows(items.len() as u64, count).map(|row| &items[row as usize])
}

/// `count` rows spread evenly over `0..rows`, ascending; all of them where there are fewer.
pub fn rows(rows: u64, count: usize) -> impl Iterator<Item = u64> {
    let count = (count as u64).min(rows);
    (0..count).map(move |at| (u128::from(at) * u128::from(rows) / u128::from(count)) as u64)
}

/// A query that its passage should answer: the sentence nearest to the middle of the text, without the title.
///
/// A sentence is a vector of its own, not a stored one, so finding its neighbours says something about the index.
pub fn query_of(passage: &Passage) -> &str {
    let text = passage.text.trim();
    let middle = text.len() / 2;
    let distance = |sentence: &&str| {
        let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
        (start + sentence.len() / 2).abs_diff(middle)
    };
    let sentences = text.split_inclusive(['.', '!', '?']).filter(|s| s.split_whitespace().count() >= 4);
    sentences.min_by_key(distance).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_and_never_repeat() {
        assert_eq!(rows(10, 5).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
        assert_eq!(rows(3, 5).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(rows(0, 5).count(), 0);
        assert_eq!(rows(u64::MAX, 2).collect::<Vec<_>>(), [0, u64::MAX / 2]);
    }

    #[test]
    fn a_query_is_a_sentence_of_the_passage() {
        let of = |text: &str| query_of(&Passage { id: "0".into(), title: None, text: text.into() }).to_owned();
        assert_eq!(of("One two three four. Five six seven eight nine. Ten."), "Five six seven eight nine.");
        assert_eq!(of("Short."), "Short.");
        assert_eq!(of(""), "");
    }
}
