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
