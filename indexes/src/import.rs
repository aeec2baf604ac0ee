//! How do vectors that another program made come in, without being embedded again?
//!
//! Files are told apart by their bytes, never by their names. Whatever a file claims is held against its length before
//! anything is allocated. The formats of faiss are those of its `index_write.cpp` (1.15), NumPy's that of NEP 1.

mod coding;
mod cursor;
pub(crate) mod faiss;
mod foreign;
pub(crate) mod npy;
mod parts;
mod places;
mod raw;
mod tally;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use coding::Coding;
use cursor::Cursor;
use parts::Parts;
use places::Places;
pub use tally::Tally;

use crate::{Error, Result, Vectors};

/// Bytes read at once.
const BUFFER: usize = 4 << 20;
/// Values of a vector, at most: beyond it a header is wrong.
const MAX_DIMENSIONS: u64 = 1 << 20;

/// How a file's own search compares vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Inner product, or nothing is said, as in arrays.
    InnerProduct,
    /// Squared distance: ranks as the inner product does where all vectors have one length.
    Distance,
}

/// Vectors in files of another program: a faiss index, NumPy arrays or a raw array of `f32`.
///
/// Memory is that of the rows asked for and a buffer of 4 MiB. Where a file keeps its rows in another order (inverted
/// lists, an id map), a table of 8 bytes a row comes on top.
#[derive(Debug)]
pub struct VectorFile {
    files: Vec<OneFile>,
    rows: u64,
    dimensions: usize,
}

/// One file, perhaps in parts.
#[derive(Debug)]
struct OneFile {
    parts: Parts,
    contents: Contents,
    /// The first of its rows, among those of all files.
    first: u64,
}

/// What a file's header tells.
#[derive(Debug)]
struct Contents {
    format: String,
    comparison: Comparison,
    rows: u64,
    dimensions: usize,
    coding: Coding,
    places: Places,
}

impl VectorFile {
    /// Opens `paths` in this order. A path whose file begins as a NumPy array or a faiss index does begins a new file;
    /// any other is the next part of the one before it, as `split` makes them. Files without a known beginning are one raw
    /// array of little-endian `f32` with `dimensions` values a row; for all others `dimensions` is not looked at.
    ///
    /// # Errors
    /// [`Error::Incompatible`] for a format that is not read, a damaged header, missing or trailing bytes, with the
    /// numbers and what to do; [`Error::InvalidInput`] without a path; [`Error::Io`].
    pub fn open(paths: &[PathBuf], dimensions: usize) -> Result<Self> {
        let mut files: Vec<OneFile> = Vec::new();
        let mut rows = 0_u64;
        for parts in Parts::open(paths)? {
            let contents = read_header(&parts, dimensions)?;
            if let Some(first) = files.first()
                && first.contents.dimensions != contents.dimensions
            {
                return Err(parts.refuse(
                    format!("{} values a row, as in `{}`", first.contents.dimensions, first.parts.path().display()),
                    format!("{} values a row", contents.dimensions),
                    "give files of one model",
                ));
            }
            let first = rows;
            rows = rows.saturating_add(contents.rows);
            files.push(OneFile { parts, contents, first });
        }
        match files.first().map(|file| file.contents.dimensions) {
            Some(dimensions) => Ok(Self { files, rows, dimensions }),
            None => Err(Error::InvalidInput {
                what: "vector files".into(),
                expected: "at least one".into(),
                found: "none".into(),
            }),
        }
    }

    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Values in a row.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.parts.length()).sum()
    }

    /// The format in words: that of the first file, and how many there are.
    pub fn format(&self) -> String {
        let format = self.files.first().map(|file| file.contents.format.as_str()).unwrap_or_default();
        if self.files.len() > 1 { format!("{} files, the first {format}", self.files.len()) } else { format.into() }
    }

    /// How the file's own search compares.
    pub fn comparison(&self) -> Comparison {
        let distance = self.files.iter().any(|file| file.contents.comparison == Comparison::Distance);
        if distance { Comparison::Distance } else { Comparison::InnerProduct }
    }

    /// The file that holds a row, for messages; the first one for a row that there is not.
    pub fn path_of(&self, row: u64) -> &Path {
        let at = self.files.partition_point(|file| file.first <= row).saturating_sub(1);
        self.files.get(at).map_or(Path::new(""), |file| file.parts.path())
    }

    /// The vectors of `rows`, as they stand in the file: nothing is scaled, and values may be no numbers.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for rows that there are not, [`Error::Io`].
    pub fn read(&self, rows: Range<u64>) -> Result<Vectors> {
        let outside = || Error::InvalidInput {
            what: format!("rows {}..{} of `{}`", rows.start, rows.end, self.path_of(0).display()),
            expected: format!("rows below {}", self.rows),
            found: "others".into(),
        };
        if rows.start > rows.end || rows.end > self.rows {
            return Err(outside());
        }
        let count = usize::try_from(rows.end - rows.start).map_err(|_| outside())?;
        let mut values = vec![0.0; count.checked_mul(self.dimensions).ok_or_else(outside)?];
        let mut rest = values.as_mut_slice();
        for file in &self.files {
            let (start, end) = (rows.start.max(file.first), rows.end.min(file.first + file.contents.rows));
            if start < end {
                let (these, others) = rest.split_at_mut((end - start) as usize * self.dimensions);
                file.read(start - file.first, these)?;
                rest = others;
            }
        }
        Vectors::new(self.dimensions, values)
    }
}

impl OneFile {
    /// Fills `out` with whole rows from row `first` on.
    fn read(&self, first: u64, out: &mut [f32]) -> Result<()> {
        let Contents { dimensions, coding, places, .. } = &self.contents;
        let row_bytes = coding.row_bytes(*dimensions);
        let at_once = (BUFFER / row_bytes).max(1);
        let mut buffer = vec![0; row_bytes * at_once.min(out.len() / dimensions)];
        for (out, first) in out.chunks_mut(dimensions * at_once).zip((first..).step_by(at_once)) {
            let rows = out.len() / dimensions;
            let bytes = &mut buffer[..rows * row_bytes];
            match places {
                Places::InOrder(start) => self.parts.read_at(start + first * row_bytes as u64, bytes)?,
                Places::Table(table) => {
                    let places = table.iter().skip(first as usize);
                    for (bytes, place) in bytes.chunks_exact_mut(row_bytes).zip(places) {
                        self.parts.read_at(*place, bytes)?;
                    }
                }
            }
            coding.decode(*dimensions, bytes, out);
        }
        Ok(())
    }
}

fn read_header(parts: &Parts, dimensions: usize) -> Result<Contents> {
    let cursor = Cursor::new(parts);
    match cursor.peek() {
        start if start.starts_with(npy::MAGIC) => npy::contents(cursor),
        start if faiss::begins(start) => faiss::contents(cursor),
        start => match foreign::name(start) {
            // The bytes of numbers can look like anything; those of a whole array of them seldom have its length.
            Some(found) if !raw::fits(parts.length(), dimensions) => {
                Err(parts.refuse(foreign::READ.into(), found.format.into(), found.remedy))
            }
            _ => raw::contents(parts, dimensions),
        },
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InnerProduct => "inner product",
            Self::Distance => "distance",
        })
    }
}
