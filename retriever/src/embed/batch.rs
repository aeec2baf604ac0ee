//! Which texts go through the model together: texts of like length, few at a time.
//!
//! On a CPU small batches keep the activations in the cache, and padding is work for nothing; so a batch is filled up
//! to a number of tokens, not of texts.

use std::cmp::Reverse;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Bounds of a batch. A single text may always go alone, however long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchLimits {
    /// Most texts in a batch.
    pub rows: usize,
    /// Most tokens in a batch, padding included; bounds the runtime's memory, which never shrinks.
    pub tokens: usize,
    /// Greatest share of padding, 0 to 1. At 0 only texts of equal length meet.
    pub padding: f64,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { rows: 16, tokens: 256, padding: 0.1 }
    }
}

impl BatchLimits {
    /// Each text alone.
    pub const SINGLE: Self = Self { rows: 1, tokens: usize::MAX, padding: 0.0 };
}

/// Cuts texts with the given token counts into batches: positions into `lengths`, longest texts first, so that the
/// last batches to end are short ones.
pub fn cut(lengths: &[usize], limits: BatchLimits) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&at| (Reverse(lengths[at]), at));
    let mut batches = Vec::new();
    let mut start = 0;
    while start < order.len() {
        let rows = fitting(&order[start..], lengths, limits);
        batches.push(order[start..start + rows].to_vec());
        start += rows;
    }
    batches
}

/// How many of `order`, longest first, fit into one batch.
fn fitting(order: &[usize], lengths: &[usize], limits: BatchLimits) -> usize {
    let longest = lengths[order[0]];
    let mut real = 0usize;
    for (rows, &at) in order.iter().enumerate() {
        real += lengths[at];
        let laid_out = longest.saturating_mul(rows + 1);
        let padding = (laid_out - real) as f64 / laid_out.max(1) as f64;
        if rows > 0 && (rows >= limits.rows || laid_out > limits.tokens || padding > limits.padding) {
            return rows;
        }
    }
    order.len()
}

/// Cuts `0..count` into pieces of at most `size`.
pub(super) fn pieces(count: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(size).map(move |start| start..count.min(start + size))
}

#[cfg(test)]
mod tests {
    use super::{BatchLimits, cut};

    const LIMITS: BatchLimits = BatchLimits { rows: 3, tokens: 100, padding: 0.25 };

    #[test]
    fn each_text_is_in_exactly_one_batch() {
        let lengths: Vec<usize> = (0..500).map(|i| 1 + i * 7919 % 257).collect();
        let mut seen: Vec<usize> = cut(&lengths, LIMITS).concat();
        seen.sort_unstable();
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn batches_keep_the_limits() {
        let lengths: Vec<usize> = (0..500).map(|i| 1 + i * 7919 % 257).collect();
        for batch in cut(&lengths, LIMITS) {
            let longest = batch.iter().map(|&at| lengths[at]).max().unwrap_or(0);
            let real: usize = batch.iter().map(|&at| lengths[at]).sum();
            let laid_out = longest * batch.len();
            assert!(batch.len() == 1 || (batch.len() <= 3 && laid_out <= 100), "{batch:?}");
            assert!((laid_out - real) as f64 <= 0.25 * laid_out as f64, "{batch:?}");
        }
    }

    #[test]
    fn like_lengths_meet_and_long_texts_go_alone() {
        assert_eq!(cut(&[10, 300, 10, 12, 40], LIMITS), [vec![1], vec![4], vec![3, 0, 2]]);
        assert_eq!(cut(&[5, 5], BatchLimits::SINGLE), [vec![0], vec![1]]);
        assert!(cut(&[], LIMITS).is_empty());
    }
}
