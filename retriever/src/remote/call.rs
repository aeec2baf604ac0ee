//! One call: who is asked next, how long is waited, and what is said when nobody answered.

use std::time::{Duration, Instant};

use super::client::Failure;
use super::wire::{Answer, Request};
use super::{RemoteRetriever, Replica};
use crate::{Error, Result};

/// The longest pause that grows out of doubling.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// Less time is not worth a request.
const SHORTEST_TRY: Duration = Duration::from_millis(1);

/// A call with its deadline, and what it has met so far.
pub(super) struct Call<'a> {
    retriever: &'a RemoteRetriever,
    start: Instant,
    deadline: Instant,
    /// The replica that is asked first: the one that answered last.
    first: usize,
    /// One for each replica.
    met: Vec<Met>,
}

/// What this call knows of a replica.
struct Met {
    tries: u32,
    cause: String,
    /// Not to be asked before: the server said so, or its circuit is open.
    not_before: Instant,
}

impl<'a> Call<'a> {
    pub fn new(retriever: &'a RemoteRetriever, first: usize) -> Self {
        let start = Instant::now();
        // A deadline beyond the clock's end is none; a year will do.
        let deadline = start + retriever.options.deadline.min(Duration::from_secs(365 * 24 * 3600));
        let met = |_: &Replica| Met { tries: 0, cause: "not asked".into(), not_before: start };
        Self { retriever, start, deadline, first, met: retriever.replicas.iter().map(met).collect() }
    }

    /// The answer of the first replica that gives one. A round asks all that may be asked; a pause parts the rounds.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<Answer> {
        let (first, count) = (self.first, self.met.len());
        let mut rounds = 0;
        loop {
            let mut asked = false;
            for at in (0..count).map(|step| (first + step) % count) {
                if let Some(answer) = self.try_one(at, request, &mut asked)? {
                    self.first = at;
                    return Ok(answer);
                }
            }
            rounds += u32::from(asked);
            let now = Instant::now();
            let soonest = self.met.iter().map(|met| met.not_before).min().unwrap_or(now);
            let pause = soonest.saturating_duration_since(now) + self.jitter(rounds);
            if rounds > self.retriever.options.retries || pause >= self.deadline().saturating_duration_since(now) {
                return Err(self.given_up());
            }
            std::thread::sleep(pause);
        }
    }

    /// When this call is given up: soon where nothing listens anywhere.
    fn deadline(&self) -> Instant {
        let options = &self.retriever.options;
        let is_absent = self.retriever.replicas.iter().all(|replica| replica.circuit.is_absent());
        let soon = self.start.checked_add(options.absent_deadline).filter(|_| is_absent);
        soon.map_or(self.deadline, |soon| soon.min(self.deadline))
    }

    /// Asks one replica, if it may be asked now; `None` when another try is worth it.
    fn try_one(&mut self, at: usize, request: &Request<'_>, asked: &mut bool) -> Result<Option<Answer>> {
        let RemoteRetriever { client, replicas, options, .. } = self.retriever;
        let (Replica { address, circuit }, met) = (&replicas[at], &mut self.met[at]);
        let now = Instant::now();
        let timeout = options.attempt_timeout.min(self.deadline.saturating_duration_since(now));
        if timeout < SHORTEST_TRY || met.not_before > now {
            return Ok(None);
        }
        if let Err((probe, why)) = circuit.enter(now) {
            met.not_before = probe;
            if met.tries == 0 {
                met.cause = why;
            }
            return Ok(None);
        }
        *asked = true;
        met.tries += 1;
        match client.search(address, request, timeout) {
            Ok(answer) => {
                circuit.succeeded();
                Ok(Some(answer))
            }
            Err(Failure::Refused(error)) => {
                circuit.succeeded();
                Err(error)
            }
            Err(Failure::Passing { cause, retry_after, refused }) => {
                let now = Instant::now();
                match retry_after.and_then(|pause| now.checked_add(pause)) {
                    // It is alive, and knows when it will have time.
                    Some(time) => met.not_before = time,
                    None => circuit.failed(now, &cause, refused),
                }
                met.cause = cause;
                Ok(None)
            }
        }
    }

    /// A random share of a pause that doubles with each round, so that callers who failed together do not return together.
    fn jitter(&self, rounds: u32) -> Duration {
        let doubled = self.retriever.options.backoff.saturating_mul(1 << rounds.saturating_sub(1).min(16));
        doubled.min(LONGEST_BACKOFF).mul_f64(rand::random())
    }

    fn given_up(&self) -> Error {
        let causes = self.retriever.replicas.iter().zip(&self.met).map(|(replica, met)| match met.tries {
            0 => format!("`{}`: {}", replica.address, met.cause),
            1 => format!("`{}`, tried once: {}", replica.address, met.cause),
            tries => format!("`{}`, tried {tries} times: {}", replica.address, met.cause),
        });
        Error::Unavailable {
            what: format!("no retrieval server answered in {:.1} s", self.start.elapsed().as_secs_f64()),
            found: causes.collect::<Vec<_>>().join("; "),
            remedy: "check that `hindsearch serve` runs there, or allow more time".into(),
        }
    }
}
