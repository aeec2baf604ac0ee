//! Many episodes at once: messages and passages are asked for in batches, what fails outside is tried again and never scored,
//! and the record does not depend on who waited for whom.

mod again;
mod plans;
mod room;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hindsearch_indexes::{ErrorKind, Interrupt, Progress};
use hindsearch_retriever::{Ranked, Retrieve};

use crate::experience::Guide;
use crate::log::TrajectoryLog;
use crate::policy::{self, Policy};
use crate::rules::{Decision, Message, Rules};
use crate::trajectory::{Advice, Trajectory};
use crate::{Error, Result, Task};
use plans::{PLANNED, Plans};
use room::{EndsWith, Play, Queue, Room, spawn};

pub use again::{replay, score};

/// Queries that are searched at a time.
const SEARCHES: usize = 256;
/// Threads that ask the policy; each is one request under way.
const MOST_CALLERS: usize = 512;

/// How to play.
#[derive(Debug, Clone)]
pub struct RolloutOptions {
    /// Plays of each task.
    pub samples: NonZero<u32>,
    /// Episodes under way at a time.
    pub parallel: NonZero<usize>,
    /// How often a message or a search that fails is tried again.
    pub retries: u32,
    /// The first pause before that; it doubles each time.
    pub pause: Duration,
    /// How long the retriever may be away, with nothing found in between, until the run ends: it goes on later with what is left.
    pub patience: Duration,
    /// Where all seeds come from.
    pub seed: u64,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        Self {
            samples: NonZero::<u32>::MIN,
            parallel: NonZero::new(64).unwrap_or(NonZero::<usize>::MIN),
            retries: 2,
            pause: Duration::from_millis(200),
            patience: Duration::from_secs(120),
            seed: 0,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Episodes played to their end.
    pub played: u64,
    /// Episodes that were there already.
    pub resumed: u64,
    /// Episodes that something outside kept from their end; they have no reward.
    pub failed: u64,
    /// The sum of the rewards.
    pub reward: f64,
    /// Searches.
    pub searches: u64,
    /// Messages of the policy.
    pub messages: u64,
    /// What the first of the failures was.
    pub failure: Option<String>,
}

/// Plays episodes.
pub struct Rollout<'a> {
    /// The recipe.
    pub rules: &'a Rules,
    /// Where passages come from.
    pub retriever: &'a dyn Retrieve,
    /// Who plays.
    pub policy: &'a dyn Policy,
    /// Experience that prompts and observations show; nothing for episodes by themselves.
    pub guide: Option<&'a Guide>,
    /// How.
    pub options: RolloutOptions,
}

