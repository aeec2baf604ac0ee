//! How does Parquet become rows, and rows Parquet that pandas and verl read?

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field as Column, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Rows that are turned into columns at once.
const ROWS_AT_ONCE: usize = 4096;

/// Calls `take` with each row and its number from 1.
pub(super) fn read(path: &Path, take: &mut dyn FnMut(u64, Value) -> Result<()>) -> Result<()> {
    let bad = |line, found| Error::Line {
        path: path.to_path_buf(),
        line,
        expected: "Parquet that is whole and readable".into(),
        found,
    };
    let file = File::open(path).map_err(Error::io("open", path))?;
    let open = || Ok(RowIter::from_file_into(Box::new(SerializedFileReader::new(file)?)));
    let mut rows = guarded(open).map_err(|found| bad(1, found))?;
    for line in 1.. {
        match guarded(|| rows.next().transpose()).map_err(|found| bad(line, found))? {
            Some(row) => take(line, object(&row))?,
            None => break,
        }
    }
    Ok(())
}

/// The decoder returns errors for nearly all damage; a panic in it is one more error.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("data that the decoder cannot make sense of".into()),
    }
}

fn object(row: &Row) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
}

/// A field as JSON; kinds that no format of tasks has become null.
fn value(field: &Field) -> Value {
    match field {
        Field::Bool(truth) => (*truth).into(),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Float(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        _ => Value::Null,
    }
}

/// Writes rows to `file`, all with the columns of `example`.
pub(super) fn write(file: File, example: &Value, rows: impl Iterator<Item = Value>) -> Result<File, ParquetError> {
    let DataType::Struct(columns) = data_type(example) else {
        return Err(ParquetError::General("a row that is no object".into()));
    };
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let schema = Arc::new(Schema::new(columns.clone()));
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))?;
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let some: Vec<Value> = rows.by_ref().take(ROWS_AT_ONCE).collect();
        let some: Vec<Option<&Value>> = some.iter().map(Some).collect();
        let arrays = columns.iter().map(|column| child(column, &some)).collect();
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    }
    writer.into_inner()
}

/// The type of a JSON value in which nothing is missing.
fn data_type(value: &Value) -> DataType {
    match value {
        Value::Bool(_) => DataType::Boolean,
        Value::Number(_) => DataType::Int64,
        Value::Array(items) => {
            let item = items.first().map_or(DataType::Utf8, data_type);
            // The name that the Parquet format asks for.
            DataType::List(Arc::new(Column::new("element", item, true)))
        }
        Value::Object(fields) => DataType::Struct(columns(fields)),
        Value::String(_) | Value::Null => DataType::Utf8,
    }
}

fn columns(fields: &Map<String, Value>) -> Fields {
    fields.iter().map(|(name, value)| Column::new(name, data_type(value), true)).collect()
}

/// One field of all these objects.
fn child(column: &Column, rows: &[Option<&Value>]) -> ArrayRef {
    let values: Vec<_> = rows.iter().map(|row| row.and_then(|row| row.get(column.name()))).collect();
    array(column.data_type(), &values)
}

fn array(data_type: &DataType, values: &[Option<&Value>]) -> ArrayRef {
    match data_type {
        DataType::Boolean => {
            Arc::new(values.iter().map(|value| value.and_then(Value::as_bool)).collect::<BooleanArray>())
        }
        DataType::Int64 => Arc::new(values.iter().map(|value| value.and_then(Value::as_i64)).collect::<Int64Array>()),
        DataType::List(item) => {
            let lists: Vec<_> = values.iter().map(|value| value.and_then(Value::as_array)).collect();
            let lengths = lists.iter().map(|list| list.map_or(0, Vec::len));
            let items: Vec<_> = lists.iter().copied().flatten().flatten().map(Some).collect();
            let nulls = lists.iter().map(Option::is_some).collect::<NullBuffer>();
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(Arc::clone(item), offsets, array(item.data_type(), &items), Some(nulls)))
        }
        DataType::Struct(columns) => {
            let arrays = columns.iter().map(|column| child(column, values)).collect();
            let nulls = values.iter().map(|value| value.is_some_and(Value::is_object)).collect::<NullBuffer>();
            Arc::new(StructArray::new(columns.clone(), arrays, Some(nulls)))
        }
        _ => Arc::new(values.iter().map(|value| value.and_then(Value::as_str)).collect::<StringArray>()),
    }
}
