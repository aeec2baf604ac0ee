//! How do several files become one stream of rows?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec;

use hindsearch_indexes::Progress;

use super::columnar::Columnar;
use super::format::{Format, head};
use super::jsonl::JsonLines;
use super::lines::{Compression, Counter, Lines};
use super::source::Source;
use super::tsv::{Dpr, MsMarco};
use crate::{Error, Passage, Result};

type Passages = Box<dyn Iterator<Item = Result<Passage>> + Send>;

/// The passages of one or more files, in order; the order is the only link between rows and vectors.
///
/// After an error it ends: no row is ever skipped.
pub struct CorpusReader {
    waiting: vec::IntoIter<Part>,
    current: Option<(Part, Passages)>,
    /// The parts begun so far, each with its first row.
    begun: Vec<(PathBuf, u64)>,
    rows: u64,
    bytes_done: u64,
    bytes_total: u64,
    counter: Counter,
}

struct Part {
    path: PathBuf,
    format: Format,
    length: u64,
}

impl CorpusReader {
    /// Opens files, and folders as their files sorted by name (names that begin with `.` or `_` are left out).
    ///
    /// Each file's format is found by its name and first bytes, unless `format` says. Text formats may be
    /// compressed with gzip (any number of members) or zstd (any number of frames).
    ///
    /// # Errors
    /// [`Error::InvalidInput`] without files, [`Error::Io`] when one cannot be read, [`Error::File`] when one is
    /// empty, a pipe, or of no known format. What is inside is only looked at when it is read.
    pub fn open(paths: &[PathBuf], format: Option<Format>) -> Result<Self> {
        let mut parts = Vec::new();
        for path in expand(paths)? {
            let metadata = fs::metadata(&path).map_err(Error::io("read", &path))?;
            if !metadata.is_file() {
                return Err(Error::File {
                    path,
                    expected: "a file or a folder".into(),
                    found: "a pipe or a device, which cannot be read twice".into(),
                    remedy: "write the passages to a file first".into(),
                });
            }
            let length = metadata.len();
            let (head, compression) = head(&path)?;
            let format = format.map_or_else(|| Format::detect(&path, &head), Ok)?;
            if compression != Compression::None && matches!(format, Format::Parquet | Format::Arrow) {
                return Err(Error::File {
                    path,
                    expected: format!("`{format}` as it is"),
                    found: format!("`{format}` inside {}", compression.name()),
                    remedy: "decompress it first".into(),
                });
            }
            parts.push(Part { path, format, length });
        }
        Ok(Self {
            bytes_total: parts.iter().map(|part| part.length).sum(),
            waiting: parts.into_iter(),
            current: None,
            begun: Vec::new(),
            rows: 0,
            bytes_done: 0,
            counter: Counter::default(),
        })
    }

    /// The files that [`open`](Self::open) would read, in order: folders as their files.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        expand(paths)
    }

    /// Passages given so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How far reading is, in bytes of the files as they lie on disk.
    pub fn progress(&self) -> Progress {
        let length = self.current.as_ref().map_or(0, |(part, _)| part.length);
        let done = self.bytes_done + self.counter.load(Ordering::Relaxed).min(length);
        Progress { done, total: Some(self.bytes_total) }
    }

    fn read(&mut self) -> Result<Option<Passage>> {
        loop {
            if let Some((part, passages)) = &mut self.current {
                if let Some(passage) = passages.next().transpose()? {
                    self.rows += 1;
                    return Ok(Some(passage));
                }
                if self.begun.last().is_none_or(|(_, first)| *first == self.rows) {
                    return Err(Error::File {
                        path: part.path.clone(),
                        expected: "at least one passage".into(),
                        found: "none".into(),
                        remedy: "leave it out, or restore it".into(),
                    });
                }
                self.bytes_done += part.length;
                self.current = None;
            }
            let Some(part) = self.waiting.next() else { return Ok(None) };
            self.counter = Counter::default();
            self.begun.push((part.path.clone(), self.rows));
            let passages = part.open(&self.counter)?;
            self.current = Some((part, passages));
        }
    }
}

impl Source for CorpusReader {
    fn locate(&self, row: u64) -> String {
        match self.begun.iter().rfind(|(_, first)| *first <= row) {
            Some((path, first)) => format!("passage {} of `{}`", row - first + 1, path.display()),
            None => format!("row {row}"),
        }
    }

    fn progress(&self) -> Progress {
        self.progress()
    }
}

impl Iterator for CorpusReader {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.waiting = Vec::new().into_iter();
            self.current = None;
        }
        read.transpose()
    }
}

impl Part {
    fn open(&self, counter: &Counter) -> Result<Passages> {
        let (path, counter) = (self.path.as_path(), Arc::clone(counter));
        Ok(match self.format {
            Format::Jsonl => Box::new(JsonLines(Lines::open(path, counter)?)),
            Format::Dpr => Box::new(Dpr::open(Lines::open(path, counter)?)?),
            Format::MsMarco => Box::new(MsMarco(Lines::open(path, counter)?)),
            Format::Parquet => Box::new(Columnar::parquet(path, counter)?),
            Format::Arrow => Box::new(Columnar::arrow(path, counter)?),
        })
    }
}

fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if fs::metadata(path).map_err(Error::io("read", path))?.is_dir() {
            files.extend(files_of(path)?);
        } else {
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        let found = if paths.is_empty() { "none" } else { "only empty folders" };
        let expected = "at least one file of passages".into();
        return Err(Error::InvalidInput { what: "corpus".into(), expected, found: found.into() });
    }
    Ok(files)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if fs::metadata(&path).map_err(Error::io("read", &path))?.is_dir() {
            return Err(Error::File {
                path: folder.to_path_buf(),
                expected: "a folder of files".into(),
                found: format!("the folder `{name}` in it"),
                remedy: "name the files instead".into(),
            });
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}
