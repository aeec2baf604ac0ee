//! Threads that work off a queue, none of which can take the rest down: a panic costs the batch at hand, and a thread that
//! hangs is written off and replaced, and taken back if it comes back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::serve::Fault;
use crate::threads::lock;
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
    /// The thread that had it hangs.
    fn give_up(&self, batch: Self::Batch, fault: Fault) {
        self.fail(batch, fault);
    }
    /// No more batches.
    fn close(&self);
}

/// What a thread has in hand, and since when.
struct Post<B>(Mutex<Option<(Instant, B)>>);

/// Who is at work, and how many were given up and have not come back.
struct Roster<B> {
    posts: Vec<Arc<Post<B>>>,
    stuck: usize,
}

/// The threads of one trade.
pub(super) struct Crew<T: Trade> {
    trade: Arc<T>,
    name: &'static str,
    threads: usize,
    roster: Arc<Mutex<Roster<T::Batch>>>,
}

impl<T: Trade> Crew<T> {
    pub fn start(trade: Arc<T>, name: &'static str, threads: usize) -> Result<Self> {
        let roster = Arc::new(Mutex::new(Roster { posts: Vec::new(), stuck: 0 }));
        let crew = Self { trade, name, threads, roster };
        for _ in 0..threads {
            crew.hire()?;
        }
        Ok(crew)
    }

    fn hire(&self) -> Result<()> {
        let post = Arc::new(Post(Mutex::new(None)));
        let worker = Worker {
            trade: Arc::clone(&self.trade),
            post: Arc::clone(&post),
            roster: Arc::clone(&self.roster),
            threads: self.threads,
        };
        let thread = std::thread::Builder::new().name(self.name.into());
        thread.spawn(move || worker.live()).map_err(|error| Error::Unavailable {
            what: format!("a thread to {}", self.name),
            found: error.to_string(),
            remedy: "stop other programs, or raise the limit of threads".into(),
        })?;
        lock(&self.roster).posts.push(post);
        Ok(())
    }

    /// Gives up threads that have had the same batch in hand for longer than `patience`, and hires others. Returns how many
    /// were given up.
    pub fn relieve(&self, patience: Duration) -> usize {
        let mut given_up = Vec::new();
        let mut roster = lock(&self.roster);
        roster.posts.retain(|post| {
            let late = lock(&post.0).take_if(|(since, _)| since.elapsed() > patience);
            let stays = late.is_none();
            given_up.extend(late);
            stays
        });
        let before = roster.stuck;
        roster.stuck += given_up.len();
        let replaced = roster.stuck.min(MAX_STUCK).saturating_sub(before);
        drop(roster);
        for _ in 0..replaced {
            // Where no thread is to be had, fewer go on, and `healthy` tells.
            let _ = self.hire();
        }
        let count = given_up.len();
        for (_, batch) in given_up {
            self.trade.give_up(batch, Fault::timeout(format!("no answer to {} within {patience:?}", self.name)));
        }
        count
    }

    /// Whether there are threads to go on with.
    pub fn healthy(&self) -> bool {
        let roster = lock(&self.roster);
        roster.stuck < MAX_STUCK && !roster.posts.is_empty()
    }

    /// Whether anybody is left to do the work.
    pub fn staffed(&self) -> bool {
        !lock(&self.roster).posts.is_empty()
    }
}

impl<T: Trade> Drop for Crew<T> {
    fn drop(&mut self) {
        self.trade.close();
    }
}

/// What a thread knows.
struct Worker<T: Trade> {
    trade: Arc<T>,
    post: Arc<Post<T::Batch>>,
    roster: Arc<Mutex<Roster<T::Batch>>>,
    threads: usize,
}

impl<T: Trade> Worker<T> {
    fn live(&self) {
        // A panic outside of the work itself is a defect as well, and must not leave the queue without a thread.
        while catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {}
    }

    fn work(&self) {
        while let Some((batch, work)) = self.trade.next() {
            *lock(&self.post.0) = Some((Instant::now(), batch));
            let outcome = catch_unwind(AssertUnwindSafe(|| self.trade.run(work)));
            let in_hand = lock(&self.post.0).take();
            match (in_hand, outcome) {
                (Some((_, batch)), Ok(outcome)) => self.trade.settle(batch, outcome),
                (Some((_, batch)), Err(panic)) => self.trade.fail(batch, Fault::panicked(&*panic)),
                (None, _) if self.comes_back() => {}
                (None, _) => return,
            }
        }
    }

    /// Whether a thread that was given up is needed again, now that it hangs no more.
    fn comes_back(&self) -> bool {
        let mut roster = lock(&self.roster);
        roster.stuck -= 1;
        let needed = roster.posts.len() < self.threads;
        if needed {
            roster.posts.push(Arc::clone(&self.post));
        }
        needed
    }
}
