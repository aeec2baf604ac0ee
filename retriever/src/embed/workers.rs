//! The threads that tokenise and run the model. Tokenising the next window goes on in the shadow of the current one.
//!
//! A panic or an error in a worker ends the call that it worked for, and no other; the caller always gets an answer.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hindsearch_indexes::{Interrupt, Vectors};

use super::batch::{self, BatchLimits};
use super::card::Pooling;
use super::encoder::{Batch, Encoder};
use super::pool::pool;
use super::stats::Meter;
use super::tokenize::{TextTokenizer, TokenSequence};
use crate::threads::{lock, panic_message};
use crate::{Error, Result};

/// Texts that one worker tokenises at a time.
const TOKENIZE_AT_ONCE: usize = 64;
/// How long a waiting caller does not look whether someone asked to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

type Open = dyn Fn() -> Result<Box<dyn Encoder>> + Send + Sync;

/// A graph and the encoders that are loaded from it: never more than threads at work.
pub(super) struct Route {
    open: Box<Open>,
    idle: Mutex<Vec<Box<dyn Encoder>>>,
    limits: BatchLimits,
}

impl Route {
    pub(super) fn new(open: Box<Open>, first: Box<dyn Encoder>, limits: BatchLimits) -> Self {
        Self { open, idle: Mutex::new(vec![first]), limits }
    }

    /// Loads encoders until `count` are idle.
    pub(super) fn fill(&self, count: usize) -> Result<()> {
        while lock(&self.idle).len() < count {
            let encoder = (self.open)()?;
            lock(&self.idle).push(encoder);
        }
        Ok(())
    }

    /// Lends an encoder to `work`. One that panics does not come back.
    fn with<T>(&self, work: impl FnOnce(&mut dyn Encoder) -> T) -> Result<T> {
        let idle = lock(&self.idle).pop();
        let mut encoder = match idle {
            Some(encoder) => encoder,
            None => (self.open)()?,
        };
        let result = work(&mut *encoder);
        lock(&self.idle).push(encoder);
        Ok(result)
    }
}

/// What all workers share.
pub(super) struct Engine {
    pub tokenizer: TextTokenizer,
    pub pooling: Pooling,
    pub normalize: bool,
    pub dimensions: usize,
    pub meter: Meter,
}

/// Texts of one call, with their prefixes.
struct Window {
    texts: Vec<String>,
    route: Arc<Route>,
    tokens: Mutex<Vec<Option<TokenSequence>>>,
    untokenized: AtomicUsize,
    cancelled: Arc<AtomicBool>,
    answers: Sender<Result<Piece>>,
}

/// Vectors of some texts of a window, in the order of `rows`.
struct Piece {
    rows: Vec<usize>,
    data: Vec<f32>,
    lengths: Vec<TextLength>,
}

/// What the model saw of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextLength {
    /// Tokens, special ones and the prefix included.
    pub tokens: usize,
    /// Whether the text was longer than the limit and lost its end.
    pub truncated: bool,
}

/// The vectors of a window's texts, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// One row a text.
    pub vectors: Vectors,
    /// One a text.
    pub lengths: Vec<TextLength>,
}

impl Embedded {
    /// How many texts lost their end.
    pub fn truncated(&self) -> u64 {
        self.lengths.iter().filter(|length| length.truncated).count() as u64
    }
}

