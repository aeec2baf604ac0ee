//! Where are the bytes of a row? The file `passages`, mapped: an Arrow IPC file of string columns `id`, `title` (null
//! where there is none) and `text`, whose footer says how many rows each record batch has.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::{mem, vec};

use arrow::ipc::reader::read_footer_length;
use arrow::ipc::root_as_footer;
use hindsearch_indexes::{Access, MappedFile};

use super::block::{Block, Damage};
use super::store::CorpusSummary;
use crate::{Error, Passage, Result};

pub(super) const VERSION: &str = "1";
/// Keys of the footer's metadata.
pub(super) const VERSION_KEY: &str = "hindsearch.version";
pub(super) const ROWS_KEY: &str = "hindsearch.batch_rows";
pub(super) const SUMMARY_KEY: &str = "hindsearch.corpus";

pub(super) struct Passages {
    file: MappedFile,
    batches: Vec<Batch>,
    summary: CorpusSummary,
}

struct Batch {
    first_row: u64,
    rows: u64,
    metadata: Range<usize>,
    body: Range<usize>,
}

impl Passages {
    /// Reads the end of the file only.
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path, Access::Random)?;
        let (batches, summary) = read_footer(&file)?;
        Ok(Self { file, batches, summary })
    }

    pub fn summary(&self) -> &CorpusSummary {
        &self.summary
    }

    pub fn get(&self, row: u64) -> Result<Passage> {
        let (block, row) = self.locate(row)?;
        block.passage(row).map_err(|damage| self.corrupt(damage))
    }

    pub fn id(&self, row: u64) -> Result<&str> {
        let (block, row) = self.locate(row)?;
        block.id(row).map_err(|damage| self.corrupt(damage))
    }

    pub fn scan(&self, row: u64) -> Result<Scan<'_>> {
        let path = self.file.path();
        let file = File::open(path).map_err(Error::io("open", path))?;
        let batch = self.batch_of(row);
        let skip = self.batches.get(batch).map_or(0, |batch| (row - batch.first_row) as usize);
        Ok(Scan { passages: self, file, batch, skip, buffer: Vec::new(), loaded: Vec::new().into_iter() })
    }

    pub fn corrupt(&self, (expected, found): Damage) -> Error {
        Error::Corrupt { path: self.file.path().to_path_buf(), expected, found }
    }

    fn batch_of(&self, row: u64) -> usize {
        self.batches.partition_point(|batch| batch.first_row + batch.rows <= row)
    }

    fn locate(&self, row: u64) -> Result<(Block<'_>, usize)> {
        let Some(batch) = self.batches.get(self.batch_of(row)) else {
            let remedy = format!("the corpus has {} rows, counted from 0", self.summary.rows);
            return Err(Error::NotFound { what: format!("row {row}"), remedy });
        };
        let bytes = self.file.as_ref();
        let block = Block::parse(&bytes[batch.metadata.clone()], &bytes[batch.body.clone()], batch.rows);
        Ok((block.map_err(|damage| self.corrupt(damage))?, (row - batch.first_row) as usize))
    }
}

/// Passages in row order, read front to back with one record batch in memory at a time. Ends after an error.
pub struct Scan<'a> {
    passages: &'a Passages,
    file: File,
    batch: usize,
    /// Rows to leave out of the first record batch.
    skip: usize,
    buffer: Vec<u8>,
    loaded: vec::IntoIter<Passage>,
}

