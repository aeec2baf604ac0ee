//! Texts of all requests on their way to vectors.
//!
//! Requests take turns, a few texts at a time, so that a request of thousands does not keep a request of one waiting; what
//! is wanted twice at a time is computed once; and what nobody waits for any more is not computed.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hindsearch_indexes::Interrupt;
use lru::LruCache;
use tokio::sync::oneshot;

use super::cost::Cost;
use super::crew::Trade;
use crate::Result;
use crate::embed::{Embedded, Embedder, InputKind, TextLength};
use crate::serve::{Fault, Metrics};
use crate::threads::lock;

/// Texts that a request may have in a window before the next request's turn.
const TURN: usize = 8;

/// Who turns texts into vectors: a model here, or another one elsewhere.
pub trait TextEncoder: Send + Sync {
    /// One vector and one length for each text, in order.
    ///
    /// # Errors
    /// What the model says; it costs the requests whose texts are at fault, and no others.
    fn encode(&self, texts: Vec<String>, kind: InputKind) -> Result<Embedded>;
}

impl TextEncoder for Embedder {
    fn encode(&self, texts: Vec<String>, kind: InputKind) -> Result<Embedded> {
        self.submit(texts, kind).wait_unless(&Interrupt::new())
    }
}

/// A text's vector.
#[derive(Debug, Clone)]
pub struct TextVector {
    /// The values.
    pub values: Arc<[f32]>,
    /// What the model saw of the text.
    pub length: TextLength,
}

/// An encoder with the vectors of the queries it had last.
pub struct Model {
    encoder: Arc<dyn TextEncoder>,
    recent: Option<Mutex<LruCache<Arc<str>, TextVector>>>,
    /// Tells it from others in the queue.
    number: u64,
}

impl Model {
    /// Remembers the vectors of up to `cached` queries.
    pub fn new(encoder: Arc<dyn TextEncoder>, cached: usize) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let recent = NonZeroUsize::new(cached).map(|cached| Mutex::new(LruCache::new(cached)));
        Self { encoder, recent, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    fn recall(&self, text: &str, kind: InputKind) -> Option<TextVector> {
        let recent = self.recent.as_ref().filter(|_| kind == InputKind::Query)?;
        lock(recent).get(text).cloned()
    }

    fn remember(&self, text: &Arc<str>, kind: InputKind, vector: &TextVector) {
        if let Some(recent) = self.recent.as_ref().filter(|_| kind == InputKind::Query) {
            lock(recent).put(Arc::clone(text), vector.clone());
        }
    }
}

/// The texts of one request.
struct Ticket {
    model: Arc<Model>,
    kind: InputKind,
    texts: Vec<Arc<str>>,
    deadline: Instant,
    progress: Mutex<Progress>,
}

struct Progress {
    vectors: Vec<Option<TextVector>>,
    missing: usize,
    begun: Option<Instant>,
    /// Gone once the answer is.
    answer: Option<oneshot::Sender<Result<Done, Fault>>>,
}

/// All vectors of a request, and when the work on them began.
pub(super) struct Done {
    pub vectors: Vec<TextVector>,
    pub begun: Instant,
}

impl Ticket {
    fn put(&self, slot: usize, vector: TextVector) {
        let mut progress = lock(&self.progress);
        if progress.vectors[slot].replace(vector).is_none() {
            progress.missing -= 1;
        }
        if progress.missing == 0
            && let Some(answer) = progress.answer.take()
        {
            let vectors = std::mem::take(&mut progress.vectors).into_iter().flatten().collect();
            // The request may have been given up.
            let _ = answer.send(Ok(Done { vectors, begun: progress.begun.unwrap_or_else(Instant::now) }));
        }
    }

    fn fail(&self, fault: Fault) {
        if let Some(answer) = lock(&self.progress).answer.take() {
            let _ = answer.send(Err(fault));
        }
    }

    fn is_open(&self) -> bool {
        lock(&self.progress).answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }
}

/// A text on its way: the model, the use and the text.
type Flight = (u64, InputKind, Arc<str>);

#[derive(Default)]
struct Waiting {
    /// Each with the first of its texts that is not on its way.
    tickets: VecDeque<(Arc<Ticket>, usize)>,
    /// Who gets the vector, and for which of their texts.
    flights: HashMap<Flight, Vec<(Arc<Ticket>, usize)>>,
    /// Flights out of a batch that hung: one of them is at fault, so each goes by itself.
    suspects: VecDeque<(Arc<Model>, Flight)>,
    closed: bool,
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Texts that wait.
    pub texts: usize,
    /// How long one more would wait.
    pub wait: Duration,
}

/// The queue, and the trade of working it off.
pub(super) struct Embedding {
    waiting: Mutex<Waiting>,
    more: Condvar,
    window: usize,
    threads: usize,
    bounds: Bounds,
    /// Of a window and its texts, to one thread.
    cost: Cost,
    metrics: Arc<Metrics>,
}

/// A request's place in the queue; dropping it gives the place up.
pub(super) struct Place<'a> {
    queue: &'a Embedding,
    ticket: Arc<Ticket>,
    answer: oneshot::Receiver<Result<Done, Fault>>,
}

