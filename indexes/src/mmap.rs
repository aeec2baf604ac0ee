//! Read-only memory maps, and what processor and kernel are told about them; one of the few places with unsafe code.
//!
//! A mapped file that is truncated by another process ends this one with SIGBUS. The index format makes that
//! impossible short of sabotage: published files are read-only and replaced by rename, never written in place.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap};

use crate::{Error, Result};

/// How a mapped file will be read; the default read-ahead costs milliseconds for each cold page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Front to back: read ahead.
    Sequential,
    /// Single rows here and there: read only what is touched.
    Random,
}

/// Bytes of the largest file that is not large. Unit tests read files of any size past the map.
const LARGE: usize = if cfg!(test) { 0 } else { 1 << 30 };

/// A file mapped read-only, with its path for messages.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    map: Mmap,
    /// Of a large file, to read it past the map; the others would use up the descriptors of a process for nothing.
    file: Option<File>,
}

impl MappedFile {
    /// Maps all of `path`. An empty file gives an empty slice.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be opened or mapped.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        Self::of(File::open(path).map_err(Error::io("open", path))?, path, access)
    }

    /// Maps all of an open file; `path` is for messages.
    pub(crate) fn of(file: File, path: &Path, access: Access) -> Result<Self> {
        // SAFETY: the mapping is private and read-only. Nothing in this workspace writes to a published file, and
        // the length is taken from the mapping itself, so no slice outlives or exceeds it.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        let file = (map.len() > LARGE).then_some(file);
        let mapped = Self { path: path.to_path_buf(), map, file };
        mapped.advise(access)?;
        Ok(mapped)
    }

    /// Tells the kernel how the bytes will be read from now on.
    ///
    /// # Errors
    /// [`Error::Io`] when the kernel refuses the advice.
    pub fn advise(&self, access: Access) -> Result<()> {
        let advice = match access {
            Access::Sequential => Advice::Sequential,
            Access::Random => Advice::Random,
        };
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.file {
            // The map's advice says nothing to reads past it, whose read-ahead would fetch 128 KB for a row.
            let advice = match access {
                Access::Sequential => libc::POSIX_FADV_SEQUENTIAL,
                Access::Random => libc::POSIX_FADV_RANDOM,
            };
            // SAFETY: advice on an open file changes no memory. File systems that take none are none the worse.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
        }
        self.map.advise(advice).map_err(Error::io("advise on", &self.path))
    }

    /// Tells the kernel that this part will be read soon. Without effect where it is refused.
    pub(crate) fn will_need(&self, part: Range<usize>) {
        let part = part.start.min(self.map.len())..part.end.min(self.map.len());
        if !part.is_empty() {
            let _ = self.map.advise_range(Advice::WillNeed, part.start, part.len());
        }
    }

    /// Whether the file is so large that it should not come to be mapped page by page.
    pub(crate) fn is_large(&self) -> bool {
        self.file.is_some()
    }

    /// Fills `out` with the bytes from `start` on; of a large file past the map, so that no page of it is touched.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read.
    ///
    /// # Panics
    /// When they end after the last byte that was mapped.
    pub(crate) fn read_at(&self, start: usize, out: &mut [u8]) -> Result<()> {
        match &self.file {
            None => out.copy_from_slice(&self.map[start..start + out.len()]),
            Some(file) if read_cached(file, start, out) => (),
            Some(file) => file.read_exact_at(out, start as u64).map_err(Error::io("read", &self.path))?,
        }
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// Fills `out` from `file` where all bytes are in the page cache; where they are not, counts that this thread has to wait.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn read_cached(file: &File, start: usize, out: &mut [u8]) -> bool {
    let part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let Ok(offset) = libc::off64_t::try_from(start) else { return false };
    // SAFETY: the kernel writes to `out` alone, and not beyond it.
    let read = unsafe { libc::preadv64v2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    let is_all = usize::try_from(read).is_ok_and(|read| read == out.len());
    // File systems that cannot tell refuse the question.
    let is_refused = read < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN);
    if !is_all && !is_refused {
        READS_THAT_WAIT.set(READS_THAT_WAIT.get() + 1);
    }
    is_all
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn read_cached(_file: &File, _start: usize, _out: &mut [u8]) -> bool {
    false
}

/// Asks the processor for `bytes`, which will be read soon.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    const LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes.len()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; the address is within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE);
}

thread_local! {
    static READS_THAT_WAIT: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread (the process, where page faults of threads are not counted) had to wait for a disk: in reads
/// by [`MappedFile::read_at`], and in page faults.
pub(crate) fn waits() -> u64 {
    READS_THAT_WAIT.get() + major_faults()
}

fn major_faults() -> u64 {
    #[cfg(target_os = "linux")]
    let who = libc::RUSAGE_THREAD;
    #[cfg(not(target_os = "linux"))]
    let who = libc::RUSAGE_SELF;
    // SAFETY: all-zero bytes are a valid `rusage`, and the call writes no more than one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    usage.ru_majflt.unsigned_abs()
}