enum Job {
    Tokenize(Arc<Window>, Range<usize>),
    Encode(Arc<Window>, Vec<(usize, TokenSequence)>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// The threads; they end when this is dropped.
pub(super) struct Workers {
    shared: Arc<Shared>,
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(engine: Engine, threads: usize) -> Result<Self> {
        let mut workers = Self { shared: Arc::default(), engine: Arc::new(engine), threads: Vec::new() };
        for number in 0..threads {
            let (shared, engine) = (Arc::clone(&workers.shared), Arc::clone(&workers.engine));
            let thread = std::thread::Builder::new().name(format!("embed-{number}"));
            workers.threads.push(thread.spawn(move || work(&shared, &engine)).map_err(|e| Error::Unavailable {
                what: "a thread for embedding".into(),
                found: e.to_string(),
                remedy: "ask for fewer threads".into(),
            })?);
        }
        Ok(workers)
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn submit(&self, texts: Vec<String>, route: &Arc<Route>) -> Pending {
        let (answers, receiver) = channel();
        let rows = texts.len();
        let cancelled = Arc::new(AtomicBool::new(false));
        self.engine.meter.begin();
        let window = Arc::new(Window {
            tokens: Mutex::new(vec![None; rows]),
            untokenized: AtomicUsize::new(rows),
            route: Arc::clone(route),
            cancelled: Arc::clone(&cancelled),
            texts,
            answers,
        });
        self.shared.push(batch::pieces(rows, TOKENIZE_AT_ONCE).map(|range| Job::Tokenize(Arc::clone(&window), range)));
        Pending { answers: receiver, rows, cancelled, engine: Arc::clone(&self.engine) }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        {
            let mut queue = lock(&self.shared.queue);
            queue.closed = true;
            queue.jobs.clear();
        }
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // Jobs catch their panics, so there is nothing to learn from the result.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn push(&self, jobs: impl Iterator<Item = Job>) {
        lock(&self.queue).jobs.extend(jobs);
        self.more.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            match queue.jobs.pop_front() {
                Some(job) => return Some(job),
                None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Vectors on their way. Dropping it abandons the work.
pub struct Pending {
    answers: Receiver<Result<Piece>>,
    rows: usize,
    cancelled: Arc<AtomicBool>,
    engine: Arc<Engine>,
}

impl Pending {
    /// Waits for the vectors, in the order of the texts.
    ///
    /// # Errors
    /// The first error that a worker met.
    pub fn wait(self) -> Result<Vectors> {
        Ok(self.wait_unless(&Interrupt::new())?.vectors)
    }

    /// As [`wait`](Self::wait), but gives up soon after someone asks to stop.
    ///
    /// # Errors
    /// The first error that a worker met; interrupted.
    pub fn wait_unless(self, interrupt: &Interrupt) -> Result<Embedded> {
        let dimensions = self.engine.dimensions;
        let mut data = vec![0f32; self.rows * dimensions];
        let mut lengths = vec![TextLength::default(); self.rows];
        let mut missing = self.rows;
        while missing > 0 {
            let piece = loop {
                match self.answers.recv_timeout(LOOK_AGAIN) {
                    Ok(piece) => break piece?,
                    Err(RecvTimeoutError::Timeout) => interrupt.check()?,
                    Err(RecvTimeoutError::Disconnected) => return Err(lost("the workers ended early".into())),
                }
            };
            interrupt.check()?;
            let vectors = piece.data.chunks_exact(dimensions);
            for ((&row, vector), length) in piece.rows.iter().zip(vectors).zip(piece.lengths) {
                data[row * dimensions..][..dimensions].copy_from_slice(vector);
                lengths[row] = length;
            }
            missing -= piece.rows.len();
        }
        Ok(Embedded { vectors: Vectors::new(dimensions, data)?, lengths })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.engine.meter.end();
    }
}

fn work(shared: &Shared, engine: &Engine) {
    while let Some(job) = shared.next() {
        let window = match &job {
            Job::Tokenize(window, _) | Job::Encode(window, _) => Arc::clone(window),
        };
        if window.cancelled.load(Ordering::Relaxed) {
            continue;
        }
        let before = cpu_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| match job {
            Job::Tokenize(window, range) => tokenize(shared, engine, &window, range),
            Job::Encode(window, texts) => encode(engine, &window, texts),
        }));
        engine.meter.add(|sums| sums.cpu += cpu_time().saturating_sub(before));
        if let Err(error) =
            outcome.unwrap_or_else(|panic| Err(lost(format!("a worker panicked: {}", panic_message(&*panic)))))
        {
            window.cancelled.store(true, Ordering::Relaxed);
            // The caller may have gone.
            let _ = window.answers.send(Err(error));
        }
    }
}

/// Tokenises a piece of the window; whoever does the last piece cuts the window into batches.
fn tokenize(shared: &Shared, engine: &Engine, window: &Arc<Window>, range: Range<usize>) -> Result<()> {
    let count = range.len();
    let texts = window.texts[range.clone()].iter();
    let tokens = texts.map(|text| engine.tokenizer.tokens(text)).collect::<Result<Vec<_>>>()?;
    for (slot, tokens) in lock(&window.tokens)[range].iter_mut().zip(tokens) {
        *slot = Some(tokens);
    }
    if window.untokenized.fetch_sub(count, Ordering::AcqRel) > count {
        return Ok(());
    }
    let mut tokens: Vec<Option<TokenSequence>> = std::mem::take(&mut lock(&window.tokens));
    let lengths: Vec<usize> = tokens.iter().map(|tokens| tokens.as_ref().map_or(0, |t| t.ids.len())).collect();
    let batches = batch::cut(&lengths, window.route.limits);
    shared.push(batches.into_iter().map(|rows| {
        let texts = rows.into_iter().filter_map(|row| Some((row, tokens[row].take()?))).collect();
        Job::Encode(Arc::clone(window), texts)
    }));
    Ok(())
}

fn encode(engine: &Engine, window: &Window, texts: Vec<(usize, TokenSequence)>) -> Result<()> {
    let batch = Batch::new(texts.iter().map(|(_, tokens)| tokens), engine.tokenizer.padding_id());
    let hidden = window.route.with(|encoder| encoder.encode(&batch))??;
    if hidden.dimensions != engine.dimensions {
        return Err(lost(format!("the graph gave {} dimensions instead of {}", hidden.dimensions, engine.dimensions)));
    }
    let data = pool(hidden, &batch, engine.pooling, engine.normalize)?;
    let length = |tokens: &TokenSequence| TextLength { tokens: tokens.ids.len(), truncated: tokens.truncated };
    let lengths: Vec<TextLength> = texts.iter().map(|(_, tokens)| length(tokens)).collect();
    engine.meter.add(|sums| {
        sums.texts += texts.len() as u64;
        sums.tokens += lengths.iter().map(|length| length.tokens as u64).sum::<u64>();
        sums.padded_tokens += batch.ids.len() as u64;
        sums.truncated += lengths.iter().filter(|length| length.truncated).count() as u64;
        sums.batches += 1;
    });
    // The caller may have gone.
    let _ = window.answers.send(Ok(Piece { rows: texts.into_iter().map(|(row, _)| row).collect(), data, lengths }));
    Ok(())
}

fn cpu_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::try_from(time).unwrap_or_default()
}

fn lost(message: String) -> Error {
    Error::Runtime { runtime: "the embedder", action: "embed the texts", message }
}

#[cfg(test)]
mod tests {
    use super::super::encoder::Hidden;
    use super::*;

    const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "decoder": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "one": 1, "two": 2, "panic": 3, "fail": 4}, "unk_token": "[UNK]"}}"#;

