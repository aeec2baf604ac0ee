//! A counting semaphore.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many callers at once; the others wait.
#[derive(Debug)]
pub struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The right to go on, until dropped.
#[derive(Debug)]
pub struct Permit<'a>(&'a Permits);

impl Permits {
    pub fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a permit.
    pub fn acquire(&self) -> Permit<'_> {
        let free = self.freed.wait_while(self.lock(), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }

    /// A count is valid whatever happened to the thread that held it.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}
