//! Threads for the length of one call.

use std::sync::atomic::{AtomicUsize, Ordering};
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

/// What `work` gives for each number below `count`, in their order, on threads as [`run_workers`] has them. `start` gives
/// each thread what it works with.
///
/// # Errors
/// As [`run_workers`].
pub fn map_workers<S, T: Send>(
    threads: usize,
    useful: usize,
    count: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let parts = run_workers(threads, useful, || {
        let (mut own, mut done) = (start(), Vec::new());
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < count
        {
            done.push((number, work(&mut own, number)?));
        }
        Ok(done)
    })?;
    Ok(in_order(parts))
}

/// What workers gave with numbers, in the order of these.
pub fn in_order<T>(parts: Vec<Vec<(usize, T)>>) -> Vec<T> {
    let mut all: Vec<(usize, T)> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, one)| one).collect()
}

/// Threads that run at once on this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
