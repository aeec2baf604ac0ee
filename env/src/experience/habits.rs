//! What did the plays of a task do, in numbers that can be compared?

use std::collections::HashSet;

use crate::trajectory::{Action, Stop, Trajectory};
use crate::{Task, unescape};

/// Words that say nothing about what is looked for, and those that questions begin with.
const COMMON: [&str; 62] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "find", "for",
    "from", "give", "had", "has", "have", "how", "if", "in", "into", "is", "it", "its", "list", "many", "more", "most",
    "much", "name", "of", "on", "or", "out", "please", "tell", "than", "that", "the", "their", "then", "there",
    "these", "they", "this", "those", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose",
    "why", "with",
];
/// Letters from which on a word tells one passage from another.
const TELLING: usize = 4;

/// Plays of one outcome, on average.
#[derive(Debug, Default)]
pub(super) struct Habits {
    /// Searches of a play.
    pub searches: f64,
    /// Words of a query.
    pub words: f64,
    /// Share of plays with a query that takes up something from earlier passages.
    pub follows: f64,
    /// Share of plays that asked the same query twice.
    pub repeats: f64,
    /// Share of plays that answered without a search.
    pub unsearched: f64,
    /// Share of plays that used up their turns or their context.
    pub unanswered: f64,
}

/// A question and which of its words are names.
pub(super) struct Asked {
    /// All words, in lower case, in order.
    pub words: Vec<String>,
    /// Words that are no names of things, in order: what kind of question it is.
    pub relation: Vec<String>,
    /// Whether names can be told from other words at all: in text without capitals they cannot.
    pub has_names: bool,
}

impl Habits {
    pub fn of(asked: &Asked, plays: &[&Trajectory]) -> Self {
        let mut habits = Self::default();
        let (mut queries, mut words) = (0.0, 0.0);
        let share = 1.0 / plays.len().max(1) as f64;
        let yes = |it: bool| if it { share } else { 0.0 };
        for play in plays {
            let own: Vec<&String> = queries_of(play).collect();
            let count = own.len() as f64;
            habits.searches += share * count;
            queries += count;
            words += own.iter().map(|query| words_of(query).count() as f64).sum::<f64>();
            let different: HashSet<Vec<String>> = own.iter().map(|query| words_of(query).collect()).collect();
            habits.repeats += yes(different.len() < own.len());
            habits.unsearched += yes(own.is_empty());
            habits.unanswered += yes(matches!(play.stop, Some(Stop::Turns | Stop::Context)));
            habits.follows += yes(follows(asked, play));
        }
        habits.words = words / f64::max(queries, 1.0);
        habits
    }
}

impl Asked {
    pub fn of(task: &Task) -> Self {
        let names = names(task.question());
        let mut golds = HashSet::new();
        task.gold().answers().iter().chain(task.gold().augmented()).for_each(|gold| golds.extend(words_of(gold)));
        let words: Vec<String> = words_of(task.question()).collect();
        let is_free = |word: &&String| !names.contains(*word) && (is_common(word) || !golds.contains(*word));
        let relation = words.iter().filter(is_free).cloned().collect();
        Self { relation, words, has_names: !names.is_empty() }
    }

    /// The situation: the question without its names, or as it is where they cannot be told or nothing else is there.
    pub fn situation(&self) -> String {
        let told = self.relation.iter().any(|word| !is_common(word));
        (if told { &self.relation } else { &self.words }).join(" ")
    }

    /// Words of the question, no names, that half of the plays that succeeded searched for and none of the others.
    pub fn decisive(&self, won: &[&Trajectory], lost: &[&Trajectory]) -> Vec<&str> {
        let searched =
            |play: &&Trajectory| queries_of(play).flat_map(|query| words_of(query)).collect::<HashSet<String>>();
        let (won, lost): (Vec<_>, Vec<_>) = (won.iter().map(searched).collect(), lost.iter().map(searched).collect());
        let holds =
            |plays: &[HashSet<String>], word: &String| plays.iter().filter(|words| words.contains(word)).count();
        let is_decisive = |word: &&String| {
            let tells = word.len() >= TELLING && !is_common(word);
            tells && 2 * holds(&won, word) > won.len() && holds(&lost, word) == 0
        };
        if !self.has_names || lost.is_empty() {
            return Vec::new();
        }
        self.relation.iter().filter(is_decisive).map(String::as_str).take(3).collect()
    }
}

/// Whether a later query holds a word that the question did not have and passages before it did.
fn follows(asked: &Asked, play: &Trajectory) -> bool {
    let mut seen: HashSet<String> = HashSet::new();
    for turn in &play.turns {
        if let Action::Search { queries } = &turn.action {
            let is_taken = |word: &String| word.len() >= TELLING && !asked.words.contains(word) && seen.contains(word);
            if queries.iter().flat_map(|query| words_of(query)).any(|word| is_taken(&word)) {
                return true;
            }
        }
        if let Some(span) = turn.observation.and_then(|at| play.spans.get(at)) {
            seen.extend(words_of(&unescape(&span.text)));
        }
    }
    false
}

/// The queries of a play that were searched for.
pub(super) fn queries_of(play: &Trajectory) -> impl Iterator<Item = &String> {
    play.turns.iter().filter(|turn| turn.is_search()).flat_map(|turn| match &turn.action {
        Action::Search { queries } => queries.as_slice(),
        _ => &[],
    })
}

/// Words of a question that name things, in lower case: those with capitals or digits, and those in quotes.
pub(super) fn names(question: &str) -> Vec<String> {
    let quoted: HashSet<String> = question.split(['"', '“', '”']).skip(1).step_by(2).flat_map(words_of).collect();
    let mut names = Vec::new();
    for (at, raw) in split(question).enumerate() {
        let word = raw.to_lowercase();
        let is_capital = raw.chars().any(char::is_uppercase) && !(at == 0 && is_common(&word));
        let is_quoted = quoted.contains(&word) && !is_common(&word);
        if is_capital || is_quoted || raw.chars().any(|c| c.is_ascii_digit()) {
            names.push(word);
        }
    }
    names
}

pub(super) fn is_common(word: &str) -> bool {
    COMMON.contains(&word)
}

/// Words in lower case.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = String> {
    split(text).map(str::to_lowercase)
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '\'');
    words.map(|word| word.trim_matches(['-', '\''])).filter(|word| !word.is_empty())
}
