//! What all routes share: the index that is served, the queues, the limits and the counters.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::dialects::Documents;
use super::engine::Engine;
use super::fault::Fault;
use super::memory::{Memory, Share};
use super::metrics::Metrics;
use super::options::{ServeOptions, Token};
use super::serving::Serving;
use crate::Result;
use crate::threads::lock;

/// How soon a generation that was refused is looked at again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How far a server is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// Requests under way may end, others are refused.
    Draining,
    /// Requests under way are refused as well.
    Ending,
}

/// A server without its sockets.
pub struct Service {
    root: PathBuf,
    options: ServeOptions,
    serving: ArcSwap<Serving>,
    tokens: ArcSwap<Vec<Token>>,
    tokens_changed: Mutex<Option<SystemTime>>,
    engine: Engine,
    metrics: Arc<Metrics>,
    in_flight: Arc<Semaphore>,
    bodies: Arc<Memory>,
    stage: watch::Sender<Stage>,
    active: AtomicUsize,
    /// Why the index cannot be trusted, if it cannot.
    trouble: Mutex<Option<String>>,
    refusal: Mutex<Option<Refusal>>,
}

/// Why the newest generation is not served. Looking at it again may mean to read all of it, so that is done less and less
/// often; and the log says the same only once.
struct Refusal {
    reason: String,
    again: Instant,
    wait: Duration,
}

/// Whether requests are answered, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// They are.
    Ready,
    /// They are not, for this reason.
    NotReady(String),
}

impl Service {
    /// Serves `serving`, the current generation of the index at `root`.
    ///
    /// # Errors
    /// When there are no threads to be had.
    pub fn new(root: &Path, serving: Serving, options: ServeOptions) -> Result<Self> {
        let metrics = Arc::new(Metrics::default());
        let service = Self {
            root: root.to_path_buf(),
            engine: Engine::start(options.engine, Arc::clone(&metrics))?,
            in_flight: Arc::new(Semaphore::new(options.limits.in_flight)),
            bodies: Memory::new(options.limits.bodies, "large requests", Arc::clone(&metrics)),
            stage: watch::Sender::new(Stage::Serving),
            active: AtomicUsize::new(0),
            trouble: Mutex::default(),
            refusal: Mutex::default(),
            serving: ArcSwap::from_pointee(serving),
            tokens: ArcSwap::from_pointee(options.tokens.clone()),
            tokens_changed: Mutex::new(options.token_file.as_deref().and_then(changed_at)),
            metrics,
            options,
        };
        service.count_generation();
        Ok(service)
    }

    /// What is served now; a request keeps it to its end.
    pub fn serving(&self) -> Arc<Serving> {
        self.serving.load_full()
    }

    /// The queues.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether passages have addresses, by which pages can be asked for.
    pub(super) fn has_pages(&self) -> bool {
        self.options.derive_urls || self.options.listen.iter().any(|listen| listen.dialect == "asearcher")
    }

    /// How passages become documents.
    pub(super) fn documents(&self) -> Documents {
        Documents { urls: self.options.derive_urls }
    }

