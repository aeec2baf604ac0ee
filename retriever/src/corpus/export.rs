//! How does a corpus leave again? As wiki-18 JSON lines or as Parquet, both with `id` and `contents`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hindsearch_indexes::{Interrupt, OnProgress, Progress, WholeFile};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::hash::CorpusHasher;
use super::whole::Corpus;
use crate::{Error, Passage, Result};

const CHUNK: u64 = 1024;
/// A row group is closed once it holds this much, encoded.
const ROW_GROUP_BYTES: usize = 32 << 20;

impl Corpus {
    /// Writes all passages that are not deleted as wiki-18 JSON lines, `{"id": ..., "contents": ...}`; each `contents` is byte for byte what came in.
    /// Progress in rows. Nothing has the name `path` before it is whole.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written, [`Error::Corrupt`] when the store is damaged; interrupted.
    pub fn export_jsonl(&self, path: &Path, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<()> {
        let mut file = WholeFile::create(path)?;
        self.export(progress, interrupt, |passage| {
            let json = |text: &str| serde_json::to_string(text).map_err(|error| Error::io("write", path)(error.into()));
            let (id, contents) = (json(&passage.id)?, json(&passage.contents())?);
            writeln!(file, "{{\"id\": {id}, \"contents\": {contents}}}").map_err(Error::io("write", path))
        })?;
        Ok(file.publish()?)
    }

    /// Writes Parquet with the string columns `id` and `contents`, compressed with zstd. Otherwise as
    /// [`Self::export_jsonl`].
    ///
    /// # Errors
    /// As [`Self::export_jsonl`].
    pub fn export_parquet(&self, path: &Path, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<()> {
        let failed = |error| parquet_error(path, error);
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Utf8, false),
            Field::new("contents", DataType::Utf8, false),
        ]));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(failed)?))
            .set_dictionary_enabled(false)
            .build();
        let file = WholeFile::create(path)?;
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(failed)?;
        let (mut id, mut contents) = (StringBuilder::new(), StringBuilder::new());
        let mut row = 0;
        self.export(progress, interrupt, |passage| {
            row += 1;
            id.append_value(&passage.id);
            contents.append_value(passage.contents());
            if row % CHUNK == 0 || row == self.len() || contents.values_slice().len() >= ROW_GROUP_BYTES {
                let columns: Vec<ArrayRef> = vec![Arc::new(id.finish()), Arc::new(contents.finish())];
                let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(ParquetError::from);
                batch.and_then(|batch| writer.write(&batch)).map_err(failed)?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush().map_err(failed)?;
                }
            }
            Ok(())
        })?;
        Ok(writer.into_inner().map_err(failed)?.publish()?)
    }

    fn export(
        &self,
        progress: OnProgress<'_>,
        interrupt: &Interrupt,
        mut write: impl FnMut(Passage) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        for (shard, store) in &self.shards {
            let mut hasher = CorpusHasher::new();
            for (row, passage) in (shard.first_row..).zip(store.scan(0)?) {
                let passage = passage?;
                hasher.update(&passage);
                if self.is_deleted(row) {
                    continue;
                }
                write(passage)?;
                done += 1;
                if done % CHUNK == 0 || done == self.len() {
                    interrupt.check()?;
                    progress(Progress { done, total: Some(self.len()) });
                }
            }
            // Damaged text must not leave under a good name.
            store.compare(&hasher.finish().blake3)?;
        }
        Ok(())
    }
}

/// Turns a write error of the Parquet library back into the disk's own where it was one.
fn parquet_error(path: &Path, error: ParquetError) -> Error {
    let error = match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    Error::io("write", path)(error)
}
