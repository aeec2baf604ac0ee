//! A server that keeps failing is left alone, but for a look now and then.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Open after a number of failures in a row: then it lets one request through in each pause. A success closes it.
pub(super) struct Circuit {
    limit: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failures: u32,
    last_cause: String,
    /// When the next request may go through an open circuit.
    probe: Option<Instant>,
    /// Whether there ever was an answer.
    has_answered: bool,
    /// Whether the last failure was that nothing listens there.
    is_refused: bool,
}

impl Circuit {
    pub fn new(limit: u32, pause: Duration) -> Self {
        Self { limit, pause, state: Mutex::default() }
    }

    /// Whether a request may go through now.
    ///
    /// # Errors
    /// When to ask again, and why the circuit is open.
    pub fn enter(&self, now: Instant) -> Result<(), (Instant, String)> {
        let mut state = self.state();
        match state.probe {
            Some(probe) if probe > now => {
                let State { failures, last_cause, .. } = &*state;
                Err((probe, format!("not asked after {failures} failures in a row, the last one: {last_cause}")))
            }
            // Whoever comes first looks for all.
            Some(_) => {
                state.probe = now.checked_add(self.pause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether nothing listens there, and never did as far as is known.
    pub fn is_absent(&self) -> bool {
        let state = self.state();
        state.is_refused && !state.has_answered
    }

    pub fn succeeded(&self) {
        *self.state() = State { has_answered: true, ..State::default() };
    }

    /// A request failed; `refused` says that nothing listens there.
    pub fn failed(&self, now: Instant, cause: &str, refused: bool) {
        let mut state = self.state();
        state.is_refused = refused;
        state.failures = state.failures.saturating_add(1);
        cause.clone_into(&mut state.last_cause);
        if state.failures >= self.limit {
            state.probe = now.checked_add(self.pause);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteOptions;

    #[test]
    fn ten_failures_in_a_row_open_it_and_every_five_seconds_one_request_passes() {
        let RemoteOptions { circuit_failures, circuit_pause, .. } = RemoteOptions::default();
        let circuit = Circuit::new(circuit_failures, circuit_pause);
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let passes = |seconds| circuit.enter(at(seconds)).is_ok();
        let fail = |times: u32| (0..times).for_each(|_| circuit.failed(start, "no route", false));

        fail(9);
        assert!(passes(0.0));
        circuit.succeeded();
        fail(9);
        assert!(passes(0.0), "only failures in a row count");
        fail(1);
        let (next, why) = circuit.enter(start).expect_err("open");
        assert_eq!(next, at(5.0));
        assert!(why.contains("10 failures") && why.contains("no route"), "{why}");
        assert!(!passes(4.9));
        assert!(passes(5.1));
        assert!(!passes(5.2) && !passes(10.0), "one at a time");
        circuit.failed(at(6.0), "no route", false);
        assert!(!passes(10.9));
        assert!(passes(11.0));
        circuit.succeeded();
        assert!(passes(11.0) && passes(11.0));
    }
}
