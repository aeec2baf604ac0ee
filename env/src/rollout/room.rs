//! Who waits for what? The room in which episodes pass from those who speak to those who search.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::trajectory::Trajectory;
use crate::{Error, Result, Task};

/// An episode under way.
pub(super) struct Play<'a> {
    pub task: &'a Task,
    pub episode: Trajectory,
    pub tries: u32,
    /// After a failure: when it may be tried again.
    pub again: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Table<'a> {
    /// Those that have not begun, the next one last.
    pub waiting: Vec<(&'a Task, u32)>,
    pub speaking: VecDeque<Play<'a>>,
    pub searching: VecDeque<Play<'a>>,
    pub under_way: usize,
    pub done: VecDeque<Trajectory>,
    pub over: bool,
    /// Since when nothing was found, because the retriever was not there.
    pub away: Option<Instant>,
    /// Why the run cannot go on.
    pub end: Option<Error>,
    pub searches: u64,
    pub messages: u64,
}

/// Ends a rollout when one of its threads does, for the others would wait for it for ever.
pub(super) struct EndsWith<'r, 'a>(pub &'r Room<'a>);

impl Drop for EndsWith<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(super) fn spawn<'s>(scope: &'s std::thread::Scope<'s, '_>, work: impl FnOnce() + Send + 's) -> Result<()> {
    // A panic has been told on standard error, and ends the rollout by `EndsWith`.
    let work = || drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
    let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
    spawned.map(drop).map_err(|error| Error::Unavailable {
        what: "threads for a rollout".into(),
        found: error.to_string(),
        remedy: "play fewer episodes at a time, or raise the limit of threads".into(),
    })
}

/// Those who want a message, or those who want passages.
pub(super) type Queue = for<'t, 'a> fn(&'t mut Table<'a>) -> &'t mut VecDeque<Play<'a>>;

pub(super) struct Room<'a> {
    pub table: Mutex<Table<'a>>,
    pub changed: Condvar,
}

impl<'a> Room<'a> {
    /// A room with these plays that have not begun, the next one last.
    pub fn new(waiting: Vec<(&'a Task, u32)>) -> Self {
        Self { table: Mutex::new(Table { waiting, ..Table::default() }), changed: Condvar::new() }
    }

    /// Those who wait, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Table<'a>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is done.
    pub fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    pub fn put(&self, change: impl FnOnce(&mut Table<'a>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Up to `most` episodes of a queue, once there is one; nothing when all is over.
    pub fn take(&self, queue: Queue, most: usize) -> Option<Vec<Play<'a>>> {
        let mut table = self.lock();
        loop {
            if table.over {
                return None;
            }
            let queue = queue(&mut table);
            let now = Instant::now();
            let is_due = |play: &Play<'_>| play.again.is_none_or(|again| again <= now);
            let mut due = Vec::new();
            // Those that are not due go to the end, so that what is taken is all that is looked at.
            for _ in 0..queue.len() {
                match queue.pop_front() {
                    Some(play) if is_due(&play) => due.push(play),
                    later => queue.extend(later),
                }
                if due.len() >= most.max(1) {
                    break;
                }
            }
            if !due.is_empty() {
                return Some(due);
            }
            let next = queue.iter().filter_map(|play| play.again).min();
            let wait = next.map_or(Duration::MAX, |next| next.saturating_duration_since(now));
            table = self.changed.wait_timeout(table, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
