//! Are the bytes in memory, or must the kernel be told what will be read?
//!
//! A page that is not in memory costs a fault that waits for the disk: a hundred candidates one after the other are a
//! hundred waits, while asked for together they are one. Asking costs a system call for each run of pages, which is as
//! much as scoring a row, so nobody asks while all is in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::MappedFile;
use crate::mmap::waits;

/// Batches that ask after one that had to wait.
const ASKING: u32 = 64;
/// Ranges that are so near each other are asked for as one.
const NEAR: usize = 16 << 10;

/// Whether reads of a file had to wait of late.
#[derive(Debug)]
pub struct Cold(AtomicU32);

impl Default for Cold {
    /// Nothing is known, so the first batch asks.
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl Cold {
    /// Whether to ask.
    pub fn is_cold(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Runs `work` on this thread and remembers whether it had to wait for pages.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = waits();
        let result = work();
        if waits() > before {
            self.0.store(ASKING, Ordering::Relaxed);
        }
        result
    }

    /// A batch is over.
    pub fn end_of_batch(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }

    /// Asks for `ranges` of `file`, ascending, if pages had to be waited for of late.
    pub fn ask(&self, file: &MappedFile, ranges: impl IntoIterator<Item = Range<usize>>) {
        if !self.is_cold() {
            return;
        }
        let mut ranges = ranges.into_iter();
        let Some(mut run) = ranges.next() else { return };
        for range in ranges {
            if range.start <= run.end + NEAR {
                run.end = run.end.max(range.end);
            } else {
                file.will_need(run);
                run = range;
            }
        }
        file.will_need(run);
    }
}
