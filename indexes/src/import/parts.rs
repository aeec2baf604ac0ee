//! How are several parts read as one file?

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{faiss, npy};
use crate::{Error, Result};

/// Bytes by which a file is known.
pub(super) const START: usize = 8;

/// One file, whole or in parts, read at any place.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<Part>,
    length: u64,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
    /// Where it begins in the whole.
    start: u64,
    length: u64,
}

impl Parts {
    /// Opens all of `paths`: those that begin a file, each with the parts that follow it.
    pub fn open(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for path in paths {
            let file = File::open(path).map_err(Error::io("read", path))?;
            let found = file.metadata().map_err(Error::io("read", path))?;
            if !found.is_file() {
                return Err(Error::InvalidInput {
                    what: format!("vector file `{}`", path.display()),
                    expected: "a regular file".into(),
                    found: "a folder, a device or a pipe".into(),
                });
            }
            let mut part = Part { path: path.clone(), file, start: 0, length: found.len() };
            let start = part.start()?;
            match all.last_mut().filter(|_| !start.starts_with(npy::MAGIC) && !faiss::begins(&start)) {
                Some(whole) => {
                    part.start = whole.length;
                    whole.length = whole.length.saturating_add(part.length);
                    whole.parts.push(part);
                }
                None => all.push(Self { length: part.length, parts: vec![part] }),
            }
        }
        Ok(all)
    }

    /// Bytes of all parts.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The first part.
    pub fn path(&self) -> &Path {
        self.parts.first().map_or(Path::new(""), |part| &part.path)
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Fills `out` with the bytes from `at` on, all of which must be there.
    pub fn read_at(&self, mut at: u64, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        let first = self.parts.partition_point(|part| part.start <= at).saturating_sub(1);
        for part in self.parts.iter().skip(first) {
            if rest.is_empty() {
                break;
            }
            let left = (part.start + part.length).saturating_sub(at);
            let (now, later) = rest.split_at_mut(left.min(rest.len() as u64) as usize);
            part.file.read_exact_at(now, at - part.start).map_err(Error::io("read", &part.path))?;
            at += now.len() as u64;
            rest = later;
        }
        if rest.is_empty() {
            return Ok(());
        }
        Err(Error::io("read", self.path())(std::io::ErrorKind::UnexpectedEof.into()))
    }

    /// The refusal of this file.
    pub fn refuse(&self, expected: String, found: String, remedy: &str) -> Error {
        let found = match self.count() {
            0 | 1 => found,
            count => format!("{found} (in {count} parts)"),
        };
        Error::Incompatible { path: self.path().to_path_buf(), expected, found, remedy: remedy.into() }
    }
}

impl Part {
    /// Its first bytes; fewer of a smaller file.
    fn start(&self) -> Result<Vec<u8>> {
        let mut start = vec![0; self.length.min(START as u64) as usize];
        self.file.read_exact_at(&mut start, 0).map_err(Error::io("read", &self.path))?;
        Ok(start)
    }
}
