//! Files of passages for the corpus tests.

#![allow(dead_code)] // Each test binary uses its own part.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use hindsearch_retriever::corpus::{CorpusReader, Format};
use hindsearch_retriever::{Passage, Result};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use proptest::sample::select;

/// The result of a test that may fail on the way.
pub type Check<T = ()> = Result<T, Box<dyn Error>>;

/// A folder of files that is removed at the end.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Check<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Check<PathBuf> {
        let path = self.path().join(name);
        // Some file systems wait for the disk when a file is truncated and written again.
        if path.exists() {
            fs::remove_file(&path)?;
        }
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// What a file of this name and these bytes holds.
    pub fn read(&self, name: &str, bytes: impl AsRef<[u8]>) -> Check<Vec<Passage>> {
        let path = self.file(name, bytes)?;
        Ok(read(&[path], None)?)
    }

    /// The names in the folder, sorted.
    pub fn names(&self) -> Check<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

pub fn read(paths: &[PathBuf], format: Option<Format>) -> Result<Vec<Passage>> {
    CorpusReader::open(paths, format)?.collect()
}

pub fn passage(id: &str, title: Option<&str>, text: &str) -> Passage {
    Passage { id: id.into(), title: title.map(Into::into), text: text.into() }
}

pub fn gzip(bytes: impl AsRef<[u8]>) -> Check<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes.as_ref())?;
    Ok(encoder.finish()?)
}

pub fn zstd(bytes: impl AsRef<[u8]>) -> Check<Vec<u8>> {
    Ok(zstd::encode_all(bytes.as_ref(), 3)?)
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> Check<RecordBatch> {
    let nullable = columns.into_iter().map(|(name, column)| {
        let nullable = column.null_count() > 0;
        (name, column, nullable)
    });
    Ok(RecordBatch::try_from_iter_with_nullable(nullable)?)
}

pub fn strings<A: Array + From<Vec<Option<&'static str>>> + 'static>(values: &[Option<&'static str>]) -> ArrayRef {
    Arc::new(A::from(values.to_vec()))
}

pub fn parquet(batches: &[RecordBatch]) -> Check<Vec<u8>> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), None)?;
    for batch in batches {
        writer.write(batch)?;
        writer.flush()?;
    }
    Ok(writer.into_inner()?)
}

pub fn arrow_file(batches: &[RecordBatch]) -> Check<Vec<u8>> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

pub fn arrow_stream(batches: &[RecordBatch]) -> Check<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

/// Text with everything that trips readers: quotes, tabs, line ends, marks, controls, any script.
pub fn hostile_text() -> impl Strategy<Value = String> {
    let special =
        select(vec!['"', '\t', '\n', '\r', '\\', ' ', '\0', '\u{feff}', '\u{2028}', '\u{202e}', ',', '{', 'é']);
    let character = prop_oneof![3 => any::<char>(), 2 => special, 3 => proptest::char::range('a', 'z')];
    proptest::collection::vec(character, 0..40).prop_map(String::from_iter)
}

/// Rows of (id, title, text) with distinct ids and some text.
pub fn rows() -> impl Strategy<Value = Vec<(String, String, String)>> {
    let row = (hostile_text(), hostile_text(), hostile_text());
    proptest::collection::vec(row, 1..30).prop_map(|rows| {
        let number = |(row, (id, title, text))| (format!("{row} {id}"), title, format!("{text}."));
        rows.into_iter().enumerate().map(number).collect()
    })
}
