//! All passages of an index: the stores of its shards as one, without those that are deleted.

use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{Deleted, Generation, Interrupt, Manifest, OnProgress, Progress, Shard};

use super::store::{CorpusStore, CorpusSummary};
use crate::{Error, Passage, Result};

/// The passages of a generation. A row is the number of a passage in the whole index and stays the same until the index
/// is compacted; the rows of deleted passages are gaps.
pub struct Corpus {
    /// In order of their rows.
    pub(super) shards: Vec<(Shard, CorpusStore)>,
    deleted: Option<Arc<Deleted>>,
    summary: CorpusSummary,
}

/// A corpus of one store, with nothing deleted.
impl From<CorpusStore> for Corpus {
    fn from(store: CorpusStore) -> Self {
        let shard = Shard { number: 1, first_row: 0, rows: store.len() };
        Self { summary: store.summary().clone(), shards: vec![(shard, store)], deleted: None }
    }
}

impl Corpus {
    /// Opens the texts of a generation. Reads their ends and headers only.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    pub fn open(generation: &Generation) -> Result<Self> {
        Self::open_in(generation.path(), generation.manifest())
    }

    /// The same for files in `folder` that `manifest` describes.
    ///
    /// # Errors
    /// As [`CorpusStore::open`]; [`Error::Corrupt`] for a store of more or fewer passages than there are vectors.
    pub fn open_in(folder: &Path, manifest: &Manifest) -> Result<Self> {
        let deleted = manifest.read_deleted(folder)?;
        let mut shards = Vec::new();
        for shard in manifest.shards() {
            let store = CorpusStore::open(shard.files(folder))?;
            if store.len() != shard.rows {
                return Err(Error::Corrupt {
                    path: shard.files(folder).path("passages"),
                    expected: format!("as many passages as vectors ({})", shard.rows),
                    found: format!("{} passages", store.len()),
                });
            }
            shards.push((shard, store));
        }
        let summary = summary(&shards, deleted.as_deref());
        Ok(Self { shards, deleted, summary })
    }

    /// Reads every id of every shard: those that were lost would be taken for new ones.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; interrupted.
    pub fn verify_ids(&self, interrupt: &Interrupt) -> Result<()> {
        self.shards.iter().try_for_each(|(_, store)| store.verify_ids(interrupt))
    }

    /// Number of passages, the deleted ones not counted.
    pub fn len(&self) -> u64 {
        self.summary.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What distinguishes this corpus: passages, size, and a hash. Of several shards it is made of the hashes of their
    /// texts and the numbers of the rows that are deleted, so that texts need not be read to tell it. The size includes
    /// deleted passages.
    pub fn summary(&self) -> &CorpusSummary {
        &self.summary
    }

    /// The deleted rows, if any.
    pub fn deleted(&self) -> Option<&Arc<Deleted>> {
        self.deleted.as_ref()
    }

    /// The rows of all passages, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u64> {
        let end = self.shards.last().map_or(0, |(shard, _)| shard.first_row + shard.rows);
        (0..end).filter(|row| !self.is_deleted(*row))
    }

    /// The passage of a row.
    ///
    /// # Errors
    /// [`Error::NotFound`] beyond the last row and for a deleted passage, [`Error::Corrupt`] when its bytes are damaged.
    pub fn get(&self, row: u64) -> Result<Passage> {
        if self.is_deleted(row) {
            let remedy = "its passage is deleted".into();
            return Err(Error::NotFound { what: format!("row {row}"), remedy });
        }
        let at = self.shards.partition_point(|(shard, _)| shard.first_row + shard.rows <= row);
        let Some((shard, store)) = self.shards.get(at) else {
            let remedy = format!("the corpus has {} passages", self.len());
            return Err(Error::NotFound { what: format!("row {row}"), remedy });
        };
        store.get(row - shard.first_row)
    }

    /// The row of an id, if there is such a passage.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes looked at are damaged.
    pub fn row_of(&self, id: &str) -> Result<Option<u64>> {
        for (shard, store) in &self.shards {
            let row = store.row_of(id)?.map(|row| shard.first_row + row);
            // One that was deleted may have come again in a later shard.
            if row.is_some_and(|row| !self.is_deleted(row)) {
                return Ok(row);
            }
        }
        Ok(None)
    }

    /// All passages with their rows, read front to back with a record batch in memory at a time. Ends after an error.
    ///
    /// # Errors
    /// Each is that of reading a passage.
    pub fn scan(&self) -> impl Iterator<Item = Result<(u64, Passage)>> {
        let shards = self.shards.iter().flat_map(|(shard, store)| match store.scan(0) {
            Ok(scan) => Box::new((shard.first_row..).zip(scan)) as Box<dyn Iterator<Item = (u64, Result<Passage>)>>,
            Err(error) => Box::new(std::iter::once((shard.first_row, Err(error)))),
        });
        let mut failed = false;
        shards
            .filter(|(row, passage)| passage.is_err() || !self.is_deleted(*row))
            .map(|(row, passage)| passage.map(|passage| (row, passage)))
            .take_while(move |passage| !std::mem::replace(&mut failed, passage.is_err()))
    }

    /// Reads everything: every row of every shard, the hashes of the texts, every id. Progress in rows.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming what differs; interrupted.
    pub fn verify(&self, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<()> {
        let total = self.shards.iter().map(|(shard, _)| shard.rows).sum();
        let shown = |first| move |p: Progress| progress(Progress { done: first + p.done, total: Some(total) });
        self.shards.iter().try_for_each(|(shard, store)| store.verify(&shown(shard.first_row), interrupt))
    }

    pub(super) fn is_deleted(&self, row: u64) -> bool {
        self.deleted.as_ref().is_some_and(|deleted| deleted.contains(row))
    }
}

fn summary(shards: &[(Shard, CorpusStore)], deleted: Option<&Deleted>) -> CorpusSummary {
    if let ([(_, store)], None) = (shards, deleted) {
        return store.summary().clone();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"hindsearch shards 1\n");
    let (mut rows, mut bytes) = (0, 0);
    for (_, store) in shards {
        let summary = store.summary();
        hasher.update(summary.blake3.as_bytes());
        rows += summary.rows;
        bytes += summary.bytes;
    }
    if let Some(deleted) = deleted {
        hasher.update(&deleted.encode());
        rows -= deleted.count();
    }
    CorpusSummary { rows, blake3: hasher.finalize().to_hex().to_string(), bytes }
}
