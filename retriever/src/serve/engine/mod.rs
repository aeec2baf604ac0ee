//! Where the queries of all connections meet: one queue to the model, one to the index.
//!
//! | question | module |
//! |---|---|
//! | Whose text is embedded next, and is it worth waiting? | `embedding` |
//! | Which queries share a pass over the index? | `scanning` |
//! | What if the work panics or hangs? | `crew` |
//! | How long will it take? | `cost` |

mod cost;
mod crew;
mod embedding;
mod scanning;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsearch_indexes::Vectors;

use crate::embed::{InputKind, TextLength};
use crate::serve::{Fault, Metrics, Serving};
use crate::{Ranked, Result};
use crew::Crew;
pub(super) use crew::{lock, panic_message};
use embedding::{Bounds, Embedding};
pub use embedding::{Model, TextEncoder, TextVector};
use scanning::{Scan, Scanning};

/// How the queues are worked off.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Texts that the model gets at a time.
    pub window: usize,
    /// Windows under way at once: with two, the model never waits for the next.
    pub windows: usize,
    /// Threads for a pass over the index; 0 is one a core.
    pub search_threads: usize,
    /// Texts that may wait.
    pub queued_texts: usize,
    /// How long a text may have to wait for its turn.
    pub queue_wait: Duration,
    /// How long a batch may take before its thread is given up and its texts are tried one by one. Much less than a
    /// request's deadline, so that only the requests of the text at fault are lost; a batch that was only slow costs no more
    /// than a second attempt.
    pub patience: Duration,
    /// The same for a pass over the index, which may have to come from a slow disk.
    pub search_patience: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        Self {
            window: 16 * cores,
            windows: 2,
            search_threads: 0,
            queued_texts: 16_384,
            queue_wait: Duration::from_secs(5),
            patience: Duration::from_secs(15),
            search_patience: Duration::from_secs(120),
        }
    }
}

/// What is looked for.
pub enum Queries {
    /// As text.
    Texts(Vec<String>),
    /// As vectors of the index's model.
    Vectors(Vectors),
}

/// A search.
pub struct Ask {
    /// The queries; the answer has one ranking each, in this order.
    pub queries: Queries,
    /// Passages wanted for each.
    pub top_k: usize,
    /// The fewest candidates that an approximate index looks at.
    pub effort: usize,
    /// The only rows that count.
    pub only: Option<Vec<u64>>,
    /// Rows that do not count.
    pub except: Vec<u64>,
    /// When the asker stops waiting.
    pub deadline: Instant,
}

impl Ask {
    /// The best `top_k` passages for each text.
    pub fn texts(queries: Vec<String>, top_k: usize, deadline: Instant) -> Self {
        Self { queries: Queries::Texts(queries), top_k, effort: 0, only: None, except: Vec::new(), deadline }
    }
}

/// Where the time of an answer went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// Until the model began on the first text.
    pub queue: Duration,
    /// Until all vectors were there.
    pub embed: Duration,
    /// Until all rows were known.
    pub search: Duration,
    /// Until their texts were read.
    pub text: Duration,
}

impl Timings {
    /// Each stage by its name, in the order of the work.
    pub fn stages(&self) -> [(&'static str, Duration); 4] {
        [("queue", self.queue), ("embed", self.embed), ("search", self.search), ("text", self.text)]
    }

    /// The same in milliseconds.
    pub(super) fn milliseconds(&self) -> BTreeMap<&'static str, f64> {
        self.stages().map(|(stage, time)| (stage, (time.as_secs_f64() * 1e6).round() / 1e3)).into()
    }
}

/// What was found.
pub struct Found {
    /// One ranking a query, in order.
    pub rankings: Vec<Vec<Ranked>>,
    /// What the model saw of each query; nothing for vectors.
    pub lengths: Vec<TextLength>,
    /// Where the time went.
    pub timings: Timings,
}

