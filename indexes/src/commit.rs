//! How does an index become visible at once, whole and durable, or not at all?
//!
//! A build holds the [`FolderLock`], fills a [`Staging`] folder, and publishes it. The order of the steps below is the
//! order of `FORMAT.md`, section Publication; the durability tests prove that none of the syncs can go.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layout::{
    CURRENT, LOCK, Numbers, STATE, TEMPORARY, current_line, generation_name, read_current, staging_name,
};
use crate::manifest::{MANIFEST, rfc3339};
use crate::storage::{Disk, EntryKind, Files, Held, Lock, LockKind, Storage, parent};
use crate::verify::Pass;
use crate::{Error, FileEntry, Generation, Interrupt, Manifest, OnProgress, Result, sealed};

/// The right to write in a folder, an index or a training run: one holder at a time, released when dropped or when the
/// process dies.
#[derive(Debug)]
pub struct FolderLock {
    files: Files,
    root: PathBuf,
    _held: Held,
}

impl FolderLock {
    /// Locks the folder `root`, making it and its parents if needed. Never waits.
    ///
    /// # Errors
    /// [`Error::Locked`] when another holder has it, [`Error::InvalidInput`] when `root` or one of its parents is a
    /// file, [`Error::Io`] when the place cannot be written to.
    pub fn acquire(root: impl AsRef<Path>) -> Result<Self> {
        Self::acquire_on(Arc::new(Disk), root.as_ref())
    }

    /// [`acquire`](Self::acquire) on another storage.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_on(storage: Arc<dyn Storage>, root: &Path) -> Result<Self> {
        let files = Files::new(storage);
        make_folder(&files, root)?;
        files.sync_if_allowed(parent(root))?;
        let path = root.join(LOCK);
        if files.stat(&path)?.is_none() {
            files.write(&path, b"")?;
        }
        match files.lock(&path, LockKind::Exclusive)? {
            Lock::Held(held) => Ok(Self { files, root: root.to_path_buf(), _held: held }),
            Lock::Busy => Err(Error::Locked { path }),
            Lock::NoFile => Err(Error::io("lock", path)(io::ErrorKind::NotFound.into())),
        }
    }
}

/// Makes `path` and its parents. The caller syncs the parent of `path` even if all was there: whoever made it may have
/// died before that.
fn make_folder(files: &Files, path: &Path) -> Result<()> {
    match files.stat(path)? {
        Some(stat) if stat.kind == EntryKind::Folder => Ok(()),
        Some(_) => Err(Error::InvalidInput {
            what: format!("output folder `{}`", path.display()),
            expected: "a folder, or a path where nothing is yet".into(),
            found: "a file".into(),
        }),
        None => {
            let above = parent(path);
            if above != path {
                make_folder(files, above)?;
                files.sync_if_allowed(parent(above))?;
            }
            files.create_folder(path)
        }
    }
}

/// A generation being built. It survives the death of the process: the next build takes it up where the last
/// [`write_state`](Self::write_state) left it.
#[derive(Debug)]
pub struct Staging {
    lock: FolderLock,
    number: u64,
    path: PathBuf,
    /// The files taken over from a published generation, as its manifest knows them.
    carried: Vec<FileEntry>,
}

/// The contents of the state file.
#[derive(Serialize, Deserialize)]
struct Saved {
    state: Value,
}

