//! A corpus on disk: which passage is in a row, which row has an id, and is all of it as it was written?

use hindsearch_indexes::{Interrupt, OnProgress, Progress, ShardFiles};
use serde::{Deserialize, Serialize};

use super::hash::CorpusHasher;
use super::ids::Ids;
use super::passages::{Passages, Scan};
use crate::{Passage, Result};

/// What a corpus is: enough to tell whether two are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusSummary {
    /// Number of passages.
    pub rows: u64,
    /// BLAKE3 over all rows in order, in hex; independent of file format and compression.
    pub blake3: String,
    /// Bytes of all ids, titles and texts.
    pub bytes: u64,
}

/// The passages of one shard on disk, found by row or by id.
///
/// The files are mapped, and only the bytes of the rows that are asked for are read, so memory does not grow with the
/// corpus. Safe for any number of threads.
pub struct CorpusStore {
    pub(super) passages: Passages,
    ids: Ids,
}

impl CorpusStore {
    /// Opens the files `passages` and `ids` of a shard, of the first one where a folder is given. Reads their ends and
    /// headers only.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) when a file cannot be opened, [`Error::Corrupt`](crate::Error::Corrupt)
    /// when it is not what was written, [`Error::Incompatible`](crate::Error::Incompatible) when another version
    /// wrote it.
    pub fn open<'a>(files: impl Into<ShardFiles<'a>>) -> Result<Self> {
        let files = files.into();
        let passages = Passages::open(&files.path("passages"))?;
        let ids = Ids::open(&files.path("ids"), passages.summary())?;
        Ok(Self { passages, ids })
    }

    /// Number of passages.
    pub fn len(&self) -> u64 {
        self.summary().rows
    }

    /// Whether there are none; never so for a store that was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows, hash and size of the corpus.
    pub fn summary(&self) -> &CorpusSummary {
        self.passages.summary()
    }

    /// The passage of a row.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) beyond the last row, [`Error::Corrupt`](crate::Error::Corrupt)
    /// when its bytes are damaged.
    pub fn get(&self, row: u64) -> Result<Passage> {
        self.passages.get(row)
    }

    /// What is embedded and served for a row: title, line break, text.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contents(&self, row: u64) -> Result<String> {
        self.get(row).map(|passage| passage.contents().into_owned())
    }

    /// The row of an id, if the corpus has it.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the bytes looked at are damaged.
    pub fn row_of(&self, id: &str) -> Result<Option<u64>> {
        for row in self.ids.candidates(id) {
            if row >= self.len() {
                return Err(self.ids.damage(format!("rows below {}", self.len()), format!("row {row}")));
            }
            if self.passages.id(row)? == id {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The passages from `row` to the end, read front to back with a record batch in memory at a time.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be opened.
    pub fn scan(&self, row: u64) -> Result<Scan<'_>> {
        self.passages.scan(row)
    }

    /// Reads everything: every row, the corpus hash, every id. Progress in rows.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) naming what differs; interrupted.
    pub fn verify(&self, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<()> {
        let mut hasher = CorpusHasher::new();
        for (row, passage) in (1..).zip(self.scan(0)?) {
            hasher.update(&passage?);
            if row % 4096 == 0 || row == self.len() {
                interrupt.check()?;
                progress(Progress { done: row, total: Some(self.len()) });
            }
        }
        self.compare(&hasher.finish().blake3)?;
        self.ids.verify(interrupt)
    }

    /// Reads every id: those that were lost would be taken for new ones.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt); interrupted.
    pub fn verify_ids(&self, interrupt: &Interrupt) -> Result<()> {
        self.ids.verify(interrupt)
    }

    /// Compares the hash of all rows, as they were just read, with that of the rows once written.
    pub(super) fn compare(&self, found: &str) -> Result<()> {
        let expected = &self.summary().blake3;
        if found == expected {
            return Ok(());
        }
        Err(self.passages.corrupt((format!("rows with the hash {expected}"), format!("the hash {found}"))))
    }
}
