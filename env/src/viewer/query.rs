//! Which trajectories are wanted, and in what order? The filters of a list, as its address holds them.

use std::cmp::Ordering;

use serde::Serialize;

use super::catalogue::{Catalogue, Entry};
use super::summary::Summary;
use crate::trajectory::Stop;
use crate::{Error, Result};

/// Trajectories of a page.
const PAGE: usize = 100;
/// Bars of the picture of rewards.
const BARS: usize = 12;

/// What is asked for.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// All of these occur, in lower case.
    words: Vec<String>,
    task: Option<String>,
    /// Over for this reason; `Some(None)`: not over.
    stop: Option<Option<Stop>>,
    /// The least reward.
    least: Option<f64>,
    /// The greatest.
    most: Option<f64>,
    error: Option<bool>,
    critique: Option<bool>,
    sort: Sort,
    descending: bool,
    pub offset: usize,
    limit: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Sort {
    #[default]
    Line,
    Task,
    Reward,
    Turns,
    Searches,
    Tokens,
}

/// What a list is made of.
#[derive(Serialize)]
pub(super) struct List<'a> {
    /// The name of the file.
    file: String,
    /// Plays in the file.
    plays: usize,
    /// Plays that were played again; the last one counts.
    superseded: usize,
    /// How many there are of each reason, without regard to the one that is asked for.
    stops: Vec<(Option<Stop>, usize)>,
    /// How many are wanted.
    matched: usize,
    /// How many of these something outside has spoilt.
    failed: usize,
    rewards: Option<Rewards>,
    offset: usize,
    limit: usize,
    trajectories: Vec<&'a Summary>,
}

/// The rewards of those that are wanted.
#[derive(Debug, Serialize)]
struct Rewards {
    count: usize,
    mean: f64,
    least: f64,
    most: f64,
    /// How many lie in each of twelve equal parts between the least and the greatest.
    bars: [usize; BARS],
}

/// Where a trajectory stands among those that are wanted.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    /// From 0; nothing where the filters leave it out.
    at: Option<usize>,
    of: usize,
    /// The line of the one before.
    previous: Option<u64>,
    /// The line of the one behind.
    next: Option<u64>,
}

impl Query {
    /// The query of an address, `name=value&…`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name or a value that is not known.
    pub fn parse(text: &str) -> Result<Self> {
        let mut query = Self::default();
        for (name, value) in text.split('&').filter(|pair| !pair.is_empty()).map(pair) {
            let wrong = |expected: &str| Error::invalid(format!("`{name}`"), expected, format!("`{value}`"));
            let flag = || match &*value {
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                _ => Err(wrong("true or false")),
            };
            let count = || value.parse().map_err(|_| wrong("a count"));
            let number = || {
                let number = value.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(Some).ok_or_else(|| wrong("a number"))
            };
            match &*name {
                "text" => query.words = value.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                "task" => query.task = Some(value),
                "stop" => {
                    let stop = (value != "none").then(|| serde_json::from_value(value.clone().into())).transpose();
                    query.stop = Some(stop.map_err(|_| wrong("answer, end, turns, context or none"))?);
                }
                "least" => query.least = number()?,
                "most" => query.most = number()?,
                "error" => query.error = flag()?,
                "critique" => query.critique = flag()?,
                "sort" => query.sort = Sort::named(&value).ok_or_else(|| wrong(Sort::NAMES))?,
                "descending" => query.descending = flag()? == Some(true),
                "offset" => query.offset = count()?,
                "limit" => query.limit = Some(count()?),
                _ => {
                    let known = "text, task, stop, least, most, error, critique, sort, descending, offset, limit";
                    return Err(Error::invalid("the address", known, format!("`{name}`")));
                }
            }
        }
        Ok(query)
    }

