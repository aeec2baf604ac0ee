//! How far a long operation is.

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
