//! The episodes under way: so many, so much memory, and those that nobody asks for are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{Code, Fault};

use super::play::Play;
use super::server::Clock;

/// Bytes of an episode beside its texts, about.
const OVERHEAD: usize = 1024;
/// After which a client that found no room may try again.
const WAIT: Duration = Duration::from_secs(5);

/// An episode under way, or just over.
pub(super) struct Episode {
    /// How far it has come.
    pub play: Play,
    /// What was answered to steps with a key, by the key.
    pub answers: HashMap<String, Answer>,
}

/// An answer that is given again when it is asked for again.
#[derive(Clone)]
pub(super) struct Answer {
    /// Hash of what was asked.
    pub asked: blake3::Hash,
    pub body: Arc<str>,
}

/// An episode, one step at a time.
pub(super) type Seat = Arc<tokio::sync::Mutex<Episode>>;

/// All of them.
pub(super) struct Episodes {
    capacity: usize,
    memory: usize,
    idle: Duration,
    clock: Clock,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<String, Entry>,
    /// Those that are over, the first one first; some may be gone already.
    over: VecDeque<String>,
    live: usize,
    bytes: usize,
}

struct Entry {
    seat: Seat,
    used: Instant,
    bytes: usize,
    over: bool,
}

impl Episodes {
    pub fn new(capacity: usize, memory: usize, idle: Duration, clock: Clock) -> Self {
        Self { capacity, memory, idle, clock, table: Mutex::default() }
    }

    /// How long an episode is kept that nobody asks for.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Episodes under way, and how many may be.
    pub fn places(&self) -> (usize, usize) {
        let mut table = self.lock();
        self.forget(&mut table);
        (table.live, self.capacity)
    }

    /// Takes new episodes, all or none, and gives each an id that nobody can guess.
    ///
    /// # Errors
    /// Overloaded where there is no room.
    pub fn open(&self, plays: Vec<Play>) -> Result<Vec<String>, Fault> {
        let named = plays.into_iter().map(|play| (format!("{:032x}", rand::random::<u128>()), play));
        self.open_named(named.collect())
    }

    /// The same with ids that clients chose. An episode that is there already under such an id makes room for the new one.
    ///
    /// # Errors
    /// Overloaded where there is no room.
    pub fn open_named(&self, plays: Vec<(String, Play)>) -> Result<Vec<String>, Fault> {
        if plays.len() > self.capacity {
            let message = format!("items: expected at most {}, all episodes there may be", self.capacity);
            return Err(Fault::invalid(format!("{message}; found {}", plays.len())));
        }
        let mut table = self.lock();
        if table.live + plays.len() > self.capacity {
            self.forget(&mut table);
        }
        for (id, _) in &plays {
            table.remove(id);
        }
        if table.live + plays.len() > self.capacity {
            let (live, capacity) = (table.live, self.capacity);
            let message = format!("{live} of {capacity} episodes are under way, {} more do not fit", plays.len());
            return Err(Fault::overloaded(format!("{message}; end some, or ask again later"), WAIT));
        }
        let sizes: Vec<usize> = plays.iter().map(|(_, play)| play.bytes().saturating_add(OVERHEAD)).collect();
        self.make_room(&mut table, sizes.iter().sum())?;
        let used = (self.clock)();
        let mut ids = Vec::with_capacity(plays.len());
        for ((id, play), bytes) in plays.into_iter().zip(sizes) {
            let seat = Arc::new(tokio::sync::Mutex::new(Episode { play, answers: HashMap::new() }));
            table.live += 1;
            table.bytes += bytes;
            table.entries.insert(id.clone(), Entry { seat, used, bytes, over: false });
            ids.push(id);
        }
        Ok(ids)
    }

    /// The episode of an id.
    ///
    /// # Errors
    /// Not found where there is none, or none any more.
    pub fn get(&self, id: &str) -> Result<Seat, Fault> {
        let mut table = self.lock();
        let now = (self.clock)();
        if table.entries.get(id).is_some_and(|entry| self.is_forgotten(entry, now)) {
            table.remove(id);
        }
        let entry = table.entries.get_mut(id).ok_or_else(|| {
            let message = format!("episode_id: no episode `{}`; it was never begun, was closed, or", id.escape_debug());
            Fault::new(Code::NotFound, format!("{message} nobody asked for it within {:?}", self.idle))
        })?;
        entry.used = now;
        Ok(Arc::clone(&entry.seat))
    }

    /// Whether there is an episode of this id that goes on.
    pub fn is_live(&self, id: &str) -> bool {
        let now = (self.clock)();
        self.lock().entries.get(id).is_some_and(|entry| !entry.over && !self.is_forgotten(entry, now))
    }

    /// Notes that an episode, which was asked for and may be gone meanwhile, is to have this size, and whether it is over.
    ///
    /// # Errors
    /// Overloaded where that is too much; then nothing has changed.
    pub fn settle(&self, id: &str, bytes: usize, over: bool) -> Result<(), Fault> {
        let bytes = bytes.saturating_add(OVERHEAD);
        let mut table = self.lock();
        let Some(before) = table.entries.get(id).map(|entry| entry.bytes) else { return Ok(()) };
        self.make_room(&mut table, bytes.saturating_sub(before))?;
        let now = (self.clock)();
        let Some(entry) = table.entries.get_mut(id) else { return Ok(()) };
        let ends = over && !entry.over;
        (entry.used, entry.bytes, entry.over) = (now, bytes, over);
        table.bytes = (table.bytes + bytes).saturating_sub(before);
        if ends {
            table.live -= 1;
            table.over.push_back(id.to_owned());
            // What is over is kept for those who ask twice, not for ever.
            while table.over.len() > self.capacity {
                table.drop_oldest();
            }
        }
        Ok(())
    }

    /// Forgets an episode; whether it was there.
    pub fn close(&self, id: &str) -> bool {
        self.lock().remove(id)
    }

    fn make_room(&self, table: &mut Table, bytes: usize) -> Result<(), Fault> {
        if table.bytes.saturating_add(bytes) > self.memory {
            self.forget(table);
        }
        while table.bytes.saturating_add(bytes) > self.memory {
            if !table.drop_oldest() {
                let message = format!("the episodes under way take {} of {} bytes", table.bytes, self.memory);
                return Err(Fault::overloaded(format!("{message}; end some, or ask again later"), WAIT));
            }
        }
        Ok(())
    }

    /// Forgets all that nobody has asked for.
    fn forget(&self, table: &mut Table) {
        let now = (self.clock)();
        let forgotten = table.entries.iter().filter(|(_, entry)| self.is_forgotten(entry, now));
        let forgotten: Vec<String> = forgotten.map(|(id, _)| id.clone()).collect();
        for id in forgotten {
            table.remove(&id);
        }
    }

    /// Whoever waits for an episode's answer holds it.
    fn is_forgotten(&self, entry: &Entry, now: Instant) -> bool {
        now.saturating_duration_since(entry.used) > self.idle && Arc::strong_count(&entry.seat) == 1
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: &str) -> bool {
        let Some(entry) = self.entries.remove(id) else { return false };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        if !entry.over {
            self.live -= 1;
        }
        true
    }

    /// Drops the first of those that are over; whether there was one to drop.
    fn drop_oldest(&mut self) -> bool {
        let Some(id) = self.over.pop_front() else { return false };
        // An episode of a chosen id may have begun anew.
        if self.entries.get(&id).is_some_and(|entry| entry.over) {
            self.remove(&id);
        }
        true
    }
}