    /// A page of those that are wanted, and what can be said of all of them.
    pub fn list<'a>(&self, catalogue: &'a Catalogue) -> List<'a> {
        let wanted = self.wanted(catalogue);
        let limit = self.limit.unwrap_or(PAGE).clamp(1, PAGE);
        let rewards: Vec<f64> = wanted.iter().filter_map(|summary| summary.reward).collect();
        List {
            file: catalogue.name(),
            plays: catalogue.len(),
            superseded: catalogue.entries().len() - catalogue.len(),
            stops: self.stops(catalogue),
            matched: wanted.len(),
            failed: wanted.iter().filter(|summary| summary.error.is_some()).count(),
            rewards: Rewards::of(&rewards),
            offset: self.offset,
            limit,
            trajectories: wanted.into_iter().skip(self.offset).take(limit).collect(),
        }
    }

    /// Where the trajectory of a line stands.
    pub fn place(&self, catalogue: &Catalogue, line: u64) -> Place {
        let wanted = self.wanted(catalogue);
        let at = wanted.iter().position(|summary| summary.line == line);
        let line_at = |at: Option<usize>| Some(wanted.get(at?)?.line);
        Place {
            at,
            of: wanted.len(),
            previous: line_at(at.and_then(|at| at.checked_sub(1))),
            next: line_at(at.and_then(|at| at.checked_add(1))),
        }
    }

    fn wanted<'a>(&self, catalogue: &'a Catalogue) -> Vec<&'a Summary> {
        let stop = |summary: &Summary| self.stop.is_none_or(|stop| summary.stop == stop);
        let mut wanted: Vec<_> = self.but_for_stop(catalogue).filter(|summary| stop(summary)).collect();
        wanted.sort_by(|a, b| self.order(a, b));
        wanted
    }

    fn but_for_stop<'a>(&self, catalogue: &'a Catalogue) -> impl Iterator<Item = &'a Summary> {
        let entries = catalogue.entries().iter().filter(|entry: &&Entry| !entry.superseded);
        entries.map(|entry| &entry.summary).filter(|summary| {
            let reward = |holds: &dyn Fn(f64) -> bool| summary.reward.is_some_and(holds);
            self.words.iter().all(|word| summary.words.contains(word))
                && self.task.as_ref().is_none_or(|task| *task == summary.task)
                && self.least.is_none_or(|least| reward(&|reward| reward >= least))
                && self.most.is_none_or(|most| reward(&|reward| reward <= most))
                && self.error.is_none_or(|error| error == summary.error.is_some())
                && self.critique.is_none_or(|critique| critique == summary.critique)
        })
    }

    fn stops(&self, catalogue: &Catalogue) -> Vec<(Option<Stop>, usize)> {
        let all = [Some(Stop::Answer), Some(Stop::End), Some(Stop::Turns), Some(Stop::Context), None];
        let mut stops = all.map(|stop| (stop, 0));
        for summary in self.but_for_stop(catalogue) {
            if let Some((_, count)) = stops.iter_mut().find(|(stop, _)| *stop == summary.stop) {
                *count += 1;
            }
        }
        stops.to_vec()
    }

    /// Those of which the value is not known come last, whichever way is asked for; equal ones stay in the file's order.
    fn order(&self, a: &Summary, b: &Summary) -> Ordering {
        let turned = |ordering: Ordering| if self.descending { ordering.reverse() } else { ordering };
        let known = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => turned(a.total_cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let ordering = match self.sort {
            Sort::Line => turned(a.line.cmp(&b.line)),
            Sort::Task => turned(a.task.cmp(&b.task)).then(a.sample.cmp(&b.sample)),
            Sort::Reward => known(a.reward, b.reward),
            Sort::Turns => turned(a.turns.cmp(&b.turns)),
            Sort::Searches => turned(a.searches.cmp(&b.searches)),
            Sort::Tokens => known(a.tokens.map(|count| count as f64), b.tokens.map(|count| count as f64)),
        };
        ordering.then(a.line.cmp(&b.line))
    }
}

impl Sort {
    const NAMES: &str = "line, task, reward, turns, searches or tokens";

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "line" => Self::Line,
            "task" => Self::Task,
            "reward" => Self::Reward,
            "turns" => Self::Turns,
            "searches" => Self::Searches,
            "tokens" => Self::Tokens,
            _ => return None,
        })
    }
}

impl Rewards {
    fn of(rewards: &[f64]) -> Option<Self> {
        let least = rewards.iter().copied().reduce(f64::min)?;
        let most = rewards.iter().copied().reduce(f64::max)?;
        let mut bars = [0; BARS];
        for reward in rewards {
            let part = if most > least { (reward - least) / (most - least) * BARS as f64 } else { 0.0 };
            // A number that is too large becomes the largest index, and one that is none the first.
            bars[(part as usize).min(BARS - 1)] += 1;
        }
        Some(Self { count: rewards.len(), mean: rewards.iter().sum::<f64>() / rewards.len() as f64, least, most, bars })
    }
}

/// A name and its value, both decoded.
fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

/// `+` is a blank and `%41` a byte; what is not of this form stands for itself.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = |digit: u8| (digit as char).to_digit(16);
        let coded = match (first, others) {
            (b'%', [high, low, ..]) => {
                hex(*high).zip(hex(*low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        bytes.push(coded.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = &others[if coded.is_some() { 2 } else { 0 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