impl Scan<'_> {
    /// Reads rather than maps: a whole file that was mapped would count as memory of this process.
    fn load(&mut self, index: usize) -> Result<()> {
        let batch = &self.passages.batches[index];
        self.buffer.resize(batch.body.end - batch.metadata.start, 0);
        let at = SeekFrom::Start(batch.metadata.start as u64);
        let read = self.file.seek(at).and_then(|_| self.file.read_exact(&mut self.buffer));
        read.map_err(Error::io("read", self.passages.file.path()))?;
        let (metadata, body) = self.buffer.split_at(batch.metadata.len());
        let damaged = |damage| self.passages.corrupt(damage);
        let block = Block::parse(metadata, body, batch.rows).map_err(damaged)?;
        let rows = mem::take(&mut self.skip)..batch.rows as usize;
        let loaded = rows.map(|row| block.passage(row)).collect::<Result<Vec<_>, _>>();
        self.loaded = loaded.map_err(damaged)?.into_iter();
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(passage) = self.loaded.next() {
            return Some(Ok(passage));
        }
        if self.batch >= self.passages.batches.len() {
            return None;
        }
        let loaded = self.load(self.batch);
        self.batch = if loaded.is_ok() { self.batch + 1 } else { usize::MAX };
        loaded.err().map(Err).or_else(|| self.loaded.next().map(Ok))
    }
}

/// The record batches and the summary, from the end of the file.
fn read_footer(file: &MappedFile) -> Result<(Vec<Batch>, CorpusSummary)> {
    let bytes = file.as_ref();
    let damage = |expected: &str, found: String| Error::Corrupt {
        path: file.path().to_path_buf(),
        expected: expected.to_owned(),
        found,
    };
    let footer = bytes
        .split_last_chunk::<10>()
        .and_then(|(rest, end)| {
            let length = read_footer_length(*end).ok()?;
            rest.get(rest.len().checked_sub(length)?..)
        })
        .ok_or_else(|| damage("an Arrow IPC file", format!("{} bytes without its end", bytes.len())))?;
    let footer = root_as_footer(footer).map_err(|error| damage("the end of an Arrow IPC file", error.to_string()))?;
    let key = |key: &str| {
        let entry = footer.custom_metadata().into_iter().flatten().find(|entry| entry.key() == Some(key));
        let value = entry.and_then(|entry| entry.value());
        value.ok_or_else(|| damage(&format!("the key `{key}` in its footer"), "none".into()))
    };
    let version = key(VERSION_KEY)?;
    if version != VERSION {
        return Err(Error::Incompatible {
            what: format!("`{}`", file.path().display()),
            expected: format!("format version {VERSION}"),
            found: format!("format version {version}"),
            remedy: "build the index again, or use the version of hindsearch that made it".into(),
        });
    }
    let summary: CorpusSummary = serde_json::from_str(key(SUMMARY_KEY)?)
        .map_err(|error| damage("a summary of the corpus in its footer", error.to_string()))?;

    let blocks = footer.recordBatches().map_or_else(Vec::new, |blocks| blocks.iter().collect());
    let rows = key(ROWS_KEY)?.split(',').collect::<Vec<_>>();
    if rows.len() != blocks.len() {
        return Err(damage(&format!("{} record batches", rows.len()), format!("{}", blocks.len())));
    }
    let mut batches = Vec::with_capacity(rows.len());
    let mut first_row = 0u64;
    for (block, rows) in blocks.into_iter().zip(rows) {
        let range = |start: usize, length: usize| start.checked_add(length).map(|end| start..end);
        let batch = || {
            let metadata = range(usize::try_from(block.offset()).ok()?, usize::try_from(block.metaDataLength()).ok()?)?;
            let body = range(metadata.end, usize::try_from(block.bodyLength()).ok()?)?;
            let rows = rows.parse::<u64>().ok()?;
            first_row.checked_add(rows)?;
            (body.end <= bytes.len()).then_some(Batch { first_row, rows, metadata, body })
        };
        let batch =
            batch().ok_or_else(|| damage("record batches within the file", format!("{block:?} of {rows} rows")))?;
        first_row += batch.rows;
        batches.push(batch);
    }
    if first_row != summary.rows {
        return Err(damage(&format!("{} rows", summary.rows), format!("record batches with {first_row}")));
    }
    Ok((batches, summary))
}
