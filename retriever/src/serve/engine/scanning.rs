//! Vectors of all requests on their way to rows: those that wait while one pass over the index runs share the next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hindsearch_indexes::{Effort, Hit, SearchParams, Vectors};
use tokio::sync::oneshot;

use super::cost::Cost;
use super::crew::Trade;
use crate::serve::{Fault, Metrics, Serving};
use crate::threads::lock;

/// Most queries that share a pass; as many as the exact index scores at once.
const MOST: usize = 256;
/// Fewest queries that a pass has room for, however long it takes.
const FEWEST: usize = 8;
/// How long a pass should take at most, so that others get their turn.
const TURN: Duration = Duration::from_secs(1);

/// What makes searches fit into one pass.
#[derive(Clone)]
pub(super) struct Scan {
    pub serving: Arc<Serving>,
    pub top_k: usize,
    pub effort: Effort,
    /// The only rows that count.
    pub rows: Option<Arc<Vec<u64>>>,
}

impl Scan {
    fn fits(&self, other: &Self) -> bool {
        let same_rows = match (&self.rows, &other.rows) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        Arc::ptr_eq(&self.serving, &other.serving)
            && (self.top_k, self.effort) == (other.top_k, other.effort)
            && same_rows
    }
}

/// Hits a query.
pub(super) type Rankings = Vec<Vec<Hit>>;

struct Job {
    scan: Scan,
    queries: Vec<Arc<[f32]>>,
    answer: oneshot::Sender<Result<Rankings, Fault>>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// The queue, and the trade of working it off.
pub(super) struct Scanning {
    waiting: Mutex<Waiting>,
    more: Condvar,
    threads: usize,
    longest_wait: Duration,
    /// Of a pass and its queries.
    cost: Cost,
    metrics: Arc<Metrics>,
}

impl Scanning {
    /// Each pass takes `threads` threads; 0 is one a core.
    pub fn new(threads: usize, longest_wait: Duration, metrics: Arc<Metrics>) -> Self {
        let (waiting, more, cost) = (Mutex::default(), Condvar::new(), Cost::default());
        Self { waiting, more, threads, longest_wait, cost, metrics }
    }

    /// Refuses a search whose turn would come too late.
    pub fn admit(&self) -> Result<(), Fault> {
        let wait = self.time_to_drain();
        if wait <= self.longest_wait {
            return Ok(());
        }
        self.metrics.shed("wait");
        let (seconds, most) = (wait.as_secs_f64(), self.longest_wait);
        Err(Fault::overloaded(format!("searches wait {seconds:.1} s for the index, at most {most:?} is allowed"), wait))
    }

    /// The time that all queries which wait will take.
    pub fn time_to_drain(&self) -> Duration {
        let queries = lock(&self.waiting).jobs.iter().map(|job| job.queries.len()).sum();
        self.cost.of(queries, self.room())
    }

    /// Queries that may share a pass, as long as one takes.
    fn room(&self) -> usize {
        self.cost.fit_in(TURN).map_or(MOST, |queries| queries.clamp(FEWEST, MOST))
    }

    /// The hits of each query, in order. A large request takes its turns one pass at a time.
    pub async fn search(&self, scan: Scan, queries: &[Arc<[f32]>]) -> Result<Rankings, Fault> {
        let mut rankings = Vec::with_capacity(queries.len());
        let mut left = queries;
        while !left.is_empty() {
            let pass = left.split_off(..self.room().min(left.len())).unwrap_or_default();
            let (answer, rows) = oneshot::channel();
            lock(&self.waiting).jobs.push_back(Job { scan: scan.clone(), queries: pass.to_vec(), answer });
            self.more.notify_one();
            rankings.extend(rows.await.unwrap_or_else(|_| Err(Fault::internal("a search was lost")))?);
        }
        Ok(rankings)
    }
}

/// Who gets which of a pass's rankings.
type Shares = Vec<(oneshot::Sender<Result<Rankings, Fault>>, Vec<usize>)>;

/// Distinct queries for one pass.
pub(super) struct Pass {
    scan: Scan,
    queries: Vec<Arc<[f32]>>,
    threads: usize,
}

impl Trade for Scanning {
    type Batch = Shares;
    type Work = Pass;
    type Outcome = Result<Rankings, Fault>;

    fn next(&self) -> Option<(Shares, Pass)> {
        let mut waiting = lock(&self.waiting);
        let first = loop {
            if waiting.closed {
                return None;
            }
            match waiting.jobs.pop_front() {
                Some(job) if job.answer.is_closed() => {}
                Some(job) => break job,
                None => waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let room = self.room();
        let mut taken = vec![first];
        let mut count = taken[0].queries.len();
        for job in std::mem::take(&mut waiting.jobs) {
            if job.answer.is_closed() {
                continue;
            }
            if taken[0].scan.fits(&job.scan) && count + job.queries.len() <= room {
                count += job.queries.len();
                taken.push(job);
            } else {
                waiting.jobs.push_back(job);
            }
        }
        if !waiting.jobs.is_empty() {
            self.more.notify_one();
        }
        drop(waiting);
        let mut pass = Pass { scan: taken[0].scan.clone(), queries: Vec::new(), threads: self.threads };
        let mut known: HashMap<*const f32, usize> = HashMap::new();
        let shares = taken.into_iter().map(|job| {
            let place = |query: Arc<[f32]>| {
                // The same text has the same vector, not just an equal one.
                *known.entry(query.as_ptr()).or_insert_with(|| {
                    pass.queries.push(query);
                    pass.queries.len() - 1
                })
            };
            (job.answer, job.queries.into_iter().map(place).collect())
        });
        Some((shares.collect(), pass))
    }

    fn run(&self, work: Pass) -> Self::Outcome {
        let (begun, count) = (Instant::now(), work.queries.len());
        self.metrics.batch("search", count);
        let index = work.scan.serving.retriever().index();
        let values: Vec<f32> = work.queries.iter().flat_map(|query| query.iter().copied()).collect();
        let queries = Vectors::new(index.dimensions(), values)?;
        let Scan { top_k, effort, rows, .. } = &work.scan;
        let found = match rows {
            Some(rows) => index.search_rows(&queries, rows, *top_k),
            None => index.search(&queries, &SearchParams { top_k: *top_k, threads: work.threads, effort: *effort }),
        };
        self.cost.measured(begun.elapsed(), count);
        Ok(found?)
    }

    fn settle(&self, shares: Shares, outcome: Self::Outcome) {
        for (answer, places) in shares {
            let share = match &outcome {
                Ok(rankings) => Ok(places.into_iter().map(|place| rankings[place].clone()).collect()),
                Err(fault) => Err(fault.clone()),
            };
            // The request may have been given up.
            let _ = answer.send(share);
        }
    }

    fn fail(&self, shares: Shares, fault: Fault) {
        self.settle(shares, Err(fault));
    }

    fn close(&self) {
        lock(&self.waiting).closed = true;
        self.more.notify_all();
    }
}
