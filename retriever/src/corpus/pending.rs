//! A file that gets its name only when it is whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file being written as `NAME.tmp`; removed unless published.
///
/// The temporary name is fixed, so what a killed process leaves is overwritten by the next, and locked, so that two
/// processes never write the same file.
pub(super) struct PendingFile {
    target: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    published: bool,
}

impl PendingFile {
    pub fn create(target: &Path) -> Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        let options = OpenOptions::new().write(true).read(true).create(true).truncate(false).clone();
        let file = options.open(&temporary).map_err(Error::io("create", &temporary))?;
        match file.try_lock() {
            // The other process may have published in between: then this is its file.
            Ok(()) if temporary.exists() => {}
            Ok(()) | Err(TryLockError::WouldBlock) => {
                return Err(hindsearch_indexes::Error::Locked { path: temporary }.into());
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &temporary)(error)),
        }
        file.set_len(0).map_err(Error::io("write", &temporary))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { target: target.to_path_buf(), temporary, file, published: false })
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where the bytes are until [`Self::publish`].
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Puts all bytes on the disk.
    pub fn sync(&mut self) -> Result<()> {
        self.file.flush().map_err(Error::io("write", &self.target))?;
        self.file.get_ref().sync_all().map_err(Error::io("sync", &self.target))
    }

    /// Gives the file its name, durably.
    pub fn publish(mut self) -> Result<()> {
        self.sync()?;
        fs::rename(&self.temporary, &self.target).map_err(Error::io("rename", &self.temporary))?;
        self.published = true;
        let folder = match self.target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for PendingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.published {
            // Nothing to be done about a failure here: the next writer overwrites what is left.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
