//! Lessons without a model: what the plays that succeeded did otherwise than those that failed, by rules.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::entry::LONGEST_TITLE;
use super::habits::{Asked, Habits, is_common, words_of};
use super::{Entry, Group, Lesson, Reflector};
use crate::Result;

/// Writes what the numbers of plays say: how often they searched, with how long queries, whether they followed up what they found.
/// What it writes holds no answer and no name of the question.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleReflector;

/// Pieces of advice in the order in which they are given: the tag, and the words for a pattern.
const ADVICE: [(&str, &str); 9] = [
    ("search-first", "Search before answering, however sure the answer seems."),
    ("follow-up", "Take the name that the first passages give, and search next for what is asked of it."),
    ("search-again", "Go on searching for what is still missing; one search is seldom enough."),
    ("new-words", "Never ask the same query twice: change its words, or ask for another part."),
    ("short-query", "Use short queries that name one thing, not the whole question."),
    ("full-query", "Put all that is known of the thing into the query."),
    ("relation", "Name in the query what is asked of the thing, beside its name."),
    ("stop-early", "Answer as soon as a passage holds what was asked."),
    ("answer-in-time", "Give an answer before the turns are used up."),
];
/// Pieces of advice of an entry.
const MOST_ADVICE: usize = 3;
/// Titles of members that make the title of a pattern where they have next to no words in common.
const MOST_TITLES: usize = 3;

struct Finding {
    tag: &'static str,
    text: String,
}

impl Reflector for RuleReflector {
    fn name(&self) -> &str {
        "rules"
    }

