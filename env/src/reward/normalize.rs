//! How answers are made comparable (SQuAD's rule, as every recipe has it): lower case, no ASCII punctuation, no articles, single
//! blanks.

use crate::text::words;

/// The articles, whole words as Python's `\b` sees them.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// The normalised answer.
pub(super) fn normalize(answer: &str) -> String {
    let lower = answer.to_lowercase();
    let plain: String = lower.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    words(&without_articles(&plain)).collect::<Vec<_>>().join(" ")
}

/// Python's `re.sub(r"\b(a|an|the)\b", " ", text)`.
fn without_articles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first = rest.chars().next().is_some_and(is_word);
        let length = rest.find(|c| is_word(c) != first).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        kept.push_str(if ARTICLES.contains(&run) { " " } else { run });
        rest = after;
    }
    kept
}
