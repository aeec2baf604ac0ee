//! Requests of many callers in one batch: rows join when they are asked for and leave when they end.
//!
//! What a sequence has read before is never read again: a new request goes on from whatever cached sequence begins as it does,
//! be it its own last turn or the prompt that a sibling has read.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::cache::{Cache, Reading, read};
use super::sampler::Sampling;
use crate::decoder::Decoder;
use crate::ops::to_host;
use crate::{Error, Result};

/// Whether a token ends the message; it is told of each one, in order.
pub type Stops = Box<dyn FnMut(u32) -> bool + Send>;

/// What is to be written.
pub struct Request {
    /// What was said so far; one token at least.
    pub tokens: Vec<u32>,
    /// Tokens at most.
    pub limit: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// What they depend on beside the tokens before them, and nothing else.
    pub seed: u64,
    /// What ends the message.
    pub stops: Stops,
}

/// Why a message is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A token ended it.
    Stop,
    /// The limit was reached.
    Limit,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The tokens, the last one too.
    pub tokens: Vec<u32>,
    /// The natural log-probability of each, among all tokens at the sampling temperature.
    pub logprobs: Vec<f32>,
    /// Why it is over.
    pub reason: Reason,
}

/// How many at a time.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Sequences that are written at a time.
    pub rows: usize,
    /// Tokens that are read at a time.
    pub chunk: usize,
    /// Tokens of ended sequences that are kept, for those that go on from them.
    pub kept: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { rows: 64, chunk: 512, kept: 1 << 16 }
    }
}

/// Writes for many callers at a time, on a thread of its own.
///
/// The decoder's weights must not change while a request is under way. Those in f32 on the CPU are laid out for decoding as long as
/// the engine lives: as much memory again.
pub struct Engine {
    requests: Mutex<Option<Sender<Asked>>>,
    thread: Option<JoinHandle<()>>,
    decoder: Arc<Decoder>,
}

struct Asked {
    request: Request,
    answer: Sender<Result<Generated>>,
}

impl Engine {
    /// An engine for this decoder.
    ///
    /// # Errors
    /// Those of the tensors, and where no thread can be had.
    pub fn new(decoder: Arc<Decoder>, options: EngineOptions) -> Result<Self> {
        for parameter in decoder.parameters().iter().filter(|parameter| parameter.value().rank() == 2) {
            parameter.pack()?;
        }
        let (requests, asked) = channel();
        let worker = Worker { decoder: decoder.clone(), options, rows: Vec::new(), kept: VecDeque::new() };
        let spawned = std::thread::Builder::new().name("engine".into()).spawn(move || worker.run(&asked));
        let thread = spawned.map_err(|source| Error::Io { action: "start", path: "a thread".into(), source })?;
        Ok(Self { requests: Mutex::new(Some(requests)), thread: Some(thread), decoder })
    }

    /// Writes one message; waits for it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty request or numbers that mean nothing; those of the tensors.
    pub fn generate(&self, request: Request) -> Result<Generated> {
        request.sampling.check()?;
        if request.tokens.is_empty() {
            return Err(Error::invalid("request", "one token at least", "none"));
        }
        let vocabulary = self.decoder.config().vocabulary;
        if let Some(wrong) = request.tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(Error::invalid("request", format!("tokens below {vocabulary}"), wrong.to_string()));
        }
        if request.limit == 0 {
            return Ok(Generated { tokens: Vec::new(), logprobs: Vec::new(), reason: Reason::Limit });
        }
        let ended = || defect("its thread ended by a defect");
        let (answer, answered) = channel();
        let sender = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sender.ok_or_else(ended)?.send(Asked { request, answer }).map_err(|_| ended())?;
        answered.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn defect(found: &str) -> Error {
    Error::Diverged { what: "generation".into(), found: found.into(), remedy: "see standard error".into() }
}

impl Drop for Engine {
    fn drop(&mut self) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            // A panic was told on standard error, and to whoever waited.
            drop(thread.join());
        }
        self.decoder.parameters().iter().for_each(|parameter| parameter.unpack());
    }
}

/// A sequence that is written.
struct Row {
    cache: Cache,
    /// Tokens that are still to be read.
    unread: VecDeque<u32>,
    random: ChaCha8Rng,
    request: Request,
    written: Vec<u32>,
    logprobs: Vec<f32>,
    /// Written tokens that `stops` was told of.
    told: usize,
    answer: Sender<Result<Generated>>,
}

struct Worker {
    decoder: Arc<Decoder>,
    options: EngineOptions,
    rows: Vec<Row>,
    /// Ended sequences, the oldest first.
    kept: VecDeque<Cache>,
}

impl Worker {
    fn run(mut self, asked: &Receiver<Asked>) {
        let mut waiting = VecDeque::new();
        loop {
            if self.rows.is_empty() && waiting.is_empty() {
                let Ok(first) = asked.recv() else { return };
                waiting.push_back(first);
            }
            waiting.extend(asked.try_iter());
            self.admit(&mut waiting);
            let stepped = catch_unwind(AssertUnwindSafe(|| self.step()));
            let failure = match stepped {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "a defect, see standard error".into(),
            };
            for row in self.rows.drain(..) {
                let remedy = "try fewer sequences at a time, or shorter ones".into();
                let error = Error::Diverged { what: "generation".into(), found: failure.clone(), remedy };
                drop(row.answer.send(Err(error)));
            }
        }
    }

