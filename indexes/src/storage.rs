//! Which file operations does publishing need?
//!
//! Few, and all of them go through [`Storage`], so that the durability tests can put a disk under them that forgets
//! whatever was not synced, fails at a chosen call, or stops dead. Programs use [`Disk`]. [`Files`] adds names to the
//! errors and the steps that more than one caller needs; the trainer's checkpoints are written with it too.

use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::{Error, Result};

/// A file system, as far as publishing an index needs one.
///
/// Nothing is durable before `sync`: bytes of a file need `sync` of the file, and its name (a creation, a rename, a
/// removal) needs `sync` of the folder that holds the name.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Makes one folder; its parent exists.
    ///
    /// # Errors
    /// The system's, `AlreadyExists` among them.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// The entries of a folder, in no particular order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>>;

    /// What is at `path`, links followed.
    ///
    /// # Errors
    /// `NotFound` when there is nothing.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Opens a file for reading from its start.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, file: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Makes a file with these bytes, or replaces the bytes of an existing one.
    ///
    /// # Errors
    /// The system's; the file may then hold a part of the bytes.
    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file's bytes, or a folder's names, durable.
    ///
    /// # Errors
    /// The system's. What was unsynced may be lost then, and a second call proves nothing: never retry.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Renames a file, or a folder onto a free name, within its folder, at once for all readers.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, in another folder of the same file system.
    ///
    /// # Errors
    /// The system's: `CrossesDevices`, `Unsupported` and others where there are no such links.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;

    /// Copies a file, its permissions too, or replaces the bytes of an existing one.
    ///
    /// # Errors
    /// The system's; the copy may then hold a part of the bytes.
    fn copy(&self, file: &Path, copy: &Path) -> io::Result<()>;

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Allows (for the owner) or forbids (for all) writing to a file.
    ///
    /// # Errors
    /// The system's.
    fn set_writable(&self, file: &Path, writable: bool) -> io::Result<()>;

    /// Takes an advisory lock on an existing file, without waiting. It ends with the guard or the process.
    ///
    /// # Errors
    /// `WouldBlock` when another holder is in the way.
    fn lock(&self, file: &Path, kind: LockKind) -> io::Result<Held>;
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What the name stands for; links are not followed.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a device, a socket.
    Other,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: EntryKind,
    /// Bytes of a file.
    pub length: u64,
    /// Names of a file, in all folders.
    pub links: u64,
}

/// Who may hold a lock beside this holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Other shared holders.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A lock, held until dropped.
pub struct Held(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl Held {
    /// Wraps whatever releases the lock when dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// The file system of this machine. Locks are `flock`s: the kernel releases them when a process dies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let kind = entry_kind(entry.file_type()?);
            Ok(Entry { name: entry.file_name(), kind })
        };
        fs::read_dir(folder)?.map(entry).collect()
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let metadata: Metadata = fs::metadata(path)?;
        Ok(Stat { kind: entry_kind(metadata.file_type()), length: metadata.len(), links: metadata.nlink() })
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(file)?))
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(file, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        match file.sync_all() {
            // Some network file systems know no syncing of folders; names are durable there when the call returns.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput && file.metadata()?.is_dir() => Ok(()),
            synced => synced,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn copy(&self, file: &Path, copy: &Path) -> io::Result<()> {
        fs::copy(file, copy).map(drop)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }
    }

    fn set_writable(&self, file: &Path, writable: bool) -> io::Result<()> {
        let mut permissions = fs::metadata(file)?.permissions();
        let mode = permissions.mode();
        permissions.set_mode(if writable { mode | 0o200 } else { mode & !0o222 });
        fs::set_permissions(file, permissions)
    }

    fn lock(&self, file: &Path, kind: LockKind) -> io::Result<Held> {
        let file = File::open(file)?;
        match kind {
            LockKind::Shared => file.try_lock_shared()?,
            LockKind::Exclusive => file.try_lock()?,
        }
        Ok(Held::new(file))
    }
}

fn entry_kind(kind: fs::FileType) -> EntryKind {
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Folder
    } else {
        EntryKind::Other
    }
}

/// A storage whose errors name the path and the attempt. All of them are [`Error::Io`].
#[derive(Debug, Clone)]
pub struct Files(Arc<dyn Storage>);

