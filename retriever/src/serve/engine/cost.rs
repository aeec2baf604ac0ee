//! What work has cost lately: a run takes some time whatever it does, and some more for each piece.

use std::sync::Mutex;
use std::time::Duration;

use crate::threads::lock;

/// Weight of the newest measurement.
const NEWEST: f64 = 0.1;
/// Runs whose numbers of pieces vary less than this do not tell what a piece costs.
const VARIED: f64 = 1e-6;

/// Least squares over measured runs, the latest of which count most.
#[derive(Debug, Default)]
pub(super) struct Cost(Mutex<Sums>);

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weight: f64,
    pieces: f64,
    seconds: f64,
    pieces_squared: f64,
    pieces_by_seconds: f64,
}

impl Cost {
    /// A run of `pieces` took `time`.
    pub fn measured(&self, time: Duration, pieces: usize) {
        let (pieces, seconds) = (pieces as f64, time.as_secs_f64());
        let mut sums = lock(&self.0);
        let add = |sum: &mut f64, value: f64| *sum += NEWEST * (value - *sum);
        add(&mut sums.weight, 1.0);
        add(&mut sums.pieces, pieces);
        add(&mut sums.seconds, seconds);
        add(&mut sums.pieces_squared, pieces * pieces);
        add(&mut sums.pieces_by_seconds, pieces * seconds);
    }

    /// What `pieces` will take in runs of `run`. Too little rather than too much where only small runs were measured, as
    /// work that could have been done is not to be refused.
    pub fn of(&self, pieces: usize, run: usize) -> Duration {
        let (mean_pieces, mean_seconds, each) = self.means();
        let each = each.unwrap_or(0.0);
        let fixed = mean_seconds - each * mean_pieces;
        Duration::from_secs_f64((pieces.div_ceil(run.max(1)) as f64 * fixed + pieces as f64 * each).max(0.0))
    }

    /// How many pieces a run may have to take no longer than `time`; nothing before a run was measured. Too few rather than
    /// too many, as a run cannot be ended early.
    pub fn fit_in(&self, time: Duration) -> Option<usize> {
        let (mean_pieces, mean_seconds, each) = self.means();
        let each = each.unwrap_or(mean_seconds / mean_pieces);
        let fixed = mean_seconds - each * mean_pieces;
        (mean_seconds > 0.0).then(|| ((time.as_secs_f64() - fixed) / each).max(0.0) as usize)
    }

    /// Of a run, the pieces and the seconds; and the seconds that each piece adds, where runs were varied enough to tell.
    fn means(&self) -> (f64, f64, Option<f64>) {
        let sums = *lock(&self.0);
        let mean = |sum: f64| if sums.weight > 0.0 { sum / sums.weight } else { 0.0 };
        let (pieces, seconds) = (mean(sums.pieces), mean(sums.seconds));
        let variance = mean(sums.pieces_squared) - pieces * pieces;
        let covariance = mean(sums.pieces_by_seconds) - pieces * seconds;
        let each = (variance > VARIED).then(|| (covariance / variance).clamp(0.0, seconds / pieces));
        (pieces, seconds, each)
    }
}
