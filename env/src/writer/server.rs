//! A model on an OpenAI-compatible server writes: greedily, several requests at a time, never more than a budget.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Request, Writer};
use crate::endpoint::{Chat, Endpoint, patiently};
use crate::{Error, Result};

/// Requests under way at a time.
const MOST_WORKERS: usize = 512;

/// How a model on a server is asked for texts.
#[derive(Debug, Clone)]
pub struct ServerWriterOptions {
    /// The model's name there.
    pub model: String,
    /// Requests at a time, of all that ask the writer.
    pub parallel: NonZero<usize>,
    /// Requests that are sent at most while the writer lives, those that are tried again included; without a limit as many as are
    /// wanted.
    pub budget: Option<u64>,
}

/// A model on a server, at temperature 0. A server that fails for a moment is asked again.
pub struct ServerWriter {
    endpoint: Endpoint,
    options: ServerWriterOptions,
    sent: AtomicU64,
    slots: Slots,
}

/// Places of requests under way.
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place that is given back.
struct Slot<'a>(&'a Slots);

impl Slots {
    fn take(&self) -> Slot<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

impl ServerWriter {
    /// A model at this address.
    pub fn new(endpoint: Endpoint, options: ServerWriterOptions) -> Self {
        let slots = Slots { free: Mutex::new(options.parallel.get()), freed: Condvar::new() };
        Self { endpoint, options, sent: AtomicU64::new(0), slots }
    }

    /// Requests that were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn ask(&self, request: &Request) -> Result<String> {
        let Request { system, user, tokens } = request;
        let chat = Chat { model: &self.options.model, system, user, tokens: *tokens };
        patiently(|| {
            let _slot = self.slots.take();
            self.spend()?;
            self.endpoint.chat(&chat)
        })
    }

    /// Counts a request, where one is left.
    fn spend(&self) -> Result<()> {
        let most = self.options.budget.unwrap_or(u64::MAX);
        let next = |sent: u64| (sent < most).then(|| sent + 1);
        let spent = self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        // Not `Unavailable`, which is tried again.
        spent.map(drop).map_err(|_| {
            let what = format!("budget of requests to `{}`", self.endpoint.address());
            Error::invalid(what, "one that covers all that is asked; raise it", format!("{most}, and more requests"))
        })
    }
}

impl Writer for ServerWriter {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        let next = AtomicUsize::new(0);
        let written: Vec<Mutex<Option<Result<String>>>> = requests.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while let Some((request, place)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                requests.get(number).zip(written.get(number))
            } {
                let text = self.ask(request);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            }
        };
        let workers = self.options.parallel.get().min(requests.len()).min(MOST_WORKERS);
        std::thread::scope(|scope| {
            for _ in 1..workers {
                // Without another thread the ones there are do all.
                drop(std::thread::Builder::new().spawn_scoped(scope, work));
            }
            work();
        });
        let taken = |place: Mutex<Option<Result<String>>>| {
            place.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or(Err(Error::Interrupted))
        };
        written.into_iter().map(taken).collect()
    }
}
