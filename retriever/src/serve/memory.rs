//! Memory that requests share: large bodies, and large answers until they are sent. What does not fit is refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::Fault;
use super::metrics::Metrics;

/// Bytes that a permit stands for.
const GRAIN: usize = 1024;
/// The first bytes of each request are not counted, so that large ones never keep small ones out: as many connections as
/// there may be do no harm with so much each.
const FREE: usize = 64 << 10;
/// After which a client may try again.
const WAIT: Duration = Duration::from_secs(3);

/// A budget.
pub(super) struct Memory {
    left: Arc<Semaphore>,
    what: &'static str,
    metrics: Arc<Metrics>,
}

impl Memory {
    /// `bytes` for `what`.
    pub fn new(bytes: usize, what: &'static str, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { left: Arc::new(Semaphore::new(bytes / GRAIN)), what, metrics })
    }

    /// A share of nothing, to grow.
    pub fn share(self: &Arc<Self>) -> Share {
        Share { memory: Arc::clone(self), bytes: 0, permit: None }
    }
}

/// A request's share, given back when it is dropped.
pub(super) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Takes `bytes` more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        let wanted = self.bytes.saturating_sub(FREE).div_ceil(GRAIN);
        let missing = wanted.saturating_sub(self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.memory.left).try_acquire_many_owned(u32::try_from(missing).unwrap_or(u32::MAX));
        let more = more.map_err(|_| {
            self.memory.metrics.shed("memory");
            Fault::overloaded(format!("too much memory is taken by {}; ask again, or for less", self.memory.what), WAIT)
        })?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}
