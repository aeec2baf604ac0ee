//! How large is the learning rate of an update?

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// The learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// Stays at its peak.
    Constant,
    /// Falls on a straight line.
    Linear,
    /// Falls on half a wave of the cosine (Loshchilov and Hutter 2017, without restarts).
    Cosine,
}

/// A learning rate for each update: it rises linearly to its peak, then decays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Updates until it is reached; 0 begins with it.
    pub warmup: u64,
    /// What follows.
    pub decay: Decay,
    /// Updates of the whole run, at the last of which a decay has come to its end.
    pub total: u64,
    /// The share of the peak at which a decay ends, 0 to 1.
    pub floor: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { peak: 1e-6, warmup: 0, decay: Decay::Constant, total: 100, floor: 0.0 }
    }
}

impl Schedule {
    /// The rate of an update, counted from 1. The first of a warm-up is not wasted on a rate of 0, so all rates are those of
    /// Hugging Face's schedules one update later.
    pub fn rate(&self, update: u64) -> f64 {
        if update < self.warmup {
            return self.peak * update as f64 / self.warmup as f64;
        }
        let done = update.saturating_sub(self.warmup) as f64;
        let share = (done / self.total.saturating_sub(self.warmup).max(1) as f64).min(1.0);
        let left = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => 1.0 - share,
            Decay::Cosine => 0.5 * (1.0 + (PI * share).cos()),
        };
        match self.decay {
            Decay::Constant => self.peak,
            _ => self.peak * (self.floor + (1.0 - self.floor) * left),
        }
    }
}
