//! Do the pages of a Parquet file claim sizes that the file cannot have? The decoder reserves what a page header
//! says before it looks at the page, so headers are checked first.
//!
//! A page header is a struct in Thrift's compact protocol: fields as (type, id) and value, ended by a zero byte.
//! Source: `parquet.thrift` of the format, and Thrift's compact protocol specification.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use parquet::file::metadata::ColumnChunkMetaData;

use super::lines::{FREE_EXPANSION, MAX_RATIO};

/// Structs within structs in a page header; two are in use.
const MAX_DEPTH: u32 = 8;

/// Walks the page headers of a column chunk; what is wrong with them, if anything is.
pub(super) fn check(file: &mut BufReader<File>, column: &ColumnChunkMetaData) -> Result<(), String> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
    let (start, length) = range.ok_or("a column chunk at a negative place")?;
    file.seek(SeekFrom::Start(start)).map_err(|error| error.to_string())?;
    let mut left = length;
    while left > 0 {
        let mut header = Header { input: file.by_ref().take(left), sizes: PageSizes::default() };
        header.fields(0, None).map_err(|error| format!("a page header that cannot be read ({error})"))?;
        let PageSizes { whole, compressed, dictionary } = header.sizes;
        left = header.input.limit();
        let reserved = u64::try_from(whole).ok().zip(u64::try_from(compressed).ok());
        let (whole, compressed) = reserved.ok_or("a page of negative size")?;
        if compressed > left {
            return Err(format!("a page of {compressed} bytes where {left} are left"));
        }
        if whole > FREE_EXPANSION.max(compressed.saturating_mul(MAX_RATIO)) {
            return Err(format!("a page that expands from {compressed} to {whole} bytes, more than {MAX_RATIO} times"));
        }
        // A value of a dictionary takes four bytes or more: its length, or an integer.
        if u64::try_from(dictionary).is_ok_and(|values| values.saturating_mul(4) > whole) {
            return Err(format!("a dictionary of {dictionary} values in {whole} bytes"));
        }
        left -= compressed;
        // At most 2 GiB: the format's sizes are 32-bit integers.
        file.seek_relative(compressed as i64).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The fields of a page header that decide how much memory is reserved.
#[derive(Default)]
struct PageSizes {
    whole: i64,
    compressed: i64,
    dictionary: i64,
}

struct Header<R> {
    input: R,
    sizes: PageSizes,
}

impl<R: Read> Header<R> {
    /// Reads a struct to its end; `parent` is the field of the page header that holds it.
    fn fields(&mut self, depth: u32, parent: Option<i64>) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other("nested too deeply"));
        }
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = if head >> 4 == 0 { self.integer()? } else { id.saturating_add(i64::from(head >> 4)) };
            let kind = head & 0xf;
            if !matches!(kind, 4..=6) {
                self.skip(kind, depth, (depth == 0).then_some(id))?;
                continue;
            }
            let value = self.integer()?;
            match (parent, depth, id) {
                (None, 0, 2) => self.sizes.whole = value,
                (None, 0, 3) => self.sizes.compressed = value,
                // dictionary_page_header.num_values
                (Some(7), 1, 1) => self.sizes.dictionary = value,
                _ => {}
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: u32, field: Option<i64>) -> io::Result<()> {
        match kind {
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.integer().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.varint()?;
                self.bytes(length)
            }
            12 => self.fields(depth + 1, field),
            _ => Err(io::Error::other(format!("a field of type {kind}"))),
        }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn bytes(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
        if skipped == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn integer(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(io::Error::other("an integer of more than ten bytes"))
    }
}
