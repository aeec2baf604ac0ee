//! Which words of a text are the answer? The first rule that finds any decides.

use super::patterns::{self, Chars, Find};
use crate::action::all_between;
use crate::preset::Tags;
use crate::reward::python::is_word;
use crate::text::{strip, words};

/// Names that are too common to be an answer.
const COMMON_NAMES: [&str; 6] =
    ["United States", "New York", "Los Angeles", "Great Britain", "Middle East", "South Africa"];
/// Words before an answer, each with one blank between.
const LEADS: [&[&str]; 2] = [&["therefore", "thus", "so", "hence"], &["in conclusion", "to summarize", "in summary"]];

/// The answer; empty where nothing is left after the thoughts.
pub(super) fn answer(response: &str) -> String {
    let text = without_thoughts(strip(response));
    if text.is_empty() {
        return text;
    }
    let chars: Vec<char> = text.chars().collect();
    let text = Chars(&chars);
    boxed(text)
        .or_else(|| emphasised(text))
        .or_else(|| patterns::date(text).map(|date| text.slice(date)))
        .or_else(|| name(text))
        .or_else(|| patterns::number(text).map(|number| text.slice(number)))
        .or_else(|| phrase(text))
        .or_else(|| sentence(text))
        .unwrap_or_else(|| strip(&text.slice(0..chars.len().min(100))).to_owned())
}

fn without_thoughts(response: &str) -> String {
    let tags = Tags { open: "<think>".into(), close: "</think>".into() };
    let mut kept = String::with_capacity(response.len());
    let mut from = 0;
    for thought in all_between(response, &tags) {
        kept.push_str(&response[from..thought.start - tags.open.len()]);
        from = thought.end + tags.close.len();
    }
    kept.push_str(&response[from..]);
    words(&kept).collect::<Vec<_>>().join(" ")
}

/// What the first box holds, where its braces are paired.
fn boxed(text: Chars<'_>) -> Option<String> {
    let start = text.find("boxed{", 0)? + "boxed{".len();
    let mut open = 1_usize;
    for (at, &c) in text.0.iter().enumerate().skip(start) {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(strip(&text.slice(start..at)).to_owned());
        }
    }
    None
}

/// The first words between double, then between single stars.
fn emphasised(text: Chars<'_>) -> Option<String> {
    let says_something = |found: &String| found.chars().count() > 2 && found.chars().any(is_word);
    ["**", "*"].into_iter().find_map(|stars| {
        let found = patterns::between_stars(text, stars.len());
        found.into_iter().map(|inside| strip(&text.slice(inside)).to_owned()).find(says_something)
    })
}

fn name(text: Chars<'_>) -> Option<String> {
    let is_telling = |name: &String| !COMMON_NAMES.contains(&&**name) && words(name).count() <= 4;
    patterns::names(text).map(|name| text.slice(name)).find(is_telling)
}

/// What follows words that lead to an answer.
fn phrase(text: Chars<'_>) -> Option<String> {
    let tail = |found: Option<Find>| {
        let found = text.slice(found?);
        let answer = found.trim_matches(|c| !is_word(c));
        (answer.chars().count() > 3).then(|| answer.to_owned())
    };
    let [causes, endings] = LEADS;
    tail(text.after_any(&["answer is"]))
        .or_else(|| tail(text.after_any(causes)))
        .or_else(|| tail(text.after_any(endings)))
        .or_else(|| tail(patterns::statement(text)))
        .or_else(|| tail(text.after_any(&["the answer would be", "it is", "it was"])))
}

/// The sentence that says most, or the first one.
fn sentence(text: Chars<'_>) -> Option<String> {
    let whole = text.slice(0..text.0.len());
    let sentences: Vec<&str> = whole.split(['.', '!', '?']).map(strip).collect();
    let long = sentences.iter().filter(|sentence| sentence.chars().count() > 10);
    let mut best: Option<(usize, &str)> = None;
    for &sentence in long {
        let points = points(sentence);
        // Of equals the first.
        if points > best.map_or(0, |(most, _)| most) {
            best = Some((points, sentence));
        }
    }
    let first = || sentences.iter().copied().find(|sentence| sentence.chars().count() > 5);
    best.map(|(_, sentence)| sentence).or_else(first).map(str::to_owned)
}

fn points(sentence: &str) -> usize {
    let chars: Vec<char> = sentence.chars().collect();
    let text = Chars(&chars);
    let worth = |holds: bool, points: usize| if holds { points } else { 0 };
    worth(patterns::year(text).is_some(), 3)
        + worth(patterns::names(text).next().is_some(), 2)
        + worth(patterns::has_verb(text), 1)
        + worth(words(sentence).count() < 15, 1)
}