    /// How the server is set up.
    pub fn options(&self) -> &ServeOptions {
        &self.options
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Takes a place among the requests that are worked on.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.in_flight).try_acquire_owned().map_err(|_| {
            self.metrics.shed("in_flight");
            let most = self.options.limits.in_flight;
            Fault::overloaded(
                format!("{most} requests are being worked on, no more may be"),
                self.engine.time_to_drain(),
            )
        })
    }

    /// Requests being worked on.
    pub(super) fn in_flight(&self) -> usize {
        self.options.limits.in_flight - self.in_flight.available_permits()
    }

    /// Refuses an answer with more passages than anybody reads.
    pub(super) fn check_answer(&self, queries: usize, top_k: usize) -> Result<(), Fault> {
        let (passages, most) = (queries.saturating_mul(top_k), self.options.limits.passages);
        if passages <= most {
            return Ok(());
        }
        let message =
            format!("{queries} queries with {top_k} passages each are {passages}, at most {most} fit in an answer");
        Err(Fault::invalid(format!("{message}; ask in parts")))
    }

    /// A share of the memory for bodies, and for what becomes of them.
    pub(super) fn body_memory(&self) -> Share {
        self.bodies.share()
    }

    /// Waits for `work` until `deadline`; past it, the work is taken back.
    pub(super) async fn within<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        tokio::time::timeout_at(deadline.into(), work).await.unwrap_or_else(|_| {
            Err(Fault::timeout("no answer before the request's deadline; ask for less, or try again"))
        })
    }

    /// Counts a request as under way until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Active {
        self.active.fetch_add(1, Ordering::Relaxed);
        Active(Arc::clone(self))
    }

    /// A place for work that is no request of its own: a message on a socket that stays open. Like a request it counts as under
    /// way until the guard is dropped.
    ///
    /// # Errors
    /// Overloaded where too much is worked on, unavailable while the server stops.
    pub fn enter_message(self: &Arc<Self>) -> Result<MessageGuard, Fault> {
        if self.is_draining() {
            return Err(Fault::unavailable("the server is being stopped"));
        }
        Ok(MessageGuard { _place: self.enter()?, _active: self.begin() })
    }

    /// Requests under way, whatever they wait for.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// No new requests from now on.
    pub fn drain(&self) {
        self.stage.send_replace(Stage::Draining);
    }

    /// No more time for requests that are under way.
    pub(super) fn end(&self) {
        self.stage.send_replace(Stage::Ending);
    }

    /// Done when no new work is taken any more.
    pub async fn draining(&self) {
        let _ = self.stage.subscribe().wait_for(|stage| *stage > Stage::Serving).await;
    }

    /// Done when there is no more time.
    pub(super) async fn ended(&self) {
        // The sender lives as long as this does.
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Ending).await;
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.stage.borrow() > Stage::Serving
    }

    /// Who may ask; everybody where there are none.
    pub(super) fn tokens(&self) -> Arc<Vec<Token>> {
        self.tokens.load_full()
    }

    /// Takes the tokens of their file, where it has changed; a bad one changes nothing.
    fn renew_tokens(&self) {
        let Some(path) = &self.options.token_file else { return };
        let now = changed_at(path);
        let mut known = lock(&self.tokens_changed);
        if *known == now {
            return;
        }
        *known = now;
        let outcome = match Token::read_file(path) {
            Ok(tokens) => {
                self.tokens.store(Arc::new(tokens));
                "renewed".to_owned()
            }
            Err(error) => error.to_string(),
        };
        super::log::event("tokens", &[("outcome", outcome.into())]);
    }

    /// Whether requests are answered.
    pub fn readiness(&self) -> Readiness {
        if self.is_draining() {
            return Readiness::NotReady("the server is being stopped".into());
        }
        if !self.engine.healthy() {
            return Readiness::NotReady("threads hang; restart the server".into());
        }
        lock(&self.trouble).clone().map_or(Readiness::Ready, Readiness::NotReady)
    }

    /// Looks after tokens and index: looks whether the files are still what they were, and serves the newest generation. Blocks; to
    /// be called every now and then.
    pub fn look_after(&self) {
        self.renew_tokens();
        let serving = self.serving();
        let mut refusal = lock(&self.refusal);
        if refusal.as_ref().is_none_or(|refusal| refusal.again <= Instant::now()) {
            match serving.newer(&self.root, self.options.cached_queries) {
                Ok(newer) => {
                    *refusal = None;
                    if let Some(newer) = newer {
                        self.serving.store(Arc::new(newer));
                        self.metrics.swapped("served");
                        self.count_generation();
                    }
                }
                // One that is damaged, or of a model that is not here, does not disturb the one that is served.
                Err(error) => *refusal = Some(self.refused(&error.to_string(), refusal.take())),
            }
        }
        *lock(&self.trouble) = self.serving.load().changed_file().map(changed);
        self.metrics.ready.set(i64::from(self.readiness() == Readiness::Ready));
    }

    fn refused(&self, reason: &str, before: Option<Refusal>) -> Refusal {
        if before.as_ref().is_none_or(|before| before.reason != reason) {
            self.metrics.swapped("refused");
            super::log::event("swap_refused", &[("error", reason.into())]);
        }
        let wait = before.map_or(FIRST_WAIT, |before| (before.wait * 2).min(LONGEST_WAIT));
        Refusal { reason: reason.to_owned(), again: Instant::now() + wait, wait }
    }

    fn count_generation(&self) {
        let serving = self.serving.load();
        let generation = serving.retriever().generation();
        self.metrics.generation.set(generation.number() as i64);
        self.metrics.rows.set(generation.manifest().live_rows() as i64);
        self.metrics.ready.set(1);
    }

    /// The counters as Prometheus reads them.
    pub(super) fn metrics_page(&self) -> String {
        self.metrics.queue_texts.set(self.engine.backlog() as i64);
        self.metrics.in_flight.set(self.in_flight() as i64);
        self.metrics.ready.set(i64::from(self.readiness() == Readiness::Ready));
        self.metrics.page()
    }
}

/// A message that is worked on.
pub struct MessageGuard {
    _place: OwnedSemaphorePermit,
    _active: Active,
}

/// A request under way.
pub(super) struct Active(Arc<Service>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|facts| facts.modified()).ok()
}

fn changed(path: &Path) -> String {
    // Everybody may read this; where the index lies is nobody's business.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("`{name}` is no longer the file that was opened; publish a new generation, or restart the server")
}