    /// Lets requests in while there is room. One whose beginning is being read by another row waits for it.
    fn admit(&mut self, waiting: &mut VecDeque<Asked>) {
        for _ in 0..waiting.len() {
            if self.rows.len() >= self.options.rows.max(1) {
                return;
            }
            let Some(asked) = waiting.pop_front() else { return };
            let tokens = &asked.request.tokens;
            // The last token is always read, for its logits.
            let common =
                |read: &[u32]| read.iter().zip(&tokens[..tokens.len() - 1]).take_while(|(a, b)| a == b).count();
            let of_row = |row: &Row| common(&row.cache.tokens);
            let soon = self.rows.iter().map(|row| common(&row.request.tokens)).max().unwrap_or(0);
            let row = self.rows.iter().map(|row| (of_row(row), &row.cache)).max_by_key(|(count, _)| *count);
            let ended = self.kept.iter().enumerate().map(|(at, kept)| (common(&kept.tokens), at));
            let ended = ended.max_by_key(|(count, _)| *count);
            let now = row.as_ref().map_or(0, |row| row.0).max(ended.map_or(0, |ended| ended.0));
            if soon > now {
                waiting.push_back(asked);
                continue;
            }
            let cache = match (row, ended) {
                (_, Some((count, at))) if count > 0 && count == now && count == self.kept[at].tokens.len() => {
                    self.kept.remove(at).unwrap_or_else(|| Cache::new(&self.decoder))
                }
                (_, Some((count, at))) if count > 0 && count == now => self.kept[at].prefix(count),
                (Some((count, cache)), _) if count > 0 => cache.prefix(count),
                _ => Cache::new(&self.decoder),
            };
            let unread = tokens[cache.tokens.len()..].iter().copied().collect();
            let random = ChaCha8Rng::seed_from_u64(asked.request.seed);
            let (written, logprobs) = (Vec::new(), Vec::new());
            let Asked { request, answer } = asked;
            self.rows.push(Row { cache, unread, random, request, written, logprobs, told: 0, answer });
        }
    }

    /// Reads what is unread, as far as a step goes, and writes a token of each row that has read all.
    fn step(&mut self) -> Result<()> {
        // Those that are writing come first, so that a long prompt does not hold them up.
        self.rows.sort_by_key(|row| row.unread.len() > 1);
        let mut left = self.options.chunk.max(1);
        let mut readings = Vec::new();
        for row in &mut self.rows {
            let count = row.unread.len().min(left);
            left -= count;
            if count == 0 {
                break;
            }
            readings.push(Reading { cache: &mut row.cache, tokens: row.unread.drain(..count).collect() });
        }
        let read_rows = readings.len();
        if read_rows == 0 {
            return Ok(());
        }
        let logits = to_host(&read(&self.decoder, &mut readings)?)?;
        let vocabulary = self.decoder.config().vocabulary;
        let rows = self.rows[..read_rows].par_iter_mut().zip(logits.par_chunks_exact(vocabulary));
        rows.filter(|(row, _)| row.unread.is_empty()).for_each(|(row, logits)| row.write(logits));
        for mut row in std::mem::take(&mut self.rows) {
            // What a caller's `stops` does is that caller's alone.
            match catch_unwind(AssertUnwindSafe(|| row.ended())) {
                Err(_) => drop(row.answer.send(Err(defect("`stops` ended by a defect")))),
                Ok(None) => self.rows.push(row),
                Ok(Some(reason)) => {
                    let generated = Generated { tokens: row.written, logprobs: row.logprobs, reason };
                    // Whoever asked may have gone.
                    drop(row.answer.send(Ok(generated)));
                    self.keep(row.cache);
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, cache: Cache) {
        self.kept.push_back(cache);
        let mut tokens: usize = self.kept.iter().map(|cache| cache.tokens.len()).sum();
        while tokens > self.options.kept {
            let Some(oldest) = self.kept.pop_front() else { return };
            tokens -= oldest.tokens.len();
        }
    }
}

impl Row {
    fn write(&mut self, logits: &[f32]) {
        let (token, logprob) = self.request.sampling.sample(logits, &mut self.random);
        self.written.push(token);
        self.logprobs.push(logprob);
        self.unread.push_back(token);
    }

    /// Why the message is over, if the token just written ended it.
    fn ended(&mut self) -> Option<Reason> {
        // Between prompts' pieces nothing was written.
        let last = *self.written.last().filter(|_| self.unread.len() == 1)?;
        if self.told < self.written.len() {
            self.told = self.written.len();
            if (self.request.stops)(last) {
                return Some(Reason::Stop);
            }
        }
        (self.written.len() >= self.request.limit).then_some(Reason::Limit)
    }
}