    fn reflect(&self, groups: &[Group<'_>]) -> Vec<Result<Option<Lesson>>> {
        groups.iter().map(|group| Ok(lesson(group))).collect()
    }

    fn generalise(&self, clusters: &[Vec<&Entry>]) -> Vec<Result<Option<Lesson>>> {
        clusters.iter().map(|members| Ok(pattern(members))).collect()
    }
}

fn lesson(group: &Group<'_>) -> Option<Lesson> {
    let asked = Asked::of(group.task);
    let (won, lost) = (Habits::of(&asked, &group.won), Habits::of(&asked, &group.lost));
    let mut findings = match (group.won.is_empty(), group.lost.is_empty()) {
        (false, false) => compared(&asked, group, &won, &lost),
        (false, true) => worked(&asked, &won),
        (true, false) => traps(&lost),
        (true, true) => Vec::new(),
    };
    findings.truncate(MOST_ADVICE);
    let title = asked.situation();
    if findings.is_empty() || title.is_empty() {
        return None;
    }
    let told = |habits: &Habits| format!("{:.1} searches of {:.1} words", habits.searches, habits.words);
    let thinking = match (group.won.is_empty(), group.lost.is_empty()) {
        (false, false) => format!(
            "{} plays succeeded, with {}; {} failed, with {}.",
            group.won.len(),
            told(&won),
            group.lost.len(),
            told(&lost)
        ),
        (false, true) => format!("All {} plays succeeded, with {}.", group.won.len(), told(&won)),
        _ => format!("All {} plays failed, with {}.", group.lost.len(), told(&lost)),
    };
    Some(Lesson {
        kind: "search".into(),
        title: short(&title),
        tags: findings.iter().map(|finding| finding.tag.to_owned()).collect(),
        description: findings.into_iter().map(|finding| finding.text).collect::<Vec<_>>().join(" "),
        thinking,
    })
}

/// What separates success from failure.
fn compared(asked: &Asked, group: &Group<'_>, won: &Habits, lost: &Habits) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |tag: &'static str, holds: bool, text: String| {
        if holds {
            findings.push(Finding { tag, text });
        }
    };
    let general = |tag| general(tag).to_owned();
    find("search-first", lost.unsearched >= won.unsearched + 0.5, general("search-first"));
    find("follow-up", won.follows >= lost.follows + 0.5, general("follow-up"));
    let more = won.searches.round();
    find(
        "search-again",
        won.searches >= lost.searches + 0.75,
        format!(
            "Search {more} times or so before answering; plays that failed stopped after {}.",
            lost.searches.round()
        ),
    );
    find("new-words", lost.repeats >= won.repeats + 0.5, general("new-words"));
    let (short, long) = (won.words.round(), lost.words.round());
    let both = won.words > 0.0 && lost.words > 0.0;
    find(
        "short-query",
        both && won.words <= 0.75 * lost.words,
        format!(
            "Use short queries, of about {short} words, that name one thing; queries of {long} words found nothing of use."
        ),
    );
    find(
        "full-query",
        both && 0.75 * won.words >= lost.words,
        format!("Put all that is known of the thing into the query: about {short} words instead of {long}."),
    );
    let decisive = asked.decisive(&group.won, &group.lost);
    let words = decisive.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    find(
        "relation",
        !decisive.is_empty(),
        format!("Put what is asked of the thing into the query, here {words}; queries without it led elsewhere."),
    );
    find("stop-early", lost.searches >= won.searches + 0.75, general("stop-early"));
    find("answer-in-time", lost.unanswered >= won.unanswered + 0.5, general("answer-in-time"));
    findings
}

/// What plays did that all succeeded.
fn worked(asked: &Asked, won: &Habits) -> Vec<Finding> {
    let is_short = won.words > 0.0 && won.words <= 0.6 * asked.words.len() as f64;
    keep([
        ("follow-up", won.follows >= 0.5),
        ("short-query", is_short),
        ("stop-early", won.searches <= 1.0 && won.unsearched == 0.0),
    ])
}

/// What plays did wrong that all failed.
fn traps(lost: &Habits) -> Vec<Finding> {
    keep([
        ("search-first", lost.unsearched >= 0.5),
        ("search-again", lost.searches <= 1.25 && lost.unsearched < 0.5),
        ("new-words", lost.repeats >= 0.5),
        ("answer-in-time", lost.unanswered >= 0.5),
    ])
}

fn keep<const N: usize>(held: [(&'static str, bool); N]) -> Vec<Finding> {
    let held = held.into_iter().filter(|(_, holds)| *holds);
    held.map(|(tag, _)| Finding { tag, text: general(tag).to_owned() }).collect()
}

fn general(tag: &str) -> &'static str {
    ADVICE.iter().find(|(known, _)| *known == tag).map_or("", |(_, text)| text)
}

/// What half of the members say, in general words.
fn pattern(members: &[&Entry]) -> Option<Lesson> {
    let count = |tag: &str| members.iter().filter(|member| member.tags.iter().any(|own| own == tag)).count();
    let mut shared: Vec<(usize, &str, &str)> = ADVICE.iter().map(|(tag, text)| (count(tag), *tag, *text)).collect();
    shared.retain(|(count, ..)| 2 * count >= members.len() && *count > 0);
    shared.sort_by_key(|(count, ..)| Reverse(*count));
    shared.truncate(MOST_ADVICE);
    if shared.is_empty() {
        return None;
    }
    let told = shared.iter().map(|(count, tag, _)| format!("{tag} {count}")).collect::<Vec<_>>().join(", ");
    Some(Lesson {
        kind: "pattern".into(),
        title: common_title(members),
        tags: shared.iter().map(|(_, tag, _)| (*tag).to_owned()).collect(),
        description: shared.iter().map(|(_, _, text)| *text).collect::<Vec<_>>().join(" "),
        thinking: format!("Of {} entries: {told}.", members.len()),
    })
}

/// The words that half of the titles have, in the order of the first one that has most of them; where they tell next to nothing, the
/// titles that occur most.
fn common_title(members: &[&Entry]) -> String {
    let titles: Vec<Vec<String>> = members.iter().map(|member| distinct(words_of(&member.title))).collect();
    let mut counts: HashMap<&String, usize> = HashMap::new();
    titles.iter().flatten().for_each(|word| *counts.entry(word).or_default() += 1);
    let is_shared = |word: &&String| 2 * counts.get(*word).copied().unwrap_or(0) >= members.len();
    let shared = titles.iter().map(|title| title.iter().filter(is_shared).cloned().collect::<Vec<_>>());
    let best = shared.reduce(|best, one| if one.len() > best.len() { one } else { best }).unwrap_or_default();
    if best.iter().filter(|word| !is_common(word)).count() >= 2 {
        return short(&best.join(" "));
    }
    // A title may be made of several itself.
    let parts = || members.iter().flat_map(|member| member.title.split("; ").map(str::to_owned));
    let mut told = distinct(parts());
    told.sort_by_key(|title| Reverse(parts().filter(|other| other == title).count()));
    told.truncate(MOST_TITLES);
    short(&told.join("; "))
}

/// Each word or title once, in the order of the first of each.
fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

fn short(title: &str) -> String {
    title.chars().take(LONGEST_TITLE).collect()
}
