//! How is a store written, and in which order does it become visible?

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use hindsearch_indexes::{Interrupt, OnProgress, ShardFiles};

use super::fields::excerpt;
use super::hash::CorpusHasher;
use super::ids::IdsWriter;
use super::passages::{Passages, ROWS_KEY, SUMMARY_KEY, VERSION, VERSION_KEY};
use super::pending::PendingFile;
use super::source::Source;
use super::store::{CorpusStore, CorpusSummary};
use crate::{Error, Passage, Result};

/// A record batch holds at most this many rows, and is closed once it holds this many bytes.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 8 << 20;

impl CorpusStore {
    /// Writes all passages of `source` into the files `passages` and `ids` of a shard (of the first one where a folder is
    /// given), in constant memory. Neither has its name before both are whole and on the disk. Progress in bytes of the input.
    ///
    /// # Errors
    /// Those of the source; [`Error::InvalidInput`] for an id that occurs twice; [`Error::Io`] when the folder does
    /// not take the files; interrupted. Nothing is left behind then.
    pub fn write<'a>(
        source: &mut dyn Source,
        files: impl Into<ShardFiles<'a>>,
        progress: OnProgress<'_>,
        interrupt: &Interrupt,
    ) -> Result<CorpusSummary> {
        let files = files.into();
        let mut passages = PassagesWriter::create(&files.path("passages"))?;
        let mut ids = IdsWriter::new(files.folder);
        while let Some(passage) = source.next().transpose()? {
            ids.push(&passage.id)?;
            if passages.push(&passage)? {
                interrupt.check()?;
                progress(source.progress());
            }
        }
        let (passages, summary) = passages.finish()?;

        // The ids are compared in the file itself: a hash alone cannot tell a duplicate from an accident.
        let written = Passages::open(passages.path())?;
        let mut id_file = PendingFile::create(&files.path("ids"))?;
        ids.finish(&mut id_file, &summary.blake3, interrupt, |first, second| {
            let id = written.id(first)?;
            if id != written.id(second)? {
                return Ok(());
            }
            Err(Error::InvalidInput {
                what: format!("id `{}`", excerpt(id, 0)),
                expected: "one passage for each id".into(),
                found: format!("two: {} and {}", source.locate(first), source.locate(second)),
            })
        })?;
        passages.publish()?;
        id_file.publish()?;
        progress(source.progress());
        Ok(summary)
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("title", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, false),
    ]))
}

/// Turns a write error of the Arrow library back into the disk's own.
fn disk_error(path: &Path, error: ArrowError) -> Error {
    let error = match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    };
    Error::io("write", path)(error)
}

struct PassagesWriter {
    writer: FileWriter<PendingFile>,
    id: StringBuilder,
    title: StringBuilder,
    text: StringBuilder,
    /// Rows and bytes in the builders.
    pending: (usize, usize),
    batch_rows: Vec<String>,
    hasher: CorpusHasher,
    rows: u64,
    bytes: u64,
}

impl PassagesWriter {
    fn create(path: &Path) -> Result<Self> {
        let file = PendingFile::create(path)?;
        let writer = FileWriter::try_new(file, &schema()).map_err(|error| disk_error(path, error))?;
        Ok(Self {
            writer,
            id: StringBuilder::new(),
            title: StringBuilder::new(),
            text: StringBuilder::new(),
            pending: (0, 0),
            batch_rows: Vec::new(),
            hasher: CorpusHasher::new(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Adds a row; true when that closed a record batch.
    fn push(&mut self, passage: &Passage) -> Result<bool> {
        self.hasher.update(passage);
        self.id.append_value(&passage.id);
        self.title.append_option(passage.title.as_deref());
        self.text.append_value(&passage.text);
        let bytes = passage.id.len() + passage.title.as_ref().map_or(0, String::len) + passage.text.len();
        self.bytes += bytes as u64;
        self.rows += 1;
        self.pending = (self.pending.0 + 1, self.pending.1 + bytes);
        let full = self.pending.0 == BATCH_ROWS || self.pending.1 >= BATCH_BYTES;
        if full {
            self.close_batch()?;
        }
        Ok(full)
    }

    fn close_batch(&mut self) -> Result<()> {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.id.finish()), Arc::new(self.title.finish()), Arc::new(self.text.finish())];
        let batch = RecordBatch::try_new(schema(), columns);
        let written = batch.and_then(|batch| self.writer.write(&batch));
        written.map_err(|error| disk_error(self.writer.get_ref().target(), error))?;
        self.batch_rows.push(self.pending.0.to_string());
        self.pending = (0, 0);
        Ok(())
    }

    /// Ends the file and puts it on the disk, still under its temporary name.
    fn finish(mut self) -> Result<(PendingFile, CorpusSummary)> {
        if self.pending.0 > 0 {
            self.close_batch()?;
        }
        let path = self.writer.get_ref().target().to_path_buf();
        let summary = self.hasher.finish();
        let written_summary =
            serde_json::to_string(&summary).map_err(|error| Error::io("write", &path)(error.into()))?;
        self.writer.write_metadata(VERSION_KEY, VERSION);
        self.writer.write_metadata(ROWS_KEY, self.batch_rows.join(","));
        self.writer.write_metadata(SUMMARY_KEY, written_summary);
        self.writer.finish().map_err(|error| disk_error(&path, error))?;
        let mut file = self.writer.into_inner().map_err(|error| disk_error(&path, error))?;
        file.flush().map_err(Error::io("write", &path))?;
        file.sync()?;
        Ok((file, summary))
    }
}
