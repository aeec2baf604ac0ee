//! Threads that work off a queue, none of which can take the rest down: a panic costs the batch at hand, and a thread that
//! hangs is written off and replaced.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::serve::Fault;
use crate::{Error, Result};

/// Threads that may hang before the engine says that it cannot go on: each keeps its memory, and perhaps a core.
const MAX_STUCK: usize = 4;

/// Work that comes in batches.
pub(super) trait Trade: Send + Sync + 'static {
    /// Those who wait for the outcome.
    type Batch: Send;
    /// What is to be done for them.
    type Work;
    /// What comes of it.
    type Outcome;

    /// The next batch, when there is one; nothing once the queue is closed.
    fn next(&self) -> Option<(Self::Batch, Self::Work)>;
    /// Does it.
    fn run(&self, work: Self::Work) -> Self::Outcome;
    /// Gives everyone their share.
    fn settle(&self, batch: Self::Batch, outcome: Self::Outcome);
    /// Tells everyone that there is none.
    fn fail(&self, batch: Self::Batch, fault: Fault);
    /// No more batches.
    fn close(&self);
}

/// What a thread has in hand, and since when.
struct Post<B>(Mutex<Option<(Instant, B)>>);

/// The threads of one trade.
pub(super) struct Crew<T: Trade> {
    trade: Arc<T>,
    name: &'static str,
    posts: Mutex<Vec<Arc<Post<T::Batch>>>>,
    stuck: AtomicUsize,
}

impl<T: Trade> Crew<T> {
    pub fn start(trade: Arc<T>, name: &'static str, threads: usize) -> Result<Self> {
        let crew = Self { trade, name, posts: Mutex::default(), stuck: AtomicUsize::new(0) };
        for _ in 0..threads {
            crew.hire()?;
        }
        Ok(crew)
    }

    fn hire(&self) -> Result<()> {
        let (trade, post) = (Arc::clone(&self.trade), Arc::new(Post(Mutex::new(None))));
        lock(&self.posts).push(Arc::clone(&post));
        let thread = std::thread::Builder::new().name(self.name.into());
        thread.spawn(move || work(&*trade, &post)).map(drop).map_err(|error| Error::Unavailable {
            what: format!("a thread to {}", self.name),
            found: error.to_string(),
            remedy: "stop other programs, or raise the limit of threads".into(),
        })
    }

    /// Gives up threads that have had the same batch in hand for longer than `patience`, tells those who wait, and hires
    /// others. Returns how many were given up.
    pub fn relieve(&self, patience: Duration) -> usize {
        let mut given_up = Vec::new();
        lock(&self.posts).retain(|post| {
            let late = lock(&post.0).take_if(|(since, _)| since.elapsed() > patience);
            let stays = late.is_none();
            given_up.extend(late);
            stays
        });
        let count = given_up.len();
        for (_, batch) in given_up {
            self.trade.fail(batch, Fault::timeout(format!("no answer to {} within {patience:?}", self.name)));
            // Where no thread is to be had, fewer go on, and `healthy` tells.
            if self.stuck.fetch_add(1, Ordering::Relaxed) < MAX_STUCK {
                let _ = self.hire();
            }
        }
        count
    }

    /// Whether there are threads to go on with.
    pub fn healthy(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) < MAX_STUCK && !lock(&self.posts).is_empty()
    }
}

impl<T: Trade> Drop for Crew<T> {
    fn drop(&mut self) {
        self.trade.close();
    }
}

fn work<T: Trade>(trade: &T, post: &Post<T::Batch>) {
    while let Some((batch, work)) = trade.next() {
        *lock(&post.0) = Some((Instant::now(), batch));
        let outcome = catch_unwind(AssertUnwindSafe(|| trade.run(work)));
        // Nothing in hand any more: given up, and someone else is here.
        let Some((_, batch)) = lock(&post.0).take() else { return };
        match outcome {
            Ok(outcome) => trade.settle(batch, outcome),
            Err(panic) => trade.fail(batch, Fault::panicked(&*panic)),
        }
    }
}

/// What a panic said.
pub(in crate::serve) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

pub(in crate::serve) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
