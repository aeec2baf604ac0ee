//! How far a long operation is.

use std::sync::{Mutex, PoisonError};

/// A step forward, in the unit that the operation documents (rows or bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done, counted from the start of the whole operation, resumed work included.
    pub done: u64,
    /// Units in all, when known.
    pub total: Option<u64>,
}

/// Receives progress; library code never prints.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// Passes on only steps that go further than all before: workers count one after the other, and may tell it in another
/// order.
pub(crate) fn ascending(progress: OnProgress<'_>) -> impl Fn(Progress) + Sync {
    let furthest = Mutex::new(None);
    move |step| {
        let mut furthest = furthest.lock().unwrap_or_else(PoisonError::into_inner);
        if furthest.is_none_or(|before| step.done > before) {
            *furthest = Some(step.done);
            progress(step);
        }
    }
}