impl Files {
    /// Names the errors of `storage`.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self(storage)
    }

    /// Makes one folder, or finds it there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create_folder(&self, path: &Path) -> Result<()> {
        match self.0.create_folder(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created.map_err(Error::io("create the folder", path)),
        }
    }

    /// The names in a folder that are valid text; the index gives no other names to its files.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self, folder: &Path) -> Result<Vec<(String, EntryKind)>> {
        let entries = self.0.list(folder).map_err(Error::io("list", folder))?;
        let mut named: Vec<_> =
            entries.into_iter().filter_map(|e| Some((e.name.into_string().ok()?, e.kind))).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(named)
    }

    /// `None` when there is nothing at `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        match self.0.stat(path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            stat => stat.map(Some).map_err(Error::io("look at", path)),
        }
    }

    /// Opens a file for reading from its start.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(&self, file: &Path) -> Result<Box<dyn Read + Send>> {
        self.0.open(file).map_err(Error::io("open", file))
    }

    /// At most `limit` bytes of a file and whether that is all; `None` when there is no file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self, file: &Path, limit: u64) -> Result<Option<(Vec<u8>, bool)>> {
        let reader = match self.0.open(file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open", file))?,
        };
        let mut bytes = Vec::new();
        reader.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", file))?;
        let whole = bytes.len() as u64 <= limit;
        Ok(Some((bytes, whole)))
    }

    /// Makes a file with these bytes, or replaces its bytes; it may hold a part of them after an error.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        self.0.write(file, bytes).map_err(Error::io("write", file))
    }

    /// Makes a file's bytes, or a folder's names, durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self, path: &Path) -> Result<()> {
        self.0.sync(path).map_err(Error::io("sync", path))
    }

    /// Syncs a folder unless this user may not open it; then no build of this user has made names in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync_if_allowed(&self, folder: &Path) -> Result<()> {
        match self.0.sync(folder) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced.map_err(Error::io("sync", folder)),
        }
    }

    /// Renames within a folder; a folder only onto a free name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to).map_err(Error::io("rename", from))
    }

    /// Gives a finished file a second name in another folder, or makes a copy there where the file system links no
    /// files: on another device, without links, or with all of them in use. Either is whole under `name` or not there.
    /// The name is durable once its folder is synced.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn link_or_copy(&self, file: &Path, name: &Path) -> Result<()> {
        use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
        match self.0.link(file, name) {
            Err(e) if matches!(e.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported) => {}
            linked => return linked.map_err(Error::io("link", name)),
        }
        let temporary = with_suffix(name, ".tmp");
        // What is left of an earlier copy is read-only as the file is.
        self.remove(&temporary)?;
        self.0.copy(file, &temporary).map_err(Error::io("write", &temporary))?;
        self.sync(&temporary)?;
        self.rename(&temporary, name)
    }

    /// Writes a file that is whole under its final name or not there. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn replace(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        let temporary = with_suffix(file, ".tmp");
        self.write(&temporary, bytes)?;
        self.sync(&temporary)?;
        self.rename(&temporary, file)?;
        self.sync(parent(file))
    }

    /// Removes a file or an empty folder, if there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, path: &Path) -> Result<()> {
        match self.0.remove(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io("remove", path)),
        }
    }

    /// Removes all that is in a folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clear(&self, folder: &Path) -> Result<()> {
        for entry in self.0.list(folder).map_err(Error::io("list", folder))? {
            let path = folder.join(entry.name);
            if entry.kind == EntryKind::Folder {
                self.clear(&path)?;
            }
            self.remove(&path)?;
        }
        Ok(())
    }

    /// Allows or forbids writing to a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_writable(&self, file: &Path, writable: bool) -> Result<()> {
        self.0.set_writable(file, writable).map_err(Error::io("change the permissions of", file))
    }

    pub(crate) fn lock(&self, file: &Path, kind: LockKind) -> Result<Lock> {
        match self.0.lock(file, kind) {
            Ok(held) => Ok(Lock::Held(held)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Lock::Busy),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Lock::NoFile),
            Err(e) => Err(Error::io("lock", file)(e)),
        }
    }
}

/// The outcome of asking for a lock.
#[derive(Debug)]
pub(crate) enum Lock {
    Held(Held),
    Busy,
    NoFile,
}

/// The folder that holds the name of `path`.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    }
}

/// `path` with `suffix` at the end of its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}
