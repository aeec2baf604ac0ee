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

use hindsearch_indexes::{Effort, Hit, Vectors};

use crate::embed::{InputKind, TextLength};
use crate::serve::memory::{Memory, Share};
use crate::serve::{Fault, Metrics, Serving};
use crate::{Ranked, Result};
use crew::Crew;
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
    /// Bytes of the passages of one answer.
    pub answer_bytes: usize,
    /// Bytes of all large answers that are being written or sent.
    pub answers_bytes: usize,
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
            answer_bytes: 64 << 20,
            answers_bytes: 1 << 30,
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
    /// How much an approximate index looks at.
    pub effort: Effort,
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
        Self {
            queries: Queries::Texts(queries),
            top_k,
            effort: Effort::default(),
            only: None,
            except: Vec::new(),
            deadline,
        }
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
    /// Of the answer, until it is sent.
    pub(super) memory: Share,
}

/// The two queues with their threads.
pub struct Engine {
    embedding: Arc<Embedding>,
    scanning: Arc<Scanning>,
    encoders: Crew<Embedding>,
    searchers: Crew<Scanning>,
    patience: [Duration; 2],
    answers: Arc<Memory>,
    answer_bytes: usize,
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
            answers: Memory::new(options.answers_bytes, "large answers", Arc::clone(&metrics)),
            answer_bytes: options.answer_bytes,
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
        let mut reader = self.reader(serving);
        // Passages may have to come from the disk.
        let read = move || {
            let except: HashSet<u64> = ask.except.into_iter().collect();
            let kept = |hits: Vec<Hit>| {
                let hits = hits.into_iter().filter(|hit| !except.contains(&hit.row)).take(ask.top_k);
                hits.map(|hit| reader.read(hit)).collect::<Result<Vec<_>, Fault>>()
            };
            let rankings = rows.into_iter().map(kept).collect::<Result<Vec<_>, Fault>>()?;
            Ok::<_, Fault>((rankings, reader.memory))
        };
        let (rankings, memory) = blocking(read).await??;
        timings.text = reading.elapsed();
        self.metrics.stage("text", timings.text);
        Ok(Found { rankings, lengths, timings, memory })
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

    /// A share of the memory for answers.
    pub(super) fn answer_memory(&self) -> Share {
        self.answers.share()
    }

    /// Reads the passages of an answer.
    pub(super) fn reader(&self, serving: &Arc<Serving>) -> PassageReader {
        PassageReader { serving: Arc::clone(serving), memory: self.answers.share(), left: self.answer_bytes }
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

/// Reads the passages of one answer, within its memory.
pub(super) struct PassageReader {
    pub serving: Arc<Serving>,
    pub memory: Share,
    /// Bytes of passages that the answer may still have.
    pub left: usize,
}

impl PassageReader {
    /// What a byte of a passage takes: read, as a document with its text twice, and as JSON.
    const WRITTEN: usize = 5;

    pub fn read(&mut self, hit: Hit) -> Result<Ranked, Fault> {
        let ranked = self.serving.retriever().ranked(hit)?;
        self.take(&ranked)?;
        Ok(ranked)
    }

    /// The same passages once more.
    pub fn again(&mut self, passages: &[Ranked]) -> Result<Vec<Ranked>, Fault> {
        passages.iter().try_for_each(|ranked| self.take(ranked))?;
        Ok(passages.to_vec())
    }

    fn take(&mut self, ranked: &Ranked) -> Result<(), Fault> {
        let passage = &ranked.passage;
        let bytes = passage.id.len() + passage.title.as_ref().map_or(0, String::len) + passage.text.len();
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Fault::invalid("the passages of this answer are more than can be sent at once; ask for fewer, or in parts")
        })?;
        self.memory.grow(Self::WRITTEN * bytes + size_of::<Ranked>())
    }

    /// The passages of the page at this address, in order, if there is one.
    pub fn page(&mut self, url: &str) -> Result<Option<Vec<Ranked>>, Fault> {
        let rows = self.serving.page_rows(url)?;
        let passages = rows.into_iter().map(|row| self.read(Hit { row, score: 0.0 })).collect::<Result<Vec<_>, _>>()?;
        Ok((!passages.is_empty()).then_some(passages))
    }
}

fn hanging() -> Fault {
    Fault::unavailable("all threads hang; restart the server")
}

/// Texts or passages that a thread of the connections may work through by itself: less than handing them over would take.
const FEW: usize = 64;

/// Runs work on `count` texts or passages, none of which may have to come from the disk: here where they are few.
pub(super) async fn aside<T: Send + 'static>(
    count: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    if count <= FEW { Ok(work()) } else { blocking(work).await }
}

/// Runs what may wait for the disk, or takes its time, away from the threads that serve connections.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => Fault::panicked(&*panic),
        Err(error) => Fault::internal(error.to_string()),
    })
}