impl Staging {
    /// Takes up the unfinished build in the index folder if its state can be read, and starts an empty one otherwise.
    /// Removes what earlier builds left behind.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create_or_resume(lock: FolderLock) -> Result<Self> {
        let (files, root) = (&lock.files, &lock.root);
        files.remove(&root.join(CURRENT.to_string() + TEMPORARY))?;
        // A damaged `CURRENT` is mended by publishing.
        let current = match read_current(files, root) {
            Err(Error::Corrupt { .. }) => None,
            current => current?,
        };
        let mut numbers = Numbers::read(files, root)?;
        if let Some(number) = current {
            let state = root.join(generation_name(number)).join(STATE);
            if files.stat(&state)?.is_some() {
                // The last build died near its end, and `CURRENT` may not be durable yet; until it is, this is needed.
                files.sync(root)?;
                files.remove(&state)?;
            }
        }
        // The state is removed last in a publication: a newer generation that has one never became current.
        if let Some(last) = numbers.generations.last().copied()
            && current.is_none_or(|current| last > current)
            && !numbers.stagings.contains(&last)
            && files.stat(&root.join(generation_name(last)).join(STATE))?.is_some()
        {
            files.rename(&root.join(generation_name(last)), &root.join(staging_name(last)))?;
            numbers.generations.pop();
            numbers.stagings.push(last);
        }
        let next = numbers.generations.last().map_or(1, |last| last + 1);
        let number = numbers.stagings.iter().copied().filter(|&staging| staging >= next).max().unwrap_or(next);
        for stale in numbers.stagings.iter().copied().filter(|&staging| staging != number) {
            let path = root.join(staging_name(stale));
            empty(files, &path)?;
            files.remove(&path)?;
        }
        let path = root.join(staging_name(number));
        files.create_folder(&path)?;
        files.sync(root)?;
        let mut staging = Self { lock, number, path, carried: Vec::new() };
        staging.prepare()?;
        Ok(staging)
    }

    /// Brings the folder to where a build can go on.
    fn prepare(&mut self) -> Result<()> {
        if self.read_state()?.is_none() {
            return self.restart();
        }
        let files = self.files();
        files.remove(&self.path.join(MANIFEST))?;
        files.remove(&self.path.join(STATE.to_string() + TEMPORARY))?;
        for (name, kind) in files.list(&self.path)? {
            let path = self.path.join(name);
            // A file with a second name is one of a published generation, which nobody may ever write to.
            if kind == EntryKind::File && files.stat(&path)?.is_some_and(|stat| stat.links == 1) {
                files.set_writable(&path, true)?;
            }
        }
        Ok(())
    }

    /// Takes over those files of a published `generation` that `wanted` picks by name: by links, or copies where the
    /// file system has none. Publishing gives them the hashes that they were published with. What an earlier call has
    /// taken over is not taken again, so that a build which goes on calls this again.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn carry(&mut self, generation: &Generation, wanted: impl Fn(&str) -> bool) -> Result<()> {
        for entry in generation.manifest().files.iter().filter(|entry| wanted(&entry.name)) {
            let path = self.path.join(&entry.name);
            if self.files().stat(&path)?.is_none_or(|stat| stat.length != entry.length) {
                self.files().remove(&path)?;
                self.files().link_or_copy(&generation.path().join(&entry.name), &path)?;
            }
            self.carried.retain(|carried| carried.name != entry.name);
            self.carried.push(entry.clone());
        }
        Ok(())
    }

    fn files(&self) -> &Files {
        &self.lock.files
    }

    /// The folder to write files into, directly and not in subfolders.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number that the generation will have.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The state last written; `None` for a build that starts afresh.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read_state(&self) -> Result<Option<Value>> {
        let path = self.path.join(STATE);
        let Some((bytes, _)) = self.files().read(&path, u64::MAX - 1)? else { return Ok(None) };
        // Unreadable is as good as absent: the work is done again.
        let body = sealed::unseal(&path, &bytes);
        Ok(body.and_then(|body| sealed::parse::<Saved>(&path, &body, "a state")).ok().map(|saved| saved.state))
    }

    /// Makes the files in the folder durable as they are now, then the state that speaks of them. A writer with a
    /// buffer of its own flushes first.
    ///
    /// # Errors
    /// [`Error::Io`]; the state written before is then still in force.
    pub fn write_state(&self, state: &Value) -> Result<()> {
        let path = self.path.join(STATE);
        let bytes = sealed::seal(&Saved { state: state.clone() }).map_err(|e| Error::io("write", &path)(e.into()))?;
        for (name, kind) in self.files().list(&self.path)? {
            let carried = self.carried.iter().any(|entry| entry.name == name);
            if kind == EntryKind::File && !name.starts_with(STATE) && !carried {
                self.files().sync(&self.path.join(name))?;
            }
        }
        // Their names too, before the name of the state.
        self.files().sync(&self.path)?;
        self.files().replace(&path, &bytes)
    }

    /// Empties the folder: for a state that does not fit what is to be built.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn restart(&mut self) -> Result<()> {
        self.carried.clear();
        empty(self.files(), &self.path)
    }

    /// Publishes the folder as the next generation, and makes it current: readers see the old one before and the new
    /// one after, whatever happens between. Fills in the manifest's `created` and `files`. Progress is in bytes.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when a file that the kind needs is missing, something is there that cannot be
    /// published, or the manifest contradicts itself; [`Error::Io`]; [`Error::Interrupted`]. The old generation is
    /// then still current, unless only the last sync failed, and the next build takes the folder up again.
    pub fn publish(self, mut manifest: Manifest, on_progress: OnProgress, interrupt: &Interrupt) -> Result<Generation> {
        let (files, root) = (self.files().clone(), &self.lock.root);
        manifest.check_claims().map_err(|(expected, found)| Error::InvalidInput {
            what: "the manifest to publish".into(),
            expected,
            found,
        })?;
        manifest.files = self.seal_files(&manifest, on_progress, interrupt)?;
        manifest.created = rfc3339(SystemTime::now());
        self.seal_file(MANIFEST, |path| files.write(path, &manifest.to_bytes()?))?;
        files.sync(&self.path)?;

        let published = root.join(generation_name(self.number));
        files.rename(&self.path, &published)?;
        files.sync(root)?;
        files.replace(&root.join(CURRENT), &current_line(self.number))?;
        // Published. What is left of the build is swept now or by the next build.
        let _ = files.remove(&published.join(STATE));

        Generation::open(files, root, self.number)?.ok_or_else(|| Error::Corrupt {
            path: published,
            expected: "the generation just published".into(),
            found: "no `manifest.json` there".into(),
        })
    }

    /// Makes all files durable and read-only, and hashes those that no published generation has.
    fn seal_files(
        &self,
        manifest: &Manifest,
        on_progress: OnProgress,
        interrupt: &Interrupt,
    ) -> Result<Vec<FileEntry>> {
        let names = self.publishable(manifest)?;
        let carried = |name: &str| self.carried.iter().find(|entry| entry.name == name);
        let mut total = 0_u64;
        for name in names.iter().filter(|name| carried(name).is_none()) {
            total = total.saturating_add(self.files().stat(&self.path.join(name))?.map_or(0, |stat| stat.length));
        }
        let mut pass = Pass { files: self.files(), done: 0, total, on_progress, interrupt };
        let mut entries = Vec::new();
        for name in names {
            entries.push(match carried(&name) {
                // A link is read-only and durable already; a copy need not be.
                Some(entry) => self.seal_file(&name, |_| Ok(entry.clone()))?,
                None => self.seal_file(&name, |path| pass.digest(path, &name))?,
            });
        }
        Ok(entries)
    }

    fn seal_file<T>(&self, name: &str, act: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let path = self.path.join(name);
        let result = act(&path)?;
        self.files().set_writable(&path, false)?;
        self.files().sync(&path)?;
        Ok(result)
    }

    /// The names of the files to publish, all that the kind needs among them.
    fn publishable(&self, manifest: &Manifest) -> Result<Vec<String>> {
        let refuse = |expected: String, found: String| {
            Err(Error::InvalidInput { what: format!("`{}`", self.path.display()), expected, found })
        };
        let mut names = Vec::new();
        for (name, kind) in self.files().list(&self.path)? {
            if name == STATE {
                continue;
            }
            if kind != EntryKind::File || name.ends_with(TEMPORARY) {
                return refuse("finished files only".into(), format!("`{}`", name.escape_debug()));
            }
            names.push(name);
        }
        if let Some(missing) = manifest.needed_files().find(|needed| !names.contains(needed)) {
            return refuse(format!("a file `{missing}`"), format!("{names:?}"));
        }
        match names.iter().find(|name| !manifest.has_place_for(name)) {
            Some(other) => refuse(format!("files of {} shards", manifest.shards().len()), format!("`{other}`")),
            None => Ok(names),
        }
    }
}

/// Empties a staging folder. The state goes first and durably, for it must not come back, after a power cut, to
/// speak of files that have gone or of files of a later build.
fn empty(files: &Files, folder: &Path) -> Result<()> {
    let state = folder.join(STATE);
    if files.stat(&state)?.is_some() {
        files.remove(&state)?;
        files.sync(folder)?;
    }
    files.clear(folder)
}
