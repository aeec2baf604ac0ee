//! A disk in memory that forgets, at a power cut, whatever was not synced.
//!
//! It is stricter than real disks: of the unsynced changes to a folder any subset may survive, in any combination with
//! those of other folders, and of an unsynced file any mixture of old bytes, new bytes and zeros.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard};

use hindsearch_indexes::storage::{Entry, EntryKind, Held, LockKind, Stat, Storage};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Id = usize;
type Names = BTreeMap<OsString, Id>;

#[derive(Debug, Clone)]
enum Node {
    File { now: Vec<u8>, durable: Vec<u8>, dirty: bool, writable: bool },
    Folder { now: Names, durable: Names, pending: Vec<Change> },
}

#[derive(Debug, Clone)]
enum Change {
    Set(OsString, Id),
    Unset(OsString),
    Move { from: OsString, to: OsString, id: Id },
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Set(name, id) => {
                names.insert(name.clone(), *id);
            }
            Self::Unset(name) => {
                names.remove(name);
            }
            Self::Move { from, to, id } => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
        }
    }
}

#[derive(Debug, Clone)]
struct State {
    nodes: Vec<Node>,
    syncs: usize,
    ignored: Option<usize>,
    no_links: bool,
}

/// Shared holders of a lock, or `None` for an exclusive one.
type Locks = Arc<Mutex<HashMap<Id, Option<usize>>>>;

/// What survives a power cut.
#[derive(Debug, Clone, Copy)]
pub enum Loss {
    /// Only what was synced.
    All,
    /// Also a part of the rest, drawn from this seed.
    Some(u64),
}

#[derive(Debug)]
pub struct Volatile {
    state: Mutex<State>,
    locks: Locks,
}

fn error<T>(kind: ErrorKind) -> io::Result<T> {
    Err(kind.into())
}

impl Volatile {
    /// A disk with an empty, durable folder `/disk`.
    pub fn new() -> Self {
        let empty = || Node::Folder { now: Names::new(), durable: Names::new(), pending: Vec::new() };
        let names = Names::from([("disk".into(), 1)]);
        let top = Node::Folder { now: names.clone(), durable: names, pending: Vec::new() };
        Self::from(State { nodes: vec![top, empty()], syncs: 0, ignored: None, no_links: false })
    }

    fn from(state: State) -> Self {
        Self { state: Mutex::new(state), locks: Locks::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds this")
    }

    /// The same disk after all processes died: nothing is lost but their locks.
    pub fn kill(&self) -> Self {
        Self::from(self.state().clone())
    }

    /// The disk after a power cut.
    pub fn power_cut(&self, loss: Loss) -> Self {
        let mut state = self.state().clone();
        let mut draw = Draw(match loss {
            Loss::All => None,
            Loss::Some(seed) => Some(ChaCha8Rng::seed_from_u64(seed)),
        });
        for node in &mut state.nodes {
            match node {
                Node::File { now, durable, dirty, .. } => {
                    if std::mem::take(dirty) {
                        *durable = draw.bytes(durable, now);
                    }
                    now.clone_from(durable);
                }
                Node::Folder { now, durable, pending } => {
                    for change in pending.drain(..) {
                        if draw.survives() {
                            change.apply(durable);
                        }
                    }
                    now.clone_from(durable);
                }
            }
        }
        Self::from(state)
    }

    /// Syncs so far that had something to sync.
    pub fn syncs(&self) -> usize {
        self.state().syncs
    }

    /// Makes this a disk that knows no second names.
    pub fn refuse_links(&self) {
        self.state().no_links = true;
    }

    /// Whether anything may be written to a file.
    pub fn is_writable(&self, file: &Path) -> bool {
        let state = self.state();
        state.find(file).is_ok_and(|id| matches!(state.nodes[id], Node::File { writable: true, .. }))
    }

    /// Makes the disk ignore one such sync, counted from 1.
    pub fn ignore_sync(&self, number: Option<usize>) {
        self.state().ignored = number;
    }
}

/// Decides what survives.
struct Draw(Option<ChaCha8Rng>);

impl Draw {
    fn survives(&mut self) -> bool {
        self.0.as_mut().is_some_and(|rng| rng.random())
    }

    fn bytes(&mut self, old: &[u8], new: &[u8]) -> Vec<u8> {
        let Some(rng) = &mut self.0 else { return old.to_vec() };
        let cut = rng.random_range(0..=new.len());
        match rng.random_range(0..5) {
            0 => old.to_vec(),
            1 => new.to_vec(),
            2 => new[..cut].to_vec(),
            3 => [&new[..cut], &vec![0; new.len() - cut]].concat(),
            _ => [&new[..cut], old.get(cut..).unwrap_or_default()].concat(),
        }
    }
}

impl State {
    fn find(&self, path: &Path) -> io::Result<Id> {
        let mut id = 0;
        for part in path.components() {
            if let Component::Normal(name) = part {
                id = match &self.nodes[id] {
                    Node::Folder { now, .. } => *now.get(name).ok_or(ErrorKind::NotFound)?,
                    Node::File { .. } => return error(ErrorKind::NotADirectory),
                };
            }
        }
        Ok(id)
    }

    fn place<'a>(&self, path: &'a Path) -> io::Result<(Id, &'a OsStr)> {
        let (folder, name) = path.parent().zip(path.file_name()).ok_or(ErrorKind::InvalidInput)?;
        Ok((self.find(folder)?, name))
    }

