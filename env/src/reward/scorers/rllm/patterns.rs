//! The patterns by which rLLM guesses, by hand: what a word and a digit are is Python's idea, which no regex crate shares.
//!
//! Texts have single blanks only. Each function names the expression that it stands for.

use std::ops::Range;

use crate::reward::python::{ignore_case, is_decimal, is_word};

/// Where something was found, in characters.
pub(super) type Find = Range<usize>;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const UNITS: [&str; 15] = [
    "votes", "vote", "dollars", "dollar", "years", "year", "months", "month", "days", "day", "people", "million",
    "billion", "percent", "%",
];
const VERBS: [&str; 4] = ["was", "is", "are", "were"];

/// A text by characters.
#[derive(Clone, Copy)]
pub(super) struct Chars<'a>(pub &'a [char]);

impl Chars<'_> {
    pub fn slice(self, range: Range<usize>) -> String {
        self.0.get(range).unwrap_or_default().iter().collect()
    }

    fn at(self, at: usize) -> Option<char> {
        self.0.get(at).copied()
    }

    fn is(self, at: usize, c: char) -> bool {
        self.at(at) == Some(c)
    }

    /// `\b`.
    fn is_border(self, at: usize) -> bool {
        let is_word = |at: Option<usize>| at.and_then(|at| self.at(at)).is_some_and(is_word);
        is_word(at.checked_sub(1)) != is_word(Some(at))
    }

    fn starts_with(self, at: usize, what: &str) -> bool {
        what.chars().enumerate().all(|(offset, c)| self.is(at + offset, c))
    }

    /// The same, whatever the case; `what` is lower-case ASCII.
    fn starts_with_any_case(self, at: usize, what: &str) -> bool {
        what.chars().enumerate().all(|(offset, c)| self.at(at + offset).is_some_and(|own| ignore_case(own) == c))
    }

    pub fn find(self, what: &str, from: usize) -> Option<usize> {
        (from..self.0.len()).find(|&at| self.starts_with(at, what))
    }

    /// Where a run of characters ends.
    fn run(self, from: usize, belongs: impl Fn(char) -> bool) -> usize {
        (from..self.0.len()).find(|&at| !belongs(self.0[at])).unwrap_or(self.0.len()).max(from)
    }

    /// Where exactly so many digits end, whatever follows.
    fn digits(self, from: usize, count: usize) -> Option<usize> {
        (from..from + count).all(|at| self.at(at).is_some_and(is_decimal)).then_some(from + count)
    }

    /// The rest of the sentence behind the first of some words, whatever their case and wherever they stand:
    /// `(?:…)\s*[:,]?\s*([^.!?]+)`. What is between belongs to it here; it is trimmed off anyway.
    pub fn after_any(self, leads: &[&str]) -> Option<Find> {
        (0..self.0.len()).find_map(|at| {
            let lead = leads.iter().find(|lead| self.starts_with_any_case(at, lead))?;
            let start = at + lead.len();
            let end = self.sentence_end(start);
            (end > start).then_some(start..end)
        })
    }

    fn sentence_end(self, from: usize) -> usize {
        self.run(from, |c| !['.', '!', '?'].contains(&c))
    }
}

/// `\*\*([^*]+)\*\*`, or the same with one star.
pub(super) fn between_stars(text: Chars<'_>, stars: usize) -> Vec<Find> {
    let has_stars = |at: usize| (at..at + stars).all(|at| text.is(at, '*'));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.0.len() {
        let start = at + stars;
        if has_stars(at) {
            let end = text.run(start, |c| c != '*');
            if end > start && has_stars(end) {
                found.push(start..end);
                at = end + stars;
                continue;
            }
        }
        at += 1;
    }
    found
}

/// The first date of the first form that there is one of: `March 3, 1999`, `3/4/1999`, `March 1999`, `1999`.
pub(super) fn date(text: Chars<'_>) -> Option<Find> {
    let month = |at: usize, months: &[&str]| {
        let month = months.iter().find(|month| text.is_border(at) && text.starts_with_any_case(at, month))?;
        let end = at + month.len();
        text.is(end, ' ').then_some(end + 1)
    };
    let short = |at: usize| text.digits(at, 2).or_else(|| text.digits(at, 1));
    let slash = |at: usize| (text.is(at, '/') || text.is(at, '-')).then_some(at + 1);
    let year = |at: usize| text.digits(at, 4).filter(|&end| text.is_border(end));
    let full = |at: usize| {
        let day = short(month(at, &MONTHS)?)?;
        let blank = day + usize::from(text.is(day, ','));
        year(text.is(blank, ' ').then_some(blank + 1)?)
    };
    let slashed = |at: usize| {
        text.is_border(at).then_some(())?;
        year(slash(short(slash(short(at)?)?)?)?)
    };
    // January and February are missing there, too.
    let monthly = |at: usize| year(month(at, &MONTHS[2..])?);
    let first = |form: &dyn Fn(usize) -> Option<usize>| (0..text.0.len()).find_map(|at| Some(at..form(at)?));
    first(&full).or_else(|| first(&slashed)).or_else(|| first(&monthly)).or_else(|| self::year(text))
}

