//! The best few of many scores.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Hit;

/// Keeps the best `capacity` hits offered: highest score first, equal scores by row.
#[derive(Debug)]
pub struct TopK {
    capacity: usize,
    /// The worst hit on top.
    heap: BinaryHeap<Ranked>,
}

impl TopK {
    /// `capacity` must not be 0.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, heap: BinaryHeap::with_capacity(capacity) }
    }

    /// The score that a hit must reach to matter: the lowest kept, once all places are taken.
    pub fn threshold(&self) -> f32 {
        match self.heap.peek() {
            Some(Ranked(worst)) if self.heap.len() == self.capacity => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Keeps `hit` if it belongs to the best so far.
    pub fn offer(&mut self, hit: Hit) {
        let hit = Ranked(hit);
        if self.heap.len() < self.capacity {
            self.heap.push(hit);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && hit < *worst
        {
            *worst = hit;
        }
    }

    /// Keeps the best of both.
    pub fn merge(&mut self, other: Self) {
        for Ranked(hit) in other.heap {
            self.offer(hit);
        }
    }

    /// The hits kept, best first.
    pub fn into_hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(|Ranked(hit)| hit).collect()
    }
}

/// The best hits of several queries whose scores are first seen with an error.
pub struct Selection<'a> {
    /// By query, the bound of the error.
    slack: &'a [f32],
    /// By query.
    best: Vec<TopK>,
    /// By query, the score below which a row cannot matter.
    thresholds: Vec<f32>,
}

/// Scores compared with their thresholds at once.
const CHECKED: usize = 16;

impl<'a> Selection<'a> {
    /// Keeps `top_k` hits (not 0) for each of the queries, whose scores are within `slack` of the canonical ones.
    pub fn new(top_k: usize, slack: &'a [f32]) -> Self {
        Self {
            slack,
            best: slack.iter().map(|_| TopK::new(top_k)).collect(),
            thresholds: vec![f32::NEG_INFINITY; slack.len()],
        }
    }

    /// Takes the `scores` of a row, one a query (what follows is ignored), and asks for the `canonical` score of each
    /// query where the row could be among the best. Returns false when such a score is not a finite number.
    #[must_use]
    pub fn consider(&mut self, row: u64, scores: &[f32], mut canonical: impl FnMut(usize) -> f32) -> bool {
        // A score that is not a number passes, to be found out.
        let passes = |(score, threshold): (&f32, &f32)| score >= threshold || score.is_nan();
        for first in (0..self.slack.len()).step_by(CHECKED) {
            let block = first..(first + CHECKED).min(self.slack.len());
            let pairs = scores[block.clone()].iter().zip(&self.thresholds[block.clone()]);
            // Rarely true, and cheap to see for a whole block.
            if pairs.fold(false, |any, pair| any | passes(pair)) {
                for query in block {
                    if passes((&scores[query], &self.thresholds[query])) {
                        let score = canonical(query);
                        if !score.is_finite() {
                            return false;
                        }
                        self.best[query].offer(Hit { row, score });
                        self.thresholds[query] = self.best[query].threshold() - self.slack[query];
                    }
                }
            }
        }
        true
    }

    /// By query, the best hits.
    pub fn into_best(self) -> Vec<TopK> {
        self.best
    }
}

/// A hit ordered by rank: better is less.
#[derive(Debug, Clone, Copy)]
struct Ranked(Hit);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.score.total_cmp(&self.0.score).then(self.0.row.cmp(&other.0.row))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}