impl Place<'_> {
    pub async fn vectors(mut self) -> Result<Done, Fault> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(Fault::internal("a request was lost")))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.ticket.is_open() {
            self.queue.metrics.cancelled.inc();
        }
        self.answer.close();
        let mut waiting = lock(&self.queue.waiting);
        waiting.tickets.retain(|(ticket, _)| !Arc::ptr_eq(ticket, &self.ticket));
    }
}

impl Embedding {
    /// `window` texts go to the encoder at a time, from each of `threads` threads.
    pub fn new(window: usize, threads: usize, bounds: Bounds, metrics: Arc<Metrics>) -> Self {
        Self {
            waiting: Mutex::default(),
            more: Condvar::new(),
            window,
            threads,
            bounds,
            cost: Cost::default(),
            metrics,
        }
    }

    /// Queues the texts of a request, unless they would wait too long.
    pub fn submit(
        &self,
        model: &Arc<Model>,
        texts: Vec<String>,
        kind: InputKind,
        deadline: Instant,
    ) -> Result<Place<'_>, Fault> {
        let texts: Vec<Arc<str>> = texts.into_iter().map(Arc::from).collect();
        let vectors: Vec<_> = texts.iter().map(|text| model.recall(text, kind)).collect();
        let missing = vectors.iter().filter(|vector| vector.is_none()).count();
        self.metrics.cache_hits.inc_by((texts.len() - missing) as u64);
        self.metrics.cache_misses.inc_by(missing as u64);
        let (sender, answer) = oneshot::channel();
        let progress = Progress { vectors, missing: missing + 1, begun: None, answer: Some(sender) };
        let ticket =
            Arc::new(Ticket { model: Arc::clone(model), kind, texts, deadline, progress: Mutex::new(progress) });
        let mut waiting = lock(&self.waiting);
        if missing > 0 {
            self.admit(&waiting, missing)?;
            waiting.tickets.push_back((Arc::clone(&ticket), 0));
            self.more.notify_one();
        }
        drop(waiting);
        // The one too many, so that a request without texts or with none missing has its answer, too.
        let mut progress = lock(&ticket.progress);
        progress.missing -= 1;
        if progress.missing == 0 {
            let vectors = std::mem::take(&mut progress.vectors).into_iter().flatten().collect();
            if let Some(answer) = progress.answer.take() {
                let _ = answer.send(Ok(Done { vectors, begun: Instant::now() }));
            }
        }
        drop(progress);
        Ok(Place { queue: self, ticket, answer })
    }

    fn admit(&self, waiting: &Waiting, wanted: usize) -> Result<(), Fault> {
        let left = |(ticket, next): &(Arc<Ticket>, usize)| ticket.texts.len() - next;
        let queued: usize = waiting.tickets.iter().map(left).sum();
        // With turns, a larger request ahead delays this one only by as many texts as it has itself.
        let ahead: usize = waiting.tickets.iter().map(|entry| left(entry).min(wanted.max(TURN))).sum();
        let wait = self.duration_of(ahead);
        if queued > 0 && queued + wanted > self.bounds.texts {
            self.metrics.shed("queue");
            return Err(Fault::overloaded(
                format!("{queued} texts are waiting, at most {} may", self.bounds.texts),
                self.duration_of(queued),
            ));
        }
        if wait > self.bounds.wait {
            self.metrics.shed("wait");
            let most = self.bounds.wait;
            return Err(Fault::overloaded(
                format!(
                    "it would take {:.1} s until this request's turn, at most {most:?} is allowed",
                    wait.as_secs_f64()
                ),
                wait,
            ));
        }
        Ok(())
    }

    fn duration_of(&self, texts: usize) -> Duration {
        self.cost.of(texts, self.window) / self.threads.max(1) as u32
    }

    /// Texts that wait for their turn.
    pub fn backlog(&self) -> usize {
        lock(&self.waiting).tickets.iter().map(|(ticket, next)| ticket.texts.len() - next).sum()
    }

    /// The time that all texts which wait will take.
    pub fn time_to_drain(&self) -> Duration {
        self.duration_of(self.backlog())
    }

    /// Moves texts from tickets to the window, in turns.
    fn fill(&self, waiting: &mut Waiting) -> Window {
        while let Some((model, flight)) = waiting.suspects.pop_front() {
            if waiting.flights.get(&flight).is_some_and(|wanted| wanted.iter().any(|(ticket, _)| ticket.is_open())) {
                return Window { model: Some((model, flight.1)), flights: vec![flight] };
            }
            waiting.flights.remove(&flight);
        }
        let mut window = Window::default();
        while window.flights.len() < self.window
            && let Some((ticket, mut next)) = waiting.tickets.pop_front()
        {
            if !ticket.is_open() {
                continue;
            }
            if Instant::now() >= ticket.deadline {
                ticket.fail(Fault::timeout("the request's time was over before its turn"));
                continue;
            }
            if window
                .model
                .as_ref()
                .is_some_and(|(model, kind)| model.number != ticket.model.number || *kind != ticket.kind)
            {
                waiting.tickets.push_front((ticket, next));
                break;
            }
            window.model.get_or_insert_with(|| (Arc::clone(&ticket.model), ticket.kind));
            lock(&ticket.progress).begun.get_or_insert_with(Instant::now);
            let end = ticket.texts.len().min(next + TURN);
            while next < end && window.flights.len() < self.window {
                let slot = next;
                next += 1;
                if lock(&ticket.progress).vectors.get(slot).is_none_or(Option::is_some) {
                    continue;
                }
                let flight = (ticket.model.number, ticket.kind, Arc::clone(&ticket.texts[slot]));
                match waiting.flights.get_mut(&flight) {
                    Some(others) => {
                        self.metrics.deduplicated.inc();
                        others.push((Arc::clone(&ticket), slot));
                    }
                    None => {
                        window.flights.push(flight.clone());
                        waiting.flights.insert(flight, vec![(Arc::clone(&ticket), slot)]);
                    }
                }
            }
            if next < ticket.texts.len() {
                waiting.tickets.push_back((ticket, next));
            }
        }
        window
    }

    fn land(&self, flight: &Flight) -> Vec<(Arc<Ticket>, usize)> {
        lock(&self.waiting).flights.remove(flight).unwrap_or_default()
    }
}