/// `\b\d{4}\b`.
pub(super) fn year(text: Chars<'_>) -> Option<Find> {
    let year = |at: usize| text.is_border(at).then(|| text.digits(at, 4)).flatten();
    (0..text.0.len()).find_map(|at| Some(at..year(at).filter(|&end| text.is_border(end))?))
}

/// `\b[A-Z][a-z]+(?:\s+[A-Z][a-z]+)+\b`, one after the other.
pub(super) fn names<'a>(text: Chars<'a>) -> impl Iterator<Item = Find> + 'a {
    let word = move |at: usize| {
        let end = text.run(at + 1, |c| c.is_ascii_lowercase());
        (text.at(at)?.is_ascii_uppercase() && end > at + 1).then_some(end)
    };
    let name = move |at: usize| {
        text.is_border(at).then_some(())?;
        let (mut end, mut last) = (word(at)?, None);
        while text.is(end, ' ')
            && let Some(next) = word(end + 1)
        {
            end = next;
            // A word that goes on otherwise is none, and the name ends before it.
            last = if text.is_border(end) { Some(end) } else { last };
        }
        last
    };
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = (from..text.0.len()).find_map(|at| Some(at..name(at)?))?;
        from = found.end;
        Some(found)
    })
}

/// `\b(\d+(?:,\d{3})*(?:\.\d+)?)\s*(?:votes?|…|%)\b`, else the number alone.
pub(super) fn number(text: Chars<'_>) -> Option<Find> {
    let groups = group_ends(text);
    let counted = |at: usize| {
        let groups_end = groups[digits_end(text, at)?];
        let end = decimals_end(text, groups_end).unwrap_or(groups_end);
        let unit = end + usize::from(text.is(end, ' '));
        let is_unit = |name: &str| text.starts_with(unit, name) && text.is_border(unit + name.chars().count());
        UNITS.iter().any(|name| is_unit(name)).then_some(end)
    };
    // The longest that ends at the border of a word.
    let plain = |at: usize| {
        let first = digits_end(text, at)?;
        let last = groups[first];
        let ends = decimals_end(text, last).into_iter().chain((first..=last).rev().step_by(GROUP));
        ends.into_iter().find(|&end| text.is_border(end))
    };
    let first = |form: &dyn Fn(usize) -> Option<usize>| {
        let mut starts = (0..text.0.len()).filter(|&at| text.is_border(at));
        starts.find_map(|at| Some(at..form(at)?))
    };
    first(&counted).or_else(|| first(&plain))
}

/// A comma and three digits.
const GROUP: usize = 4;

/// Behind the digits that begin here.
fn digits_end(text: Chars<'_>, at: usize) -> Option<usize> {
    Some(text.run(at, is_decimal)).filter(|&end| end > at)
}

/// Behind a point and the digits that begin behind it.
fn decimals_end(text: Chars<'_>, at: usize) -> Option<usize> {
    text.is(at, '.').then(|| digits_end(text, at + 1)).flatten()
}

/// For each place, where the groups of three end that begin there. All at once, for many numbers may share their groups.
fn group_ends(text: Chars<'_>) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..=text.0.len()).collect();
    for at in (0..text.0.len()).rev() {
        if text.is(at, ',') && text.digits(at + 1, GROUP - 1).is_some() {
            ends[at] = ends[at + GROUP];
        }
    }
    ends
}

/// `(?:^|\.\s+)([A-Z][^.!?]*(?:was|is|are|were)\s+[^.!?]+)`, in any case.
pub(super) fn statement(text: Chars<'_>) -> Option<Find> {
    let starts = (0..text.0.len()).filter_map(|at| match at {
        0 if !text.starts_with(0, ". ") => Some(0),
        _ => text.starts_with(at, ". ").then_some(at + 2),
    });
    starts.into_iter().find_map(|start| {
        text.at(start).filter(|&c| ignore_case(c).is_ascii_lowercase())?;
        let end = text.sentence_end(start);
        let says = |at: usize| {
            let verb = VERBS.iter().find(|verb| text.starts_with_any_case(at, verb))?;
            let blank = at + verb.len();
            (text.is(blank, ' ') && blank + 1 < end).then_some(())
        };
        (start + 1..end).find_map(says).map(|()| start..end)
    })
}

/// `\b(was|is|are|were)\b`, in any case.
pub(super) fn has_verb(text: Chars<'_>) -> bool {
    let is_verb = |at: usize, verb: &&str| text.starts_with_any_case(at, verb) && text.is_border(at + verb.len());
    (0..text.0.len()).any(|at| text.is_border(at) && VERBS.iter().any(|verb| is_verb(at, verb)))
}
