//! What else may a teacher be told: a better attempt, the answer, or the evidence?

use hindsearch_retriever::Passage;

use super::leak::contains_gold;
use super::outcome::{is_correct, is_over};
use super::sentences::sentences;
use super::transcript::line;
use super::{Hint, SiblingOptions, Siblings};
use crate::{Author, Task, Trajectory};

/// Passages of evidence, sentences of each, and characters of a sentence (EviSD).
const MOST_PASSAGES: usize = 2;
const MOST_SENTENCES: usize = 2;
const LONGEST_SENTENCE: usize = 400;
/// Characters of an accepted answer.
const LONGEST_ANSWER: usize = 300;

/// Which attempt is told as the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BetterOptions {
    /// Whether thoughts are told. SDPO leaves them out.
    pub thoughts: bool,
    /// Whether a correct attempt is told only of one that took less (Search-E1). Off, it is told of any other correct one (SDPO).
    pub takes_less: bool,
}

impl Default for BetterOptions {
    fn default() -> Self {
        Self { thoughts: false, takes_less: true }
    }
}

impl Siblings<'_> {
    /// The correct attempt (EM) with the fewest searches, of those the one with the fewest tokens of the policy, never the own one;
    /// nothing where there is none. It is one piece.
    pub fn better(&self, options: BetterOptions) -> Option<Hint> {
        let own = self.attempts.get(self.own).filter(|own| is_over(own) && is_correct(self.task, own));
        let others = self
            .attempts
            .iter()
            .enumerate()
            .filter(|(number, attempt)| *number != self.own && is_over(attempt) && is_correct(self.task, attempt));
        let (_, best) = others.min_by_key(|(number, attempt)| (cost(attempt), *number))?;
        if options.takes_less && own.is_some_and(|own| cost(own) <= cost(best)) {
            return None;
        }
        let told = SiblingOptions { future_masking: false, ..SiblingOptions::default() };
        let lines = self.lines(&told, best, options.thoughts);
        let piece = lines.join("\n") + "\n";
        Some(Hint::new("An attempt at this question that was right:\n", vec![piece], "Search as well as it did.\n"))
    }
}

/// Searches, then tokens of the policy. Where tokens are not known, letters take their place in all attempts alike.
fn cost(attempt: &Trajectory) -> (usize, usize) {
    let own = attempt.spans.iter().filter(|span| span.author == Author::Policy);
    let length = own.map(|span| if span.tokens.is_empty() { span.text.chars().count() } else { span.tokens.len() });
    (attempt.searches(), length.sum())
}

/// The accepted answers, and a sentence that leads back to the episode (OPSD); nothing where there are none. EviSD shows it where the
/// policy answers.
pub fn gold(task: &Task) -> Option<Hint> {
    let golds = task.gold().answers().iter().map(|gold| line(gold, LONGEST_ANSWER)).filter(|gold| !gold.is_empty());
    let golds: Vec<String> = golds.collect();
    let piece = format!("The reference answer to this question is: {}\n", golds.join(" / "));
    let transition = "With this answer in mind, find your own way to it, step by step.\n";
    (!golds.is_empty()).then(|| Hint::new("", vec![piece], transition))
}

/// What the passages of a task say, a piece a passage: at most two, and at most two sentences of each, first of all those that name an
/// accepted answer or another of the passages (EviSD). Nothing where no passage is known. The closure gives a passage of the corpus by
/// its id.
pub fn evidence(task: &Task, passage: impl Fn(&str) -> Option<Passage>) -> Option<Hint> {
    let passages: Vec<Passage> = task.passages().iter().filter_map(|id| passage(id)).take(MOST_PASSAGES).collect();
    let piece = |own: &Passage| {
        let others = passages.iter().filter(|other| other.id != own.id).map(Passage::display_title);
        let titles: Vec<&str> = others.filter(|title| !title.is_empty()).collect();
        let mut told: Vec<(usize, &str)> = sentences(&own.text).into_iter().enumerate().collect();
        let tells = |text: &str| contains_gold(task, text) || titles.iter().any(|title| text.contains(title));
        told.sort_by_key(|(number, text)| (!tells(text), *number));
        told.truncate(MOST_SENTENCES);
        told.sort_by_key(|(number, _)| *number);
        let told: Vec<String> = told.iter().map(|(_, text)| line(text, LONGEST_SENTENCE)).collect();
        format!("{}: {}\n", line(own.display_title(), LONGEST_SENTENCE), told.join(" "))
    };
    let pieces: Vec<String> = passages.iter().map(piece).collect();
    let closing = "Search for what leads to these.\n";
    (!pieces.is_empty())
        .then(|| Hint::new("What is needed for the answer stands in these passages:\n", pieces, closing))
}
