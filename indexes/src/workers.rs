//! Threads for the length of one call.

use std::thread;

use crate::{Error, Result};

/// Runs `work` on up to `threads` threads (0 is all cores) but no more than `useful`, the caller's among them, and
/// returns what each of them returned. `work` takes its share from a common counter, so that it does not matter how
/// many run; a thread that the system refuses is done without.
///
/// # Errors
/// The first error of a worker. A panic in a worker goes on in the caller.
pub fn run_workers<T: Send>(threads: usize, useful: usize, work: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = if threads == 0 { cores() } else { threads }.min(useful);
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, &work).ok()).collect();
        let own = work();
        let others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others.collect::<Vec<_>>()).collect::<Result<Vec<T>, Error>>()
    })
}

/// Threads that run at once on this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
