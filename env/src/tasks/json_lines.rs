//! How do lines of JSON, perhaps compressed, become rows, and rows lines?

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde_json::Value;

use super::read::{GZIP, ZSTD, has_extension};
use crate::{Error, Result};

/// Bytes of a line, at most.
const MAX_LINE: usize = 64 << 20;

/// Calls `take` with each object and the number of its line.
pub(super) fn read(path: &Path, take: &mut dyn FnMut(u64, Value) -> Result<()>) -> Result<()> {
    read_lines(path, &mut |number, line| take(number, object(path, number, line)?))
}

/// Calls `take` with each line that is not blank and its number from 1, without its end.
pub(super) fn read_lines(path: &Path, take: &mut dyn FnMut(u64, &str) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut file = BufReader::with_capacity(256 << 10, file);
    let magic = file.fill_buf().map_err(Error::io("read", path))?;
    let stream: Box<dyn Read> = match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(Error::io("read", path))?)
        }
        _ => Box::new(file),
    };
    each_line(path, &mut BufReader::with_capacity(256 << 10, stream), take)
}

pub(super) fn each_line(
    path: &Path,
    stream: &mut dyn BufRead,
    take: &mut dyn FnMut(u64, &str) -> Result<()>,
) -> Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        let bad = |expected: &str, found: String| {
            Err(Error::Line { path: path.to_path_buf(), line: number, expected: expected.into(), found })
        };
        line.clear();
        match (&mut *stream).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.len() > MAX_LINE => return bad("a line of at most 64 MiB", "a longer one".into()),
            Ok(_) => {}
            Err(error) if error.raw_os_error().is_some() => return Err(Error::io("read", path)(error)),
            Err(error) => return bad("compressed data that is whole", format!("damage ({error})")),
        }
        let bytes = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line) } else { &line };
        match str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => take(number, text.trim_end_matches(['\r', '\n']))?,
            Err(error) => return bad("UTF-8", format!("a broken character at byte {}", error.valid_up_to())),
        }
    }
    Ok(())
}

pub(super) fn object(path: &Path, number: u64, line: &str) -> Result<Value> {
    let bad =
        |found| Err(Error::Line { path: path.to_path_buf(), line: number, expected: "one JSON object".into(), found });
    match serde_json::from_str(line) {
        Ok(row @ Value::Object(_)) => Ok(row),
        Ok(_) => bad("another JSON value".into()),
        // Its own message counts lines from the start of this one.
        Err(error) if error.is_eof() => bad("a line that ends early".into()),
        Err(error) => bad(format!("a fault at byte {}", error.column())),
    }
}

/// Writes rows to `file`, compressed as the name `path` says.
pub(super) fn write(file: File, path: &Path, rows: impl Iterator<Item = Value>) -> io::Result<File> {
    if has_extension(path, &GZIP) {
        let encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        return lines(encoder, rows)?.finish();
    }
    if has_extension(path, &ZSTD) {
        return lines(zstd::stream::write::Encoder::new(file, 0)?, rows)?.finish();
    }
    lines(file, rows)
}

fn lines<W: Write>(out: W, rows: impl Iterator<Item = Value>) -> io::Result<W> {
    let mut out = BufWriter::new(out);
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}
