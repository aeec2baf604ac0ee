//! A storage that goes wrong at a chosen call.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use hindsearch_indexes::storage::{Entry, Held, LockKind, Stat, Storage};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number; later ones work.
    Once(i32),
    /// From this call on, everything that needs space fails with this error number.
    Full(i32),
    /// This call and all later ones do nothing: the process is as good as dead.
    Stop,
    /// Prints [`READY`] and waits to be killed.
    Wait,
}

/// What [`Fault::Wait`] prints.
pub const READY: &str = "waiting for the end";

/// A call, by the name of the operation and its path.
pub type Call = (&'static str, PathBuf);

#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Storage>,
    at: usize,
    fault: Fault,
    calls: Mutex<Vec<Call>>,
}

impl Faulty {
    /// Wraps `inner`; calls are counted from 1. A write that fails leaves half of its bytes.
    pub fn new(inner: Arc<dyn Storage>, at: usize, fault: Fault) -> Self {
        Self { inner, at, fault, calls: Mutex::default() }
    }

    /// The calls so far.
    pub fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("no test panics while it holds this")
    }

    fn count(&self, operation: &'static str, path: &Path) -> io::Result<()> {
        let number = {
            let mut calls = self.calls();
            calls.push((operation, path.to_path_buf()));
            calls.len()
        };
        let needs_space = matches!(operation, "create_folder" | "write" | "rename" | "link" | "copy");
        match self.fault {
            Fault::Once(errno) if number == self.at => Err(io::Error::from_raw_os_error(errno)),
            Fault::Full(errno) if number >= self.at && needs_space => Err(io::Error::from_raw_os_error(errno)),
            Fault::Stop if number >= self.at => Err(io::Error::other("stopped by the test")),
            Fault::Wait if number == self.at => {
                let mut out = io::stdout().lock();
                writeln!(out, "{READY}")?;
                out.flush()?;
                loop {
                    std::thread::park();
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether the next call is the first to go wrong.
    fn is_next(&self) -> bool {
        self.calls().len() + 1 == self.at
    }
}

impl Storage for Faulty {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.count("create_folder", path)?;
        self.inner.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        self.count("list", folder)?;
        self.inner.list(folder)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.count("stat", path)?;
        self.inner.stat(path)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.count("open", file)?;
        let reader = self.inner.open(file)?;
        match self.count("read", file) {
            Ok(()) => Ok(reader),
            Err(error) => Ok(Box::new(Broken(Some(error)))),
        }
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.is_next() {
            self.inner.write(file, &bytes[..bytes.len() / 2])?;
        }
        self.count("write", file)?;
        self.inner.write(file, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.count("sync", path)?;
        self.inner.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count("rename", from)?;
        self.inner.rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.count("link", name)?;
        self.inner.link(file, name)
    }

    fn copy(&self, file: &Path, copy: &Path) -> io::Result<()> {
        self.count("copy", copy)?;
        self.inner.copy(file, copy)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.count("remove", path)?;
        self.inner.remove(path)
    }

    fn set_writable(&self, file: &Path, writable: bool) -> io::Result<()> {
        self.count("set_writable", file)?;
        self.inner.set_writable(file, writable)
    }

    fn lock(&self, file: &Path, kind: LockKind) -> io::Result<Held> {
        self.count("lock", file)?;
        self.inner.lock(file, kind)
    }
}

/// A reader that fails.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