    /// Gives each text its token id as the only value; panics and fails on request.
    struct Fake;

    impl Encoder for Fake {
        fn encode(&mut self, batch: &Batch) -> Result<Hidden> {
            assert!(!batch.ids.contains(&3), "asked to panic");
            if batch.ids.contains(&4) {
                return Err(lost("asked to fail".into()));
            }
            let data = batch.ids.chunks_exact(batch.length).map(|row| row[0] as f32).collect();
            Ok(Hidden { data, dimensions: 1, pooled: true })
        }
    }

    fn workers(threads: usize) -> (Workers, Arc<Route>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, TOKENIZER).expect("a file");
        let tokenizer = TextTokenizer::open(&path, folder.path(), 8).expect("a tokenizer");
        let engine =
            Engine { tokenizer, pooling: Pooling::Mean, normalize: false, dimensions: 1, meter: Meter::default() };
        let route = Route::new(Box::new(|| Ok(Box::new(Fake))), Box::new(Fake), BatchLimits::SINGLE);
        (Workers::start(engine, threads).expect("threads"), Arc::new(route))
    }

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_panic_is_an_error_of_its_call_and_the_threads_go_on() {
        let (workers, route) = workers(2);
        for word in ["panic", "fail"] {
            let bad = workers.submit(texts(&["one", word, "two"]), &route);
            let good = workers.submit(texts(&["two", "one"]), &route);
            let error = bad.wait().expect_err("an error").to_string();
            assert!(error.contains(&format!("asked to {word}")), "{error}");
            assert_eq!(good.wait().expect("vectors").as_slice(), [2.0, 1.0]);
        }
        // One panic a thread would have killed both, had it not been caught.
        for _ in 0..4 {
            assert!(workers.submit(texts(&["panic"]), &route).wait().is_err());
        }
        assert_eq!(workers.submit(texts(&["one"; 1000]), &route).wait().expect("vectors").as_slice(), [1.0; 1000]);
    }

    #[test]
    fn a_call_whose_workers_end_gets_an_error() {
        let (workers, route) = workers(0);
        let pending = workers.submit(texts(&["one"]), &route);
        drop(workers);
        assert!(pending.wait().expect_err("an error").to_string().contains("ended early"));
    }

    #[test]
    fn an_abandoned_call_is_not_worked_off() {
        let (workers, route) = workers(1);
        drop(workers.submit(texts(&["one"; 100_000]), &route));
        assert_eq!(workers.submit(texts(&["two"]), &route).wait().expect("vectors").as_slice(), [2.0]);
        assert!(workers.engine().meter.snapshot().texts < 100_000);
    }

    #[test]
    fn a_text_without_tokens_is_an_error() {
        let (workers, route) = workers(1);
        let error = workers.submit(texts(&["one", ""]), &route).wait().expect_err("an error").to_string();
        assert!(error.contains("at least one token"), "{error}");
        assert_eq!(workers.submit(Vec::new(), &route).wait().expect("vectors").len(), 0);
    }
}