impl Rollout<'_> {
    /// Plays each task so many times and writes each trajectory to the log once it is over. Plays that the log holds already
    /// are not played again. `on_progress` counts episodes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] on request, with everything that was over in the log; [`Error::Io`] when the log cannot be written.
    pub fn run(
        &self,
        tasks: &[Task],
        log: &mut TrajectoryLog,
        on_progress: &dyn Fn(Progress),
        interrupt: &Interrupt,
    ) -> Result<Summary> {
        let samples = self.options.samples.get();
        let mut summary = Summary::default();
        let plays = tasks.iter().flat_map(|task| (0..samples).map(move |sample| (task, sample)));
        let mut waiting: Vec<_> = plays.filter(|(task, sample)| !log.holds(task.id(), *sample)).collect();
        waiting.reverse();
        let open = waiting.len();
        let total = tasks.len() as u64 * u64::from(samples);
        summary.resumed = total - waiting.len() as u64;
        let room = Room::new(waiting);
        std::thread::scope(|scope| {
            let callers = self.policy.callers().min(self.options.parallel.get()).min(open).min(MOST_CALLERS);
            let mut outcome = spawn(scope, || self.search(&room));
            for number in 0..callers.max(1) {
                let spawned = spawn(scope, || self.speak(&room));
                // One caller is enough to go on with.
                if number == 0 {
                    outcome = outcome.and(spawned);
                }
            }
            if let Err(error) = outcome {
                room.end();
                return Err(error);
            }
            let resumed = summary.resumed;
            let outcome = self.collect(&room, log, interrupt, &mut summary, &|done| {
                on_progress(Progress { done: resumed + done, total: Some(total) });
            });
            room.end();
            let table = room.lock();
            (summary.searches, summary.messages) = (table.searches, table.messages);
            drop(table);
            outcome?;
            Ok(summary)
        })
    }

    /// Begins episodes, takes those that are over, and writes them down.
    fn collect<'a>(
        &self,
        room: &Room<'a>,
        log: &mut TrajectoryLog,
        interrupt: &Interrupt,
        summary: &mut Summary,
        on_progress: &dyn Fn(u64),
    ) -> Result<()> {
        let samples = self.options.samples.get() as usize;
        let mut plans = Plans::new(self.guide);
        let mut table = room.lock();
        loop {
            if interrupt.check().is_err() {
                return Err(Error::Interrupted);
            }
            if let Some(error) = table.end.take() {
                return Err(error);
            }
            if table.over {
                return Err(Error::Unavailable {
                    what: "a rollout's thread".into(),
                    found: "it ended by a defect of the policy or the retriever".into(),
                    remedy: "see standard error; the same call goes on with what is left".into(),
                });
            }
            while table.under_way < self.options.parallel.get() {
                let Some((task, sample)) = table.waiting.pop() else { break };
                let Some(experience) = plans.of(task) else {
                    table.waiting.push((task, sample));
                    let next = table.waiting.iter().rev().map(|(task, _)| *task).take(PLANNED * samples).collect();
                    drop(table);
                    plans.make(next)?;
                    table = room.lock();
                    continue;
                };
                table.under_way += 1;
                let episode = self.rules.begin_with(task, sample, experience);
                table.speaking.push_back(Play { task, episode, tries: 0, again: None });
            }
            room.changed.notify_all();
            let done = std::mem::take(&mut table.done);
            if done.is_empty() && table.under_way == 0 {
                drop(table);
                return log.sync();
            }
            if done.is_empty() {
                // Looks up now and then for a wish to stop.
                let waited = room.changed.wait_timeout(table, Duration::from_millis(100));
                table = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            table.under_way -= done.len();
            drop(table);
            for episode in done {
                log.append(&episode)?;
                match &episode.reward {
                    Some(earned) => {
                        summary.played += 1;
                        summary.reward += earned.total;
                    }
                    None => {
                        summary.failed += 1;
                        summary.failure = summary.failure.take().or(episode.error);
                    }
                }
            }
            on_progress(summary.played + summary.failed);
            table = room.lock();
        }
    }

    /// Lets the policy say the next message of episodes that want one.
    fn speak(&self, room: &Room<'_>) {
        let _guard = EndsWith(room);
        while let Some(plays) = room.take(|table| &mut table.speaking, self.policy.batch()) {
            let turns: Vec<policy::Turn<'_>> = plays.iter().map(|play| self.turn(&play.episode)).collect();
            let mut messages = self.policy.generate(&turns);
            let missing = || {
                Err(Error::Unavailable {
                    what: "the policy".into(),
                    found: "fewer messages than episodes".into(),
                    remedy: "mend the policy".into(),
                })
            };
            messages.resize_with(plays.len(), missing);
            room.lock().messages += plays.len() as u64;
            for (play, message) in plays.into_iter().zip(messages) {
                self.spoken(room, play, message);
            }
        }
    }

    fn turn<'e>(&'e self, episode: &'e Trajectory) -> policy::Turn<'e> {
        policy::Turn { episode, rules: self.rules, seed: seed(self.options.seed, episode) }
    }

    fn spoken<'a>(&self, room: &Room<'a>, mut play: Play<'a>, message: Result<Message>) {
        match message.and_then(|message| self.rules.decide(&mut play.episode, message)) {
            Ok(decision) => {
                play.tries = 0;
                match decision {
                    Decision::Search(_) => room.put(|table| table.searching.push_back(play)),
                    Decision::Next(next) if next.stop.is_none() => room.put(|table| table.speaking.push_back(play)),
                    Decision::Next(_) => self.over(room, play),
                }
            }
            Err(error) => self.failed(room, play, &error, |table| &mut table.speaking),
        }
    }

    /// Searches for episodes that wait for passages, each different query once.
    fn search(&self, room: &Room<'_>) {
        let _guard = EndsWith(room);
        while let Some(plays) = room.take(|table| &mut table.searching, SEARCHES) {
            let mut places: HashMap<String, usize> = HashMap::new();
            let mut queries = Vec::new();
            for query in plays.iter().flat_map(|play| play.episode.pending().unwrap_or_default()) {
                places.entry(query.clone()).or_insert_with(|| {
                    queries.push(query.clone());
                    queries.len() - 1
                });
            }
            room.lock().searches += queries.len() as u64;
            let found = self.found(&queries).and_then(|found| Ok((found, self.advice(&plays)?)));
            match found {
                Ok((found, advice)) => {
                    room.lock().away = None;
                    for (play, advice) in plays.into_iter().zip(advice) {
                        let own = play.episode.pending().unwrap_or_default().iter();
                        let own: Option<Vec<_>> =
                            own.map(|query| Some(found.get(*places.get(query)?)?.clone())).collect();
                        let own = own.ok_or_else(|| wrong_count(queries.len(), found.len()));
                        self.observed(room, play, own.map(|own| (own, advice)));
                    }
                }
                // One bad query must not cost the others their passages; a retriever that is not there costs all of them.
                Err(error) if plays.len() > 1 && !is_absent(&error) => {
                    for play in plays {
                        let found = self.found(play.episode.pending().unwrap_or_default());
                        let found = found.and_then(|found| {
                            Ok((found, self.advice(std::slice::from_ref(&play))?.pop().unwrap_or_default()))
                        });
                        self.observed(room, play, found);
                    }
                }
                Err(error) => {
                    if is_absent(&error) && self.is_gone(room, &error) {
                        return;
                    }
                    for play in plays {
                        self.failed(room, play, &error, |table| &mut table.searching);
                    }
                }
            }
        }
    }

    /// Whether the retriever has been away for too long. The episodes that wait for it are not over: they are played when the run
    /// goes on.
    fn is_gone(&self, room: &Room<'_>, error: &Error) -> bool {
        let mut table = room.lock();
        let away = table.away.get_or_insert_with(Instant::now).elapsed();
        let gone = away > self.options.patience;
        if gone {
            table.end = Some(Error::Unavailable {
                what: "the retriever".into(),
                found: format!("nothing for {:.0} s ({error})", away.as_secs_f64()),
                remedy: "start it; the same call goes on with what is left".into(),
            });
        }
        gone
    }

    fn found(&self, queries: &[String]) -> Result<Vec<Vec<Ranked>>> {
        let found = self.retriever.retrieve(queries, self.rules.preset().observation.top_k)?;
        if found.len() == queries.len() { Ok(found) } else { Err(wrong_count(queries.len(), found.len())) }
    }

    /// What experience says to the searches that wait, one each.
    fn advice(&self, plays: &[Play<'_>]) -> Result<Vec<Vec<Advice>>> {
        let Some(guide) = self.guide else { return Ok(vec![Vec::new(); plays.len()]) };
        let searches = plays.iter().map(|play| (play.task.id(), play.episode.pending().unwrap_or_default()));
        guide.step(&searches.collect::<Vec<_>>())
    }

    fn observed<'a>(&self, room: &Room<'a>, mut play: Play<'a>, found: Result<(Vec<Vec<Ranked>>, Vec<Advice>)>) {
        match found.and_then(|(found, advice)| self.rules.observe_with(&mut play.episode, &found, &advice)) {
            Ok(next) => {
                play.tries = 0;
                if next.stop.is_none() {
                    room.put(|table| table.speaking.push_back(play));
                } else {
                    self.over(room, play);
                }
            }
            Err(error) => self.failed(room, play, &error, |table| &mut table.searching),
        }
    }

    /// An episode that is over is scored, here and nowhere else.
    fn over<'a>(&self, room: &Room<'a>, mut play: Play<'a>) {
        score(self.rules, play.task, &mut play.episode);
        room.put(|table| table.done.push_back(play.episode));
    }

    /// What failed outside is tried again, then given up; the episode is then no one's fault and earns nothing, not even 0.
    fn failed<'a>(&self, room: &Room<'a>, mut play: Play<'a>, error: &Error, queue: Queue) {
        if play.tries < self.options.retries {
            let pause = self.options.pause.saturating_mul(1 << play.tries.min(10));
            play.tries += 1;
            play.again = Some(Instant::now() + pause);
            room.put(|table| queue(table).push_back(play));
        } else {
            play.episode.error = Some(error.to_string());
            room.put(|table| table.done.push_back(play.episode));
        }
    }
}

/// Whether the fault is the retriever's, whatever it is asked.
fn is_absent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Overloaded)
}

fn wrong_count(queries: usize, found: usize) -> Error {
    Error::Unavailable {
        what: "the retriever".into(),
        found: format!("passages for {found} queries of {queries}"),
        remedy: "mend the retriever".into(),
    }
}

/// The seed of an episode's next message.
fn seed(run: u64, episode: &Trajectory) -> u64 {
    let mut hash = blake3::Hasher::new();
    hash.update(&run.to_le_bytes());
    hash.update(episode.task.as_bytes());
    hash.update(&episode.sample.to_le_bytes());
    hash.update(&(episode.turns.len() as u64).to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}
