//! Parquet and Arrow IPC: the same fields as JSON lines, one column each.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::fields::{Fields, MAX_LINE, Problem, SHAPES};
use super::ipc::{FileBatches, StreamBatches};
use super::lines::{Counter, FREE_EXPANSION, MAX_RATIO};
use super::pages;
use crate::{Error, Passage, Result};

/// Rows decoded at a time.
const CHUNK: usize = 1024;
const COLUMNS: [&str; 5] = ["id", "_id", "contents", "title", "text"];

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The passages of a columnar file.
pub(super) struct Columnar {
    path: PathBuf,
    batches: Batches,
    batch: Option<RecordBatch>,
    columns: Option<Columns>,
    /// Next row of `batch` that is not yet in `columns`, and next row of `columns`.
    offset: usize,
    next: usize,
    /// Rows given so far, and rows promised by the file where it promises any.
    rows: u64,
    promised: Option<u64>,
    text_bytes: u64,
    length: u64,
    counter: Counter,
}

impl Columnar {
    /// Opens a Parquet file. Strings are decoded as views, so a dictionary of few long strings stays as small in
    /// memory as it is in the file.
    pub fn parquet(path: &Path, counter: Counter) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let length = file.metadata().map_err(Error::io("read", path))?.len();
        let damaged = |error| damage(path, "Parquet", error);
        let given = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())).map_err(damaged)?;
        let schema = given.schema();
        check_schema(path, schema)?;
        let wanted = COLUMNS.iter().filter_map(|name| schema.index_of(name).ok()).collect::<Vec<_>>();
        check_sizes(path, &file, given.metadata()).map_err(damaged)?;
        let promised = u64::try_from(given.metadata().file_metadata().num_rows()).ok();

        let fields = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
            _ => Arc::clone(field),
        });
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
        let batches = guarded(|| {
            let metadata = ArrowReaderMetadata::try_new(Arc::clone(given.metadata()), options)?;
            let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
            builder.with_projection(mask).with_batch_size(CHUNK).build()
        });
        let batches = Box::new(batches.map_err(damaged)?);
        Ok(Self::new(path, batches, promised, (length, counter)))
    }

    /// Opens an Arrow IPC file or stream. A record batch is held in memory whole.
    pub fn arrow(path: &Path, counter: Counter) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let length = file.metadata().map_err(Error::io("read", path))?.len();
        let mut file = BufReader::new(file);
        let is_file = file.fill_buf().map_err(Error::io("read", path))?.starts_with(b"ARROW1");
        let (batches, schema) = guarded(|| -> Result<(Batches, _), ArrowError> {
            if is_file {
                let (batches, schema) = FileBatches::open(file.into_inner())?;
                Ok((Box::new(batches), schema))
            } else {
                let (batches, schema) = StreamBatches::open(file)?;
                Ok((Box::new(batches), schema))
            }
        })
        .map_err(|error| damage(path, "Arrow", error))?;
        check_schema(path, &schema)?;
        Ok(Self::new(path, batches, None, (length, counter)))
    }

    fn new(path: &Path, batches: Batches, promised: Option<u64>, (length, counter): (u64, Counter)) -> Self {
        Self {
            path: path.to_path_buf(),
            batches,
            batch: None,
            columns: None,
            offset: 0,
            next: 0,
            rows: 0,
            promised,
            text_bytes: 0,
            length,
            counter,
        }
    }

    fn error(&self, problem: Problem) -> Error {
        problem.at(&self.path, self.rows + 1, 0)
    }

    /// Makes `columns` hold the row `next`; false at the end of the file.
    fn load(&mut self) -> Result<bool, Problem> {
        let whole = |message: String| {
            // The library's words for a compression that it was built without.
            if message.contains("Disabled feature") || message.contains("requires the") {
                let accepted = "columns compressed with snappy or zstd, or not at all";
                return Problem::new(accepted, format!("another compression ({message}); write the file again"));
            }
            Problem::new("a file that is whole and well formed", message)
        };
        loop {
            if self.columns.as_ref().is_some_and(|columns| self.next < columns.rows) {
                return Ok(true);
            }
            self.next = 0;
            self.columns = None;
            match self.batch.as_ref().filter(|batch| self.offset < batch.num_rows()) {
                Some(batch) => {
                    let chunk = batch.slice(self.offset, CHUNK.min(batch.num_rows() - self.offset));
                    self.offset += chunk.num_rows();
                    self.columns = Some(guarded(|| Columns::new(&chunk)).map_err(whole)?);
                }
                None => match guarded(|| self.batches.next().transpose()).map_err(whole)? {
                    Some(batch) => {
                        self.batch = Some(batch);
                        self.offset = 0;
                    }
                    None => return self.end().map(|()| false),
                },
            }
        }
    }

    fn end(&self) -> Result<(), Problem> {
        match self.promised {
            Some(promised) if promised != self.rows => {
                Err(Problem::new(format!("{promised} rows, as the file says"), format!("{}", self.rows)))
            }
            _ => Ok(()),
        }
    }

    fn row(&mut self) -> Result<Option<Passage>, Problem> {
        if !self.load()? {
            return Ok(None);
        }
        let row = self.next;
        let Some(columns) = &self.columns else { return Ok(None) };
        let size = columns.size(row);
        if size > MAX_LINE {
            return Err(Problem::new(format!("a passage of at most {MAX_LINE} bytes"), format!("{size} bytes")));
        }
        self.text_bytes += size as u64;
        if self.text_bytes > FREE_EXPANSION.max(self.length.saturating_mul(MAX_RATIO)) {
            let found = format!("{} bytes of text in a file of {}", self.text_bytes, self.length);
            return Err(Problem::new(format!("data that expands at most {MAX_RATIO} times"), found));
        }
        let passage = columns.fields(row).into_passage()?;
        self.next += 1;
        self.rows += 1;
        let done = match self.promised {
            Some(promised) => (self.rows as f64 / promised as f64 * self.length as f64) as u64,
            // Arrow is not compressed: text counts as what it is on disk.
            None => self.text_bytes,
        };
        self.counter.store(done.min(self.length), Ordering::Relaxed);
        Ok(Some(passage))
    }
}