/// Distinct texts that go to one encoder together.
#[derive(Default)]
pub(super) struct Window {
    model: Option<(Arc<Model>, InputKind)>,
    flights: Vec<Flight>,
}

/// What the encoder is to do.
pub(super) struct Encoding {
    model: Arc<Model>,
    kind: InputKind,
    texts: Vec<String>,
}

impl Encoding {
    fn run(&self, texts: Vec<String>, metrics: &Metrics) -> Result<Vec<TextVector>, Fault> {
        let count = texts.len();
        let encoded = catch_unwind(AssertUnwindSafe(|| self.model.encoder.encode(texts, self.kind)))
            .map_err(|panic| {
                metrics.worker_failed("panic");
                Fault::panicked(&*panic)
            })?
            .map_err(|error| {
                metrics.worker_failed("error");
                Fault::from(error)
            })?;
        if encoded.vectors.len() != count || encoded.lengths.len() != count {
            return Err(Fault::internal(format!("{} vectors came back for {count} texts", encoded.vectors.len())));
        }
        encoded.vectors.check_finite("vector", 0).map_err(|error| Fault::internal(error.to_string()))?;
        let vectors = encoded.vectors.rows().zip(encoded.lengths);
        Ok(vectors.map(|(values, length)| TextVector { values: values.into(), length }).collect())
    }
}

impl Trade for Embedding {
    type Batch = Window;
    type Work = Encoding;
    type Outcome = Vec<Result<TextVector, Fault>>;

    fn next(&self) -> Option<(Window, Encoding)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.closed {
                return None;
            }
            let window = self.fill(&mut waiting);
            if let Some((model, kind)) = window.model.clone().filter(|_| !window.flights.is_empty()) {
                if !waiting.tickets.is_empty() || !waiting.suspects.is_empty() {
                    self.more.notify_one();
                }
                let texts = window.flights.iter().map(|(.., text)| text.to_string()).collect();
                return Some((window, Encoding { model, kind, texts }));
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, work: Encoding) -> Self::Outcome {
        let begun = Instant::now();
        let count = work.texts.len();
        self.metrics.batch("embed", count);
        let outcome = match work.run(work.texts.clone(), &self.metrics) {
            Ok(vectors) => vectors.into_iter().map(Ok).collect(),
            // One text may be at fault; the others' requests shall not pay for it.
            Err(_) if count > 1 => {
                work.texts.iter().map(|text| Ok(work.run(vec![text.clone()], &self.metrics)?.swap_remove(0))).collect()
            }
            Err(fault) => vec![Err(fault)],
        };
        self.cost.measured(begun.elapsed(), count);
        outcome
    }

    fn settle(&self, window: Window, outcome: Self::Outcome) {
        let Some((model, kind)) = window.model else { return };
        for (flight, outcome) in window.flights.iter().zip(outcome) {
            if let Ok(vector) = &outcome {
                model.remember(&flight.2, kind, vector);
            }
            for (ticket, slot) in self.land(flight) {
                match &outcome {
                    Ok(vector) => ticket.put(slot, vector.clone()),
                    Err(fault) => ticket.fail(fault.clone()),
                }
            }
        }
    }

    fn fail(&self, window: Window, fault: Fault) {
        for (ticket, _) in window.flights.iter().flat_map(|flight| self.land(flight)) {
            ticket.fail(fault.clone());
        }
    }

    fn give_up(&self, window: Window, fault: Fault) {
        let Some((model, _)) = window.model.clone().filter(|_| window.flights.len() > 1) else {
            return self.fail(window, fault);
        };
        let suspects = window.flights.into_iter().map(|flight| (Arc::clone(&model), flight));
        lock(&self.waiting).suspects.extend(suspects);
        self.more.notify_all();
    }

    fn close(&self) {
        lock(&self.waiting).closed = true;
        self.more.notify_all();
    }
}
