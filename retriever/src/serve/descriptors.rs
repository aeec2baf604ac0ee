//! File descriptors: connections may take most of them, but not those that files are opened with.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit to the highest that it may set; shells start programs with far fewer than thousands of clients
/// need.
pub(super) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where the system refuses, the server takes fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many of `wanted` connections there are descriptors for, with a quarter of all left for files.
pub(super) fn connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(limit - limit / 4).unwrap_or(usize::MAX))
}
