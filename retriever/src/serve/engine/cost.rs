//! What a piece of work has cost lately.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Weight of the newest measurement.
const NEWEST: f64 = 0.1;

/// A running mean of seconds; 0 until something was measured.
#[derive(Debug, Default)]
pub(super) struct Cost(AtomicU64);

impl Cost {
    /// `count` pieces took `time` together.
    pub fn measured(&self, time: Duration, count: usize) {
        let cost = time.as_secs_f64() / count.max(1) as f64;
        let mean = self.seconds();
        let mean = if mean == 0.0 { cost } else { mean + NEWEST * (cost - mean) };
        // Of two measurements at once one may be lost, which does no harm to a mean.
        self.0.store(mean.to_bits(), Ordering::Relaxed);
    }

    /// Seconds a piece.
    pub fn seconds(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// What `count` pieces will take.
    pub fn of(&self, count: usize) -> Duration {
        Duration::from_secs_f64(count as f64 * self.seconds())
    }
}
