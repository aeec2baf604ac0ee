//! How many bytes does an index have, by its kind: in files, in memory, and in the page cache?

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::matrix::MatrixSpec;
use crate::quantized::{CodesShape, ROWS_PER_LIST};
use crate::{ElementType, Error, HnswBuilder, IndexKind, Result};

/// Bytes of a row in a file of ids: the hash of its id, and its number.
const ID_BYTES: u64 = 16;

/// The layout of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The vectors alone.
    Flat,
    /// Vectors and a graph with this many links a node.
    Hnsw {
        /// Links of a node, `M`.
        connectivity: usize,
    },
    /// Lists of codes of one bit a value, and the vectors that rescore what these find.
    Quantized,
}

impl Layout {
    /// That of an index kind.
    pub fn of(kind: IndexKind, connectivity: usize) -> Self {
        match kind {
            IndexKind::Flat => Self::Flat,
            IndexKind::Hnsw => Self::Hnsw { connectivity },
            IndexKind::Quantized => Self::Quantized,
        }
    }

    /// What `rows` vectors of `dimensions` values take.
    pub fn footprint(self, element_type: ElementType, rows: u64, dimensions: usize) -> Footprint {
        let per_row = |bytes: u64| rows.saturating_mul(bytes);
        let vectors = MatrixSpec::new(dimensions, element_type).length_of(rows);
        let mut files = vec![File { name: "vectors", bytes: vectors, held: Held::Mapped }];
        match self {
            // A scan reads every row, of those in two planes the first.
            Self::Flat => {
                let fine = per_row(MatrixSpec::new(dimensions, element_type).fine_bytes() as u64);
                files[0] = File { name: "vectors", bytes: vectors.saturating_sub(fine), held: Held::Needed };
                if fine > 0 {
                    files.push(File { name: "second plane", bytes: fine, held: Held::Mapped });
                }
            }
            Self::Hnsw { connectivity } => {
                let bytes = HnswBuilder::file_bytes(rows, dimensions, connectivity);
                files.push(File { name: "graph", bytes, held: Held::Needed });
            }
            Self::Quantized => {
                let lists = rows.div_ceil(ROWS_PER_LIST as u64);
                let shape = CodesShape { dimensions, rows, slots: rows, lists };
                let numbers = per_row(size_of::<u32>() as u64);
                let bytes = shape.file_bytes().unwrap_or(u64::MAX).saturating_sub(numbers);
                files.push(File { name: "codes", bytes, held: Held::Needed });
                files.push(File { name: "row numbers", bytes: numbers, held: Held::Mapped });
            }
        }
        files.push(File { name: "ids", bytes: per_row(ID_BYTES), held: Held::Mapped });
        Footprint { files }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Hnsw { .. } => "hnsw",
            Self::Quantized => "quantized",
        })
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// A layout with the usual settings.
    fn from_str(text: &str) -> Result<Self> {
        let connectivity = HnswBuilder::default().connectivity;
        let known = [Self::Flat, Self::Hnsw { connectivity }, Self::Quantized];
        known.into_iter().find(|layout| layout.to_string() == text).ok_or_else(|| Error::InvalidInput {
            what: "index kind".into(),
            expected: "`flat`, `hnsw` or `quantized`".into(),
            found: format!("`{text}`"),
        })
    }
}

/// The files of an index and their bytes, but for the passages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Footprint {
    /// By file.
    pub files: Vec<File>,
}

/// A file, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct File {
    /// What it holds.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// Where searching needs it.
    pub held: Held,
}

/// Where bytes must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Held {
    /// In memory: every search touches much of them.
    Needed,
    /// On disk, with the pages in use in the page cache: a search touches a few of them.
    Mapped,
}

impl Footprint {
    /// Bytes of all files.
    pub fn disk(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Bytes that searches need in memory.
    pub fn memory(&self) -> u64 {
        self.of(Held::Needed)
    }

    /// Bytes that the page cache holds at most, where there is memory for them.
    pub fn page_cache(&self) -> u64 {
        self.of(Held::Mapped)
    }

    /// Bytes of one file; 0 where the index has none of this name.
    pub fn file(&self, name: &str) -> u64 {
        self.files.iter().find(|file| file.name == name).map_or(0, |file| file.bytes)
    }

    fn of(&self, held: Held) -> u64 {
        self.files.iter().filter(|file| file.held == held).fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}
