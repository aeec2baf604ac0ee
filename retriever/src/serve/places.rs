//! Places for connections. When all are taken, one more client is worth more than a connection on which nothing happens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::Phase;
use crate::threads::lock;

/// How soon a connection that was told to leave is looked at again: it may have been asked something meanwhile.
const AGAIN: Duration = Duration::from_millis(20);

/// All places.
pub(super) struct Places {
    most: usize,
    seats: Mutex<Seats>,
    freed: Notify,
}

#[derive(Default)]
struct Seats {
    last: u64,
    taken: HashMap<u64, (Phase, Arc<Notify>)>,
}

/// A taken place; free again when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// What the connection is at.
    pub phase: Phase,
    /// Told when another client needs the place and nothing happens on this connection.
    pub wanted: Arc<Notify>,
}

impl Places {
    /// Places for `most` connections.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, seats: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place. Where none is free, the connection leaves on which nothing has happened for the longest time, and first those
    /// on which nothing was ever asked; where
    /// something happens on all of them, waits for one to end.
    pub async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.try_take() {
                return place;
            }
            let _ = tokio::time::timeout(AGAIN, self.freed.notified()).await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut seats = lock(&self.seats);
        if seats.taken.len() >= self.most {
            let worth = |phase: &Phase| Some((!phase.has_asked(), phase.waiting_for()?));
            let waiting = seats.taken.values().filter_map(|(phase, wanted)| Some((worth(phase)?, wanted)));
            if let Some((_, wanted)) = waiting.max_by_key(|(worth, _)| *worth) {
                wanted.notify_one();
            }
            return None;
        }
        seats.last += 1;
        let (number, phase, wanted) = (seats.last, Phase::new(Instant::now()), Arc::new(Notify::new()));
        seats.taken.insert(number, (phase.clone(), Arc::clone(&wanted)));
        Some(Place { places: Arc::clone(self), number, phase, wanted })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.seats).taken.remove(&self.number);
        self.places.freed.notify_one();
    }
}
