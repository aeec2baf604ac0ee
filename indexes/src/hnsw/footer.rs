//! The end of a graph file, and what follows from it.
//!
//! It stands at the end because the library writes its part of the file itself, and writing that part anywhere but
//! to the start of a file would need the whole graph a second time in memory.

use std::path::Path;

use super::codes::Codes;
use super::copies::{Copies, PAIR};
use crate::bytes::{PAGE, u32_at, u64_at};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"HSGRAPH\0";
const VERSION: u32 = 1;
/// The footer's checksum fills the end of its page.
const CHECKSUM_AT: usize = PAGE - blake3::OUT_LEN;

/// What a graph file says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Footer {
    /// Rows of the matrix; the nodes of the graph are fewer by the copies.
    pub rows: u64,
    pub connectivity: usize,
    pub expansion_add: usize,
    /// Bytes of the library's part, at the start of the file.
    pub graph_length: usize,
    pub codes: Codes,
    pub copies: Copies,
}

impl Footer {
    /// The bytes after the library's part: the copies, the mean and the last page, each from the start of a page.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.graph_length.next_multiple_of(PAGE) - self.graph_length];
        let start = bytes.len();
        bytes.extend(self.copies.encode());
        bytes.resize(start + (bytes.len() - start).next_multiple_of(PAGE), 0);
        bytes.extend(self.codes.mean.iter().flat_map(|x| x.to_le_bytes()));
        bytes.resize(start + (bytes.len() - start).next_multiple_of(PAGE), 0);
        let page_at = bytes.len();
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.codes.scale.to_le_bytes());
        let dimensions = self.codes.dimensions();
        let numbers = [dimensions, self.connectivity, self.expansion_add, self.graph_length, self.copies.len()];
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()));
        bytes.resize(page_at + PAGE, 0);
        let checksum = checksum(&bytes[start..]);
        bytes[page_at + CHECKSUM_AT..].copy_from_slice(checksum.as_bytes());
        bytes
    }

    /// Reads the footer of `file`, the whole contents of `path`.
    pub fn decode(path: &Path, file: &[u8]) -> Result<Self> {
        let corrupt =
            |expected: &str, found: String| Error::Corrupt { path: path.into(), expected: expected.into(), found };
        let short = || corrupt("a graph and its footer", format!("a file of {} bytes", file.len()));
        let page_at = file.len().checked_sub(PAGE).ok_or_else(short)?;
        let page = &file[page_at..];
        if page[..8] != MAGIC {
            return Err(corrupt("a last page that begins with `HSGRAPH`", "other bytes".into()));
        }
        let version = u32_at(page, 8);
        if version != VERSION {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: format!("graph format {VERSION}"),
                found: format!("format {version}"),
                remedy: "build the index again, or use the release that wrote it".into(),
            });
        }
        let number = |at| usize::try_from(u64_at(page, at)).ok();
        let numbers = [24, 32, 40, 48, 56].map(number);
        let [Some(dimensions), Some(connectivity), Some(expansion_add), Some(graph_length), Some(copies)] = numbers
        else {
            return Err(short());
        };
        // The parts before the last page, from the end: each must begin where the one before it ends.
        let before = |end: usize, count: usize, size: usize| {
            let length = count.checked_mul(size)?;
            let start = end.checked_sub(length.checked_next_multiple_of(PAGE)?)?;
            Some((start, start + length))
        };
        let (mean_at, mean_end) = before(page_at, dimensions, size_of::<f32>()).ok_or_else(short)?;
        let (copies_at, copies_end) = before(mean_at, copies, PAIR).ok_or_else(short)?;
        if graph_length.checked_next_multiple_of(PAGE) != Some(copies_at) {
            return Err(short());
        }
        if checksum(&file[copies_at..]).as_bytes() != &page[CHECKSUM_AT..] {
            return Err(corrupt("a footer with its checksum", "another checksum".into()));
        }
        let rows = u64_at(page, 16);
        let copies = Copies::decode(path, &file[copies_at..copies_end], rows)?;
        let mean = file[mean_at..mean_end].chunks_exact(4).map(|x| f32::from_bits(u32_at(x, 0))).collect();
        let codes = Codes { mean, scale: f32::from_bits(u32_at(page, 12)) };
        Ok(Self { rows, connectivity, expansion_add, graph_length, codes, copies })
    }
}

/// The hash of the copies, the mean and the last page, but for the hash itself.
fn checksum(bytes: &[u8]) -> blake3::Hash {
    blake3::hash(&bytes[..bytes.len() - blake3::OUT_LEN])
}
