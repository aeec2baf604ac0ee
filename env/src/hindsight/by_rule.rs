//! What should have been searched for, where it is known which passages hold the answer? No model is asked.

use hindsearch_retriever::Passage;

use super::leak::{contains_gold, redacted};
use super::transcript::{line, queries};
use super::{Critic, CriticOptions, Critique, Leak};
use crate::{Result, Task, Trajectory};

/// Characters of a title or a query that are said.
const LONGEST_NAME: usize = 80;

/// A critic that knows the passages of each task ([`Task::passages`], in the order in which they are needed): it names the first one that
/// no search found, and the search that should have. The closure gives a passage of the corpus by its id.
///
/// A task without known passages, or whose passages have no titles, gets no critique. A critic that does not see the answers does not
/// see the passages, either: what it says is general.
pub struct RuleCritic<F> {
    options: CriticOptions,
    passage: F,
}

impl<F: Fn(&str) -> Option<Passage> + Send + Sync> RuleCritic<F> {
    /// A critic with this corpus.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) for critiques without words or tokens.
    pub fn new(options: CriticOptions, passage: F) -> Result<Self> {
        options.check()?;
        Ok(Self { options, passage })
    }

    fn one(&self, task: &Task, attempt: &Trajectory) -> Option<Critique> {
        let shown = Shown::of(task, attempt);
        let sees = self.options.sees_gold;
        let turn = shown.useless.filter(|_| self.options.names_turn && sees);
        let texts = if sees { self.texts(task, attempt, &shown) } else { blind_texts(attempt) };
        let usable = |text: &String| text.split_whitespace().count() <= self.options.words;
        let texts = texts.into_iter().filter(usable).map(|text| match self.options.leak {
            Leak::Redact => redacted(task, &text),
            _ => text,
        });
        let mut critiques = texts.map(|text| Critique { contains_gold: contains_gold(task, &text), text, turn });
        let may_name_gold = sees && self.options.leak != Leak::Reject;
        critiques.find(|critique| may_name_gold || !critique.contains_gold)
    }

    /// Critiques, the most telling one first, each free of more than the one before.
    fn texts(&self, task: &Task, attempt: &Trajectory, shown: &Shown) -> Vec<String> {
        let name = |place: usize| {
            let passage = (self.passage)(task.passages().get(place)?)?;
            Some(line(passage.display_title(), LONGEST_NAME)).filter(|title| !title.is_empty())
        };
        let Some(&missing) = shown.missing.first() else {
            let Some(last) = task.passages().len().checked_sub(1).and_then(name) else { return Vec::new() };
            return vec![
                format!(
                    "Stop searching: all that is needed was found. Read the passage on {last} again, and answer from it."
                ),
                "Stop searching: all that is needed was found. Read it again, and answer from it.".into(),
            ];
        };
        let Some(title) = name(missing) else { return Vec::new() };
        let next = shown.missing.get(1).and_then(|&place| name(place)).filter(|next| *next != title);
        let then = next.map_or(String::new(), |next| format!(" Then search for {next}."));
        let asked = shown.useless.filter(|_| shown.is_for_missing);
        let asked = asked.and_then(|turn| queries(&attempt.turns[turn]).into_iter().next());
        let asked = asked.map(|query| line(&crate::unescape(&query), LONGEST_NAME));
        let instead = match asked {
            Some(query) => format!("Instead of \"{query}\", search for "),
            None if attempt.searches() == 0 => "Search before you answer: ask for ".into(),
            None => "Search on: ask for ".into(),
        };
        let before = missing.checked_sub(1).and_then(name);
        let led = before
            .map(|before| format!("Take the name that the passage on {before} leads to, and search for it alone."));
        [
            format!("{instead}{title} by name.{then}"),
            format!("{instead}{title} by name."),
            format!("Search for {title} by name."),
        ]
        .into_iter()
        .chain(led)
        .chain(["Search for one name at a time, in the order in which the question leads from one to the next.".into()])
        .collect()
    }
}

/// What can be said of a failed attempt by one who knows neither the answers nor the passages, which would give them away.
fn blind_texts(attempt: &Trajectory) -> Vec<String> {
    let last = attempt.turns.iter().rev().find_map(|turn| queries(turn).into_iter().next());
    let last = last.map(|query| line(&crate::unescape(&query), LONGEST_NAME));
    let general = "Search for one name at a time, in the order in which the question leads from one to the next.";
    let said = last.map(|query| format!("Instead of \"{query}\", search for one name of the question alone."));
    said.into_iter().chain([general.into()]).collect()
}

impl<F: Fn(&str) -> Option<Passage> + Send + Sync> Critic for RuleCritic<F> {
    fn critique(&self, failures: &[(&Task, &Trajectory)]) -> Vec<Result<Option<Critique>>> {
        failures.iter().map(|(task, attempt)| Ok(self.one(task, attempt))).collect()
    }
}

/// What an attempt was shown of the passages that it needed.
struct Shown {
    /// Places of those that it was never shown, in the order in which they are needed.
    missing: Vec<usize>,
    /// The first turn whose search showed none of those that were missing then; rather one in which it was the first of `missing` that
    /// was needed next, for an earlier one was made good.
    useless: Option<usize>,
    /// Whether that passage was needed next in that turn.
    is_for_missing: bool,
}

impl Shown {
    fn of(task: &Task, attempt: &Trajectory) -> Self {
        let mut missing: Vec<usize> = (0..task.passages().len()).collect();
        let mut useless: Vec<(usize, usize)> = Vec::new();
        for (number, turn) in attempt.turns.iter().enumerate() {
            let Some(found) = &turn.found else { continue };
            let before = missing.len();
            let is_shown =
                |place: &usize| found.iter().flatten().any(|found| found.shown && found.id == task.passages()[*place]);
            missing.retain(|place| !is_shown(place));
            if let Some(&next) = missing.first().filter(|_| missing.len() == before) {
                useless.push((number, next));
            }
        }
        let for_missing = useless.iter().find(|(_, next)| Some(next) == missing.first());
        let first = for_missing.or(useless.first()).map(|(number, _)| *number);
        Self { useless: first, is_for_missing: for_missing.is_some(), missing }
    }
}
