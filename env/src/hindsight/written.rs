//! A language model as a critic: what it is shown is data to it, and what it says is used only in the form that was asked for.

use std::sync::{Mutex, PoisonError};

use super::leak::{contains_gold, redacted};
use super::prompt::{Unusable, names_turn, request};
use super::sentences::sentences;
use super::{Critic, CriticOptions, Critique, Leak};
use crate::{Error, Request, Result, Task, Trajectory, Writer, escape};

const MOST_SENTENCES: usize = 2;
/// Letters of a word, on average, with which a critique is still words.
const LONGEST_WORD: usize = 20;

/// A critic that lets a model write. A reply that cannot be used is asked for once more, with what was wrong with it; then there is no
/// critique.
pub struct WrittenCritic<W> {
    writer: W,
    options: CriticOptions,
    counts: Mutex<CriticCounts>,
}

/// What came of the failures that a critic was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CriticCounts {
    /// Failures that it was shown.
    pub asked: u64,
    /// Critiques.
    pub written: u64,
    /// Replies that were asked for once more.
    pub retried: u64,
    /// Failures without a critique, for no reply could be used.
    pub dropped: u64,
    /// Failures without a critique, for the writer failed.
    pub failed: u64,
    /// Critiques in which an answer was replaced.
    pub redacted: u64,
    /// Critiques that name an accepted answer.
    pub contain_gold: u64,
}

impl<W: Writer> WrittenCritic<W> {
    /// A critic of this writer.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for critiques without words or tokens.
    pub fn new(writer: W, options: CriticOptions) -> Result<Self> {
        options.check()?;
        Ok(Self { writer, options, counts: Mutex::default() })
    }

    /// Which model writes.
    pub fn name(&self) -> &str {
        self.writer.name()
    }

    /// What came of all failures so far.
    pub fn counts(&self) -> CriticCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written for each request, as a critique or as what is wrong with it.
    fn ask(&self, open: &[(&Task, &Trajectory)], requests: &[Request]) -> Vec<Result<Reply>> {
        let mut written = self.writer.write(requests);
        written.resize_with(open.len(), || {
            Err(Error::Unavailable {
                what: format!("writer `{}`", self.name()),
                found: "fewer texts than requests".into(),
                remedy: "mend the writer".into(),
            })
        });
        let read =
            |(reply, (task, attempt)): (Result<String>, &(&Task, &Trajectory))| Ok(self.read(reply?, task, attempt));
        written.into_iter().zip(open).map(read).collect()
    }

    fn read(&self, reply: String, task: &Task, attempt: &Trajectory) -> Reply {
        let read = read(&reply, &self.options, attempt).and_then(|(text, turn)| {
            let names_gold = contains_gold(task, &text);
            match self.options.leak {
                Leak::Reject if names_gold => Err(NAMES_GOLD.to_owned()),
                Leak::Redact => Ok((redacted(task, &text), turn, names_gold)),
                _ => Ok((text, turn, false)),
            }
        });
        match read {
            Ok((text, turn, redacted)) => {
                let contains_gold = contains_gold(task, &text);
                let critique = Critique { text: escape(&text).into_owned(), turn, contains_gold };
                Reply::Usable { critique, redacted }
            }
            Err(fault) => Reply::Unusable(Unusable { reply, fault }),
        }
    }
}

/// What is wrong with a critique that may not name the answer. A judge that was not told the answer does not learn it that way.
const NAMES_GOLD: &str = "it names an accepted answer";

enum Reply {
    Usable { critique: Critique, redacted: bool },
    Unusable(Unusable),
}