/// The two queues with their threads.
pub struct Engine {
    embedding: Arc<Embedding>,
    scanning: Arc<Scanning>,
    encoders: Crew<Embedding>,
    searchers: Crew<Scanning>,
    patience: [Duration; 2],
    metrics: Arc<Metrics>,
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) when there are none to be had.
    pub fn start(options: EngineOptions, metrics: Arc<Metrics>) -> Result<Self> {
        let bounds = Bounds { texts: options.queued_texts, wait: options.queue_wait };
        let embedding = Embedding::new(options.window.max(1), options.windows.max(1), bounds, Arc::clone(&metrics));
        let embedding = Arc::new(embedding);
        let scanning = Arc::new(Scanning::new(options.search_threads, options.queue_wait, Arc::clone(&metrics)));
        Ok(Self {
            encoders: Crew::start(Arc::clone(&embedding), "embed queries", options.windows.max(1))?,
            searchers: Crew::start(Arc::clone(&scanning), "search the index", 1)?,
            embedding,
            scanning,
            patience: [options.patience, options.search_patience],
            metrics,
        })
    }

    /// Ranked passages for each query. Dropping the future takes back what has not begun.
    ///
    /// # Errors
    /// Overloaded when the wait would be too long; what the model or the index says.
    pub async fn search(&self, serving: &Arc<Serving>, ask: Ask) -> Result<Found, Fault> {
        let begun = Instant::now();
        let mut timings = Timings::default();
        if !self.searchers.staffed() {
            return Err(hanging());
        }
        self.scanning.admit()?;
        let (vectors, lengths) = match ask.queries {
            Queries::Texts(texts) => {
                let done =
                    self.embed_timed(serving.model(), texts, InputKind::Query, ask.deadline, &mut timings).await?;
                done.into_iter().map(|vector| (vector.values, vector.length)).unzip()
            }
            Queries::Vectors(vectors) => (vectors.rows().map(Arc::from).collect::<Vec<_>>(), Vec::new()),
        };
        let embedded = begun.elapsed();
        let scan = Scan {
            serving: Arc::clone(serving),
            top_k: ask.top_k.saturating_add(ask.except.len()),
            effort: ask.effort,
            rows: ask.only.map(Arc::new),
        };
        let rows = self.scanning.search(scan, &vectors).await?;
        timings.search = begun.elapsed() - embedded;
        self.metrics.stage("search", timings.search);
        let reading = Instant::now();
        let serving = Arc::clone(serving);
        // Passages may have to come from the disk.
        let read = move || {
            let except: HashSet<u64> = ask.except.into_iter().collect();
            let kept = |hits: Vec<hindsearch_indexes::Hit>| {
                let hits = hits.into_iter().filter(|hit| !except.contains(&hit.row)).take(ask.top_k);
                hits.map(|hit| serving.retriever().ranked(hit)).collect::<Result<Vec<_>>>()
            };
            rows.into_iter().map(kept).collect::<Result<Vec<_>>>()
        };
        let rankings = blocking(read).await??;
        timings.text = reading.elapsed();
        self.metrics.stage("text", timings.text);
        Ok(Found { rankings, lengths, timings })
    }

    /// The vectors of texts, in order.
    ///
    /// # Errors
    /// Overloaded when the wait would be too long; what the model says.
    pub async fn embed(
        &self,
        model: &Arc<Model>,
        texts: Vec<String>,
        kind: InputKind,
        deadline: Instant,
    ) -> Result<Vec<TextVector>, Fault> {
        self.embed_timed(model, texts, kind, deadline, &mut Timings::default()).await
    }

    async fn embed_timed(
        &self,
        model: &Arc<Model>,
        texts: Vec<String>,
        kind: InputKind,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<Vec<TextVector>, Fault> {
        if !self.encoders.staffed() {
            return Err(hanging());
        }
        let begun = Instant::now();
        let done = self.embedding.submit(model, texts, kind, deadline)?.vectors().await?;
        timings.queue = done.begun.saturating_duration_since(begun);
        timings.embed = begun.elapsed().saturating_sub(timings.queue);
        self.metrics.stage("queue", timings.queue);
        self.metrics.stage("embed", timings.embed);
        Ok(done.vectors)
    }

    /// Texts that wait for their turn.
    pub fn backlog(&self) -> usize {
        self.embedding.backlog()
    }

    /// The time that they will take.
    pub fn time_to_drain(&self) -> Duration {
        self.embedding.time_to_drain().max(self.scanning.time_to_drain())
    }

    /// Gives up threads that hang and hires others; to be called every now and then.
    pub fn relieve(&self) {
        let [encoding, searching] = self.patience;
        let count = self.encoders.relieve(encoding) + self.searchers.relieve(searching);
        for _ in 0..count {
            self.metrics.worker_failed("hang");
        }
    }

    /// Whether both queues are worked off.
    pub fn healthy(&self) -> bool {
        self.encoders.healthy() && self.searchers.healthy()
    }
}

fn hanging() -> Fault {
    Fault::unavailable("all threads hang; restart the server")
}

/// Runs what may wait for the disk, or takes its time, away from the threads that serve connections.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => Fault::panicked(&*panic),
        Err(error) => Fault::internal(error.to_string()),
    })
}