impl Iterator for Columnar {
    type Item = Result<Passage>;

    fn next(&mut self) -> Option<Self::Item> {
        self.row().map_err(|problem| self.error(problem)).transpose()
    }
}

/// The columns of one chunk, all as string views.
struct Columns {
    rows: usize,
    id: StringViewArray,
    contents: Option<StringViewArray>,
    title: Option<StringViewArray>,
    text: Option<StringViewArray>,
}

impl Columns {
    fn new(chunk: &RecordBatch) -> Result<Self, ArrowError> {
        let column = |name: &str| -> Result<Option<StringViewArray>, ArrowError> {
            let Some(column) = chunk.column_by_name(name) else { return Ok(None) };
            Ok(cast(column, &DataType::Utf8View)?.as_string_view_opt().cloned())
        };
        let id = match column("id")? {
            Some(id) => id,
            None => column("_id")?.ok_or_else(|| ArrowError::SchemaError("no column `id`".into()))?,
        };
        let rows = chunk.num_rows();
        Ok(Self { rows, id, contents: column("contents")?, title: column("title")?, text: column("text")? })
    }

    fn size(&self, row: usize) -> usize {
        let columns = [Some(&self.id), self.contents.as_ref(), self.title.as_ref(), self.text.as_ref()];
        columns.into_iter().flatten().filter_map(|column| value(column, row)).map(str::len).sum()
    }

    fn fields(&self, row: usize) -> Fields {
        let owned = |column: Option<&StringViewArray>| column.and_then(|column| value(column, row)).map(str::to_owned);
        Fields {
            id: owned(Some(&self.id)),
            contents: owned(self.contents.as_ref()),
            title: owned(self.title.as_ref()),
            text: owned(self.text.as_ref()),
        }
    }
}

fn value(column: &StringViewArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

/// The decoders return errors for nearly all damage; a panic in them is one more error.
fn guarded<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("data that the decoder cannot make sense of".into()),
    }
}

fn damage(path: &Path, format: &str, found: String) -> Error {
    Error::File {
        path: path.to_path_buf(),
        expected: format!("{format} that is whole and readable"),
        found,
        remedy: "restore it from its source, or write it again without unusual compression".into(),
    }
}

fn check_schema(path: &Path, schema: &Schema) -> Result<()> {
    let refuse = |expected: &str, found: String| {
        Err(Error::File {
            path: path.to_path_buf(),
            expected: expected.into(),
            found,
            remedy: "rename or convert the columns".into(),
        })
    };
    let has = |name| schema.index_of(name).is_ok();
    if !(has("id") || has("_id")) || !(has("contents") || has("text")) {
        let names = schema.fields().iter().take(20).map(|field| format!("`{}`", field.name())).collect::<Vec<_>>();
        return refuse(&format!("the columns {SHAPES}"), format!("the columns {}", names.join(", ")));
    }
    for field in COLUMNS.iter().filter_map(|name| schema.field_with_name(name).ok()) {
        let integer_id = field.data_type().is_integer() && matches!(field.name().as_str(), "id" | "_id");
        if !is_text(field.data_type()) && !integer_id {
            let found = format!("the column `{}` of type {}", field.name(), field.data_type());
            return refuse("columns of strings, and an id of strings or integers", found);
        }
    }
    Ok(())
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Refuses column chunks that claim to expand beyond reason, and those whose pages do.
fn check_sizes(path: &Path, file: &File, metadata: &ParquetMetaData) -> Result<(), String> {
    let failed = |error: io::Error| format!("`{}` that cannot be read again ({error})", path.display());
    let mut file = BufReader::with_capacity(4096, file.try_clone().map_err(failed)?);
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let name = column.column_path().string();
            if !COLUMNS.contains(&name.as_str()) {
                continue;
            }
            let compressed = u64::try_from(column.compressed_size()).unwrap_or(u64::MAX);
            let whole = u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX);
            let found = if whole > FREE_EXPANSION.max(compressed.saturating_mul(MAX_RATIO)) {
                format!("data that expands from {compressed} to {whole} bytes, more than {MAX_RATIO} times")
            } else if let Err(found) = pages::check(&mut file, column) {
                found
            } else {
                continue;
            };
            return Err(format!("{found}, in column `{name}` of row group {group}"));
        }
    }
    Ok(())
}