impl<W: Writer> Critic for WrittenCritic<W> {
    fn critique(&self, failures: &[(&Task, &Trajectory)]) -> Vec<Result<Option<Critique>>> {
        let requests: Vec<Request> =
            failures.iter().map(|(task, attempt)| request(&self.options, task, attempt, None)).collect();
        let mut replies = self.ask(failures, &requests);
        let again: Vec<(usize, Request)> = replies
            .iter()
            .zip(failures)
            .enumerate()
            .filter_map(|(number, (reply, (task, attempt)))| match reply {
                Ok(Reply::Unusable(unusable)) if self.options.sees_gold || unusable.fault != NAMES_GOLD => {
                    Some((number, request(&self.options, task, attempt, Some(unusable))))
                }
                _ => None,
            })
            .collect();
        let (places, requests): (Vec<usize>, Vec<Request>) = again.into_iter().unzip();
        if !places.is_empty() {
            let open: Vec<_> = places.iter().map(|&place| failures[place]).collect();
            for (&place, reply) in places.iter().zip(self.ask(&open, &requests)) {
                replies[place] = reply;
            }
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.asked += failures.len() as u64;
        counts.retried += places.len() as u64;
        let settle = |reply: Result<Reply>| match reply {
            Ok(Reply::Usable { critique, redacted }) => {
                counts.written += 1;
                counts.redacted += u64::from(redacted);
                counts.contain_gold += u64::from(critique.contains_gold);
                Ok(Some(critique))
            }
            Ok(Reply::Unusable(_)) => {
                counts.dropped += 1;
                Ok(None)
            }
            Err(error) => {
                counts.failed += 1;
                Err(error)
            }
        };
        replies.into_iter().map(settle).collect()
    }
}

/// The critique in a reply and the turn that it names; the error says what is wrong with it.
fn read(reply: &str, options: &CriticOptions, attempt: &Trajectory) -> Result<(String, Option<usize>), String> {
    // Models that think aloud do so before.
    let said = reply.rsplit_once("</think>").map_or(reply, |(_, said)| said);
    let (steps, lines): (Vec<&str>, Vec<&str>) = said.trim().lines().partition(|line| step(line).is_some());
    let turn = if names_turn(options, attempt) { Some(turn(&steps, attempt)?) } else { None };
    let text = lines.join("\n");
    let text = text.trim().trim_matches(['"', '“', '”']).trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    if text.lines().any(|line| line.trim().is_empty()) {
        return Err("it has more than one paragraph".into());
    }
    let words = text.split_whitespace().count();
    if words > options.words {
        return Err(format!("it has {words} words, and {} are the most", options.words));
    }
    let most = options.words.saturating_mul(LONGEST_WORD);
    if text.chars().count() > most {
        return Err(format!("it has words of more than {LONGEST_WORD} letters on average"));
    }
    let count = sentences(text).len();
    if count > MOST_SENTENCES {
        return Err(format!("it has {count} sentences, and {MOST_SENTENCES} are the most"));
    }
    Ok((text.split_whitespace().collect::<Vec<_>>().join(" "), turn))
}

/// What stands behind `STEP:` in a line. Models write it in bold or as code; that is the same form.
fn step(line: &str) -> Option<String> {
    let plain = line.to_ascii_lowercase().replace(['*', '`'], "");
    plain.trim().strip_prefix("step:").map(|number| number.trim().trim_end_matches('.').to_owned())
}

/// The turn that the only `STEP:` names.
fn turn(steps: &[&str], attempt: &Trajectory) -> Result<usize, String> {
    let searched = attempt.turns.iter().enumerate().filter(|(_, turn)| turn.is_search()).map(|(number, _)| number);
    let searched: Vec<usize> = searched.collect();
    let named = match steps {
        [only] => step(only).and_then(|number| number.parse::<usize>().ok()).and_then(|number| number.checked_sub(1)),
        _ => None,
    };
    named.filter(|turn| searched.contains(turn)).ok_or_else(|| {
        let known: Vec<String> = searched.iter().map(|turn| (turn + 1).to_string()).collect();
        format!("it must have one line `STEP: n`, where n is one of the steps that searched ({})", known.join(", "))
    })
}
