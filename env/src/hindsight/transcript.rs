//! What happened in an attempt, for a judge or a teacher to read: one line a thing, and nothing in it can open a tag.

use std::borrow::Cow;

use super::outcome::answer;
use crate::escape;
use crate::trajectory::{Action, Trajectory, Turn};

/// Characters of a query, an answer, and a thought or a document that are told.
const LONGEST_QUERY: usize = 300;
const LONGEST_THOUGHT: usize = 600;
const LONGEST_LINE: usize = 300;
/// Lines of an observation that are told: the heads of so many passages.
const MOST_LINES: usize = 12;

/// Text of others as one line of at most so many characters: blanks become single, and it is inert.
pub(super) fn line(text: &str, most: usize) -> String {
    let words = text.split_whitespace();
    let mut short = String::new();
    let mut left = most;
    for word in words {
        let length = word.chars().count() + usize::from(!short.is_empty());
        if length > left {
            short.extend(short.is_empty().then(|| word.chars().take(left).collect::<String>()));
            short.push('…');
            break;
        }
        left -= length;
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    escape(&short).into_owned()
}

/// The queries of a turn that were searched for, each a line; none where it did not search.
pub(super) fn queries(turn: &Turn) -> Vec<String> {
    match &turn.action {
        Action::Search { queries } if turn.is_search() => {
            queries.iter().map(|query| line(query, LONGEST_QUERY)).collect()
        }
        _ => Vec::new(),
    }
}

/// What the policy wrote before its action, without tags.
pub(super) fn thought(attempt: &Trajectory, turn: &Turn) -> Option<String> {
    let text = &attempt.spans.get(turn.span)?.text;
    let before = turn.content.as_ref().map_or(text.as_str(), |content| text.get(..content.start).unwrap_or(text));
    Some(line(&without_tags(before), LONGEST_THOUGHT)).filter(|thought| !thought.is_empty())
}

/// The heads of the passages that a turn was shown, each a line.
pub(super) fn documents(attempt: &Trajectory, turn: &Turn) -> Vec<String> {
    let span = turn.observation.filter(|_| turn.is_search()).and_then(|at| attempt.spans.get(at));
    let text = span.map(|span| without_tags(&span.text)).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|text| !text.is_empty());
    // A text that is escaped already is not escaped again.
    lines.take(MOST_LINES).map(|text| line(&crate::unescape(text), LONGEST_LINE)).collect()
}

/// The answer as a line.
pub(super) fn answer_line(attempt: &Trajectory) -> Option<String> {
    answer(attempt).map(|answer| line(&without_tags(answer), LONGEST_QUERY))
}

/// The text without what looks like a tag of a recipe: `<think>`, `</search>`, `<|begin_search_query|>`.
fn without_tags(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "/|_-".contains(c);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let inside = from[1..].find(|c| !is_inside(c)).unwrap_or(from.len() - 1);
        if inside > 0 && from[1 + inside..].starts_with('>') {
            plain.push(' ');
            rest = &from[inside + 2..];
        } else {
            plain.push('<');
            rest = &from[1..];
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}
