//! Which version of the index do readers see, and when does an old one go?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layout::{CURRENT, Numbers, STATE, generation_name, read_current};
use crate::manifest::{MANIFEST, Manifest};
use crate::storage::{Disk, EntryKind, Files, Held, Lock, LockKind, Storage};
use crate::verify::Check;
use crate::{Depth, Error, FolderLock, Interrupt, OnProgress, Report, Result};

/// One published, immutable version of an index. While it lives, [`collect`] leaves its files alone.
#[derive(Debug)]
pub struct Generation {
    files: Files,
    path: PathBuf,
    number: u64,
    manifest: Manifest,
    _in_use: Held,
}

impl Generation {
    /// Opens the current generation of the index in `root`. The manifest's checksum and the lengths of all files are
    /// checked; call [`verify`](Self::verify) with [`Depth::Structure`] before the graph is used.
    ///
    /// # Errors
    /// [`Error::NotFound`] when `root` holds no published index, [`Error::Corrupt`] for a damaged manifest, `CURRENT`
    /// or length, [`Error::Incompatible`] for another format version.
    pub fn open_current(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_current_on(Arc::new(Disk), root.as_ref())
    }

    /// [`open_current`](Self::open_current) on another storage.
    ///
    /// # Errors
    /// As [`open_current`](Self::open_current).
    pub fn open_current_on(storage: Arc<dyn Storage>, root: &Path) -> Result<Self> {
        let files = Files::new(storage);
        let mut missed = None;
        loop {
            let number = current(&files, root)?;
            if let Some(generation) = Self::open(files.clone(), root, number)? {
                return Ok(generation);
            }
            // It may have been replaced and collected since `CURRENT` was read, but not twice the same.
            if missed.replace(number) == Some(number) {
                return Err(Error::Corrupt {
                    path: root.join(generation_name(number)),
                    expected: "the generation that `CURRENT` names".into(),
                    found: "no `manifest.json` there".into(),
                });
            }
        }
    }

    /// `None` when the generation is not there, or going.
    pub(crate) fn open(files: Files, root: &Path, number: u64) -> Result<Option<Self>> {
        let path = root.join(generation_name(number));
        let Lock::Held(in_use) = files.lock(&path.join(MANIFEST), LockKind::Shared)? else { return Ok(None) };
        // The lock may be on a file that was removed a moment before; then the name is gone.
        let Some(manifest) = Manifest::read(&files, &path)? else { return Ok(None) };
        Check { files: &files, folder: &path, manifest: &manifest }.lengths()?;
        Ok(Some(Self { files, path, number, manifest, _in_use: in_use }))
    }

    /// The folder with the files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number, one higher with each publication.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What the generation holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Compares the bytes with the manifest. Progress is in bytes hashed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] as for [`verify`](crate::verify()), [`Error::Interrupted`] on request.
    pub fn verify(&self, depth: Depth, on_progress: OnProgress, interrupt: &Interrupt) -> Result<Report> {
        Check { files: &self.files, folder: &self.path, manifest: &self.manifest }.run(depth, on_progress, interrupt)
    }
}

/// Removes generations that are neither current, nor among the `keep` newest before it, nor open in any process.
/// Gives the numbers removed.
///
/// # Errors
/// [`Error::Locked`] while a build runs, [`Error::NotFound`] when `root` holds no published index, [`Error::Io`].
pub fn collect(root: impl AsRef<Path>, keep: usize) -> Result<Vec<u64>> {
    collect_on(Arc::new(Disk), root.as_ref(), keep)
}

/// [`collect`] on another storage.
///
/// # Errors
/// As [`collect`].
pub fn collect_on(storage: Arc<dyn Storage>, root: &Path, keep: usize) -> Result<Vec<u64>> {
    let files = Files::new(storage.clone());
    // Asked before the lock as well, which would make the folder.
    current(&files, root)?;
    let _lock = FolderLock::acquire_on(storage, root)?;
    let current = current(&files, root)?;
    // Whoever published it may have died before the last sync; a power cut would then call for the one before.
    files.sync(root)?;
    let numbers = Numbers::read(&files, root)?.generations;
    let (older, newer): (Vec<u64>, Vec<u64>) =
        numbers.into_iter().filter(|&number| number != current).partition(|&number| number < current);
    let mut removed = Vec::new();
    for number in older.iter().rev().skip(keep).rev().copied().chain(newer) {
        let path = root.join(generation_name(number));
        // One that was renamed but never made current; the build that left its state there will take it up again.
        if number > current && files.stat(&path.join(STATE))?.is_some() {
            continue;
        }
        let _unused = match files.lock(&path.join(MANIFEST), LockKind::Exclusive)? {
            Lock::Busy => continue,
            lock => lock,
        };
        files.remove(&path.join(MANIFEST))?;
        files.clear(&path)?;
        files.remove(&path)?;
        removed.push(number);
    }
    Ok(removed)
}

/// The current number, or why there is none.
fn current(files: &Files, root: &Path) -> Result<u64> {
    let found = match files.stat(root)? {
        None => "nothing there".into(),
        Some(stat) if stat.kind != EntryKind::Folder => "a file".into(),
        Some(_) => match read_current(files, root)? {
            Some(number) => return Ok(number),
            None if !Numbers::read(files, root)?.stagings.is_empty() => {
                "a build that has not finished (the same build command resumes it)".into()
            }
            None => format!("a folder without `{CURRENT}`"),
        },
    };
    Err(Error::NotFound { path: root.to_path_buf(), found })
}