    fn change(&mut self, folder: Id, change: Change) -> io::Result<()> {
        match &mut self.nodes[folder] {
            Node::Folder { now, pending, .. } => {
                change.apply(now);
                pending.push(change);
                Ok(())
            }
            Node::File { .. } => error(ErrorKind::NotADirectory),
        }
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        self.nodes.push(node);
        self.change(folder, Change::Set(name.into(), self.nodes.len() - 1))
    }

    fn is_full_folder(&self, id: Id) -> bool {
        matches!(&self.nodes[id], Node::Folder { now, .. } if !now.is_empty())
    }

    fn kind(&self, id: Id) -> EntryKind {
        match &self.nodes[id] {
            Node::File { .. } => EntryKind::File,
            Node::Folder { .. } => EntryKind::Folder,
        }
    }
}

impl Storage for Volatile {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.find(path).is_ok() {
            return error(ErrorKind::AlreadyExists);
        }
        state.create(path, Node::Folder { now: Names::new(), durable: Names::new(), pending: Vec::new() })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state();
        match &state.nodes[state.find(folder)?] {
            Node::Folder { now, .. } => {
                Ok(now.iter().map(|(name, &id)| Entry { name: name.clone(), kind: state.kind(id) }).collect())
            }
            Node::File { .. } => error(ErrorKind::NotADirectory),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let state = self.state();
        let id = state.find(path)?;
        let length = if let Node::File { now, .. } = &state.nodes[id] { now.len() as u64 } else { 0 };
        let names = |node: &Node| match node {
            Node::Folder { now, .. } => now.values().filter(|there| **there == id).count(),
            Node::File { .. } => 0,
        };
        let links = state.nodes.iter().map(names).sum::<usize>() as u64;
        Ok(Stat { kind: state.kind(id), length, links })
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn Read + Send>> {
        let state = self.state();
        match &state.nodes[state.find(file)?] {
            Node::File { now, .. } => Ok(Box::new(Cursor::new(now.clone()))),
            Node::Folder { .. } => error(ErrorKind::IsADirectory),
        }
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let Ok(id) = state.find(file) else {
            let (now, durable) = (bytes.to_vec(), Vec::new());
            return state.create(file, Node::File { now, durable, dirty: true, writable: true });
        };
        match &mut state.nodes[id] {
            Node::File { writable: false, .. } => error(ErrorKind::PermissionDenied),
            Node::File { now, dirty, .. } => {
                *now = bytes.to_vec();
                *dirty = true;
                Ok(())
            }
            Node::Folder { .. } => error(ErrorKind::IsADirectory),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let id = state.find(path)?;
        let needed = match &state.nodes[id] {
            Node::File { dirty, .. } => *dirty,
            Node::Folder { pending, .. } => !pending.is_empty(),
        };
        state.syncs += usize::from(needed);
        if state.ignored == Some(state.syncs) {
            return Ok(());
        }
        match &mut state.nodes[id] {
            Node::File { now, durable, dirty, .. } => {
                durable.clone_from(now);
                *dirty = false;
            }
            Node::Folder { now, durable, pending } => {
                durable.clone_from(now);
                pending.clear();
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let id = state.find(from)?;
        if state.find(to).is_ok_and(|there| state.kind(there) == EntryKind::Folder) {
            return error(ErrorKind::AlreadyExists);
        }
        let ((folder, from), (other, to)) = (state.place(from)?, state.place(to)?);
        assert_eq!(folder, other, "renames stay within a folder");
        state.change(folder, Change::Move { from: from.into(), to: to.into(), id })
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.no_links {
            return error(ErrorKind::Unsupported);
        }
        let id = state.find(file)?;
        if state.find(name).is_ok() {
            return error(ErrorKind::AlreadyExists);
        }
        let (folder, name) = state.place(name)?;
        state.change(folder, Change::Set(name.into(), id))
    }

    fn copy(&self, file: &Path, copy: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.open(file)?.read_to_end(&mut bytes)?;
        self.write(copy, &bytes)?;
        let writable = self.is_writable(file);
        self.set_writable(copy, writable)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let id = state.find(path)?;
        if state.is_full_folder(id) {
            return error(ErrorKind::DirectoryNotEmpty);
        }
        let (folder, name) = state.place(path)?;
        state.change(folder, Change::Unset(name.into()))
    }

    fn set_writable(&self, file: &Path, allowed: bool) -> io::Result<()> {
        let mut state = self.state();
        let id = state.find(file)?;
        if let Node::File { writable, .. } = &mut state.nodes[id] {
            *writable = allowed;
        }
        Ok(())
    }

    fn lock(&self, file: &Path, kind: LockKind) -> io::Result<Held> {
        let id = self.state().find(file)?;
        let mut locks = self.locks.lock().expect("no test panics while it holds this");
        let shared = match (locks.get(&id), kind) {
            (None, LockKind::Exclusive) => None,
            (None, LockKind::Shared) => Some(1),
            (Some(Some(holders)), LockKind::Shared) => Some(holders + 1),
            _ => return error(ErrorKind::WouldBlock),
        };
        locks.insert(id, shared);
        Ok(Held::new(Release(self.locks.clone(), id)))
    }
}

struct Release(Locks, Id);

impl Drop for Release {
    fn drop(&mut self) {
        if let Ok(mut locks) = self.0.lock() {
            match locks.get_mut(&self.1) {
                Some(Some(holders)) if *holders > 1 => *holders -= 1,
                _ => drop(locks.remove(&self.1)),
            }
        }
    }
}
