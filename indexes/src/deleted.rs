//! Which rows are no longer to be found? The specification is `FORMAT.md`, section `deleted`.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::bytes::{PAGE, u32_at, u64_at};
use crate::shards::Shard;
use crate::{Access, Error, MappedFile, Result};

const MAGIC: [u8; 8] = *b"HSDELETE";
const VERSION: u32 = 1;
/// The checksum fills the end of the header page.
const CHECKSUM_AT: usize = PAGE - blake3::OUT_LEN;
/// Rows of a word.
const BITS: u64 = u64::BITS as u64;

/// The deleted rows of a generation, one bit a row: 2.6 MB of memory for 21 million.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    rows: u64,
    words: Vec<u64>,
    count: u64,
}

impl Deleted {
    /// The name of the file in a generation: the only one that the next generation never takes over.
    pub const FILE: &str = "deleted";

    /// None of `rows` rows.
    pub fn none(rows: u64) -> Self {
        let words = usize::try_from(rows.div_ceil(BITS)).unwrap_or(usize::MAX);
        Self { rows, words: vec![0; words], count: 0 }
    }

    /// The same for an index with more rows, none of the new ones deleted.
    pub fn grown(mut self, rows: u64) -> Self {
        self.rows = rows.max(self.rows);
        self.words.resize(self.rows.div_ceil(BITS) as usize, 0);
        self
    }

    /// Rows in all, deleted ones too.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many are deleted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether `row` is deleted. One that the index does not have is not.
    pub fn contains(&self, row: u64) -> bool {
        self.words.get((row / BITS) as usize).is_some_and(|word| word >> (row % BITS) & 1 == 1)
    }

    /// Deletes `row`; false when it was deleted before, or is none of these rows.
    pub fn insert(&mut self, row: u64) -> bool {
        let new = row < self.rows && !self.contains(row);
        if new {
            self.words[(row / BITS) as usize] |= 1 << (row % BITS);
            self.count += 1;
        }
        new
    }

    /// How many of `rows` are deleted.
    pub fn count_in(&self, rows: Range<u64>) -> u64 {
        let end = rows.end.min(self.rows);
        let mut count = 0;
        let mut row = rows.start;
        while row < end {
            let next = ((row / BITS + 1) * BITS).min(end);
            let word = self.words[(row / BITS) as usize] >> (row % BITS);
            let kept = if next - row == BITS { word } else { word & ((1 << (next - row)) - 1) };
            count += u64::from(kept.count_ones());
            row = next;
        }
        count
    }

    /// The rows that are left, in order, from `first`.
    pub fn live_from(&self, first: u64) -> impl Iterator<Item = u64> {
        (first..self.rows).filter(|row| !self.contains(*row))
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        bytes.resize(PAGE, 0);
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        let checksum = checksum(&bytes);
        bytes[CHECKSUM_AT..PAGE].copy_from_slice(checksum.as_bytes());
        bytes
    }

    /// Reads the file `deleted` of a generation with so many `rows`, of which `count` are deleted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`] for other rows, another count or other bytes than were written,
    /// [`Error::Incompatible`] for another format version.
    pub fn read(folder: &Path, rows: u64, count: u64) -> Result<Self> {
        let path = folder.join(Self::FILE);
        let file = MappedFile::open(&path, Access::Sequential)?;
        let bytes = file.as_ref();
        let corrupt = |expected: String, found: String| Err(Error::Corrupt { path: path.clone(), expected, found });
        if bytes.len() < PAGE || bytes[..8] != MAGIC {
            return corrupt("a page that begins with `HSDELETE`".into(), format!("{} other bytes", bytes.len()));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(Error::Incompatible {
                path,
                expected: format!("deletion format {VERSION}"),
                found: format!("format {version}"),
                remedy: "build the index again, or use the release that wrote it".into(),
            });
        }
        let claimed = (u64_at(bytes, 16), u64_at(bytes, 24));
        if claimed != (rows, count) {
            let shape = |(rows, count): (u64, u64)| format!("{count} of {rows} rows deleted");
            return corrupt(shape((rows, count)), shape(claimed));
        }
        let length = rows.div_ceil(BITS).saturating_mul(8).saturating_add(PAGE as u64);
        if bytes.len() as u64 != length {
            return corrupt(format!("{length} bytes"), format!("{} bytes", bytes.len()));
        }
        if checksum(bytes).as_bytes() != &bytes[CHECKSUM_AT..PAGE] {
            return corrupt("the rows with their checksum".into(), "another checksum".into());
        }
        let words: Vec<u64> = bytes[PAGE..].chunks_exact(8).map(|word| u64_at(word, 0)).collect();
        let deleted = Self { rows, words, count };
        // The checksum vouches for what was written, not for the writer.
        let found: u64 = deleted.words.iter().map(|word| u64::from(word.count_ones())).sum();
        if (deleted.count_in(0..rows), found) != (count, count) {
            return corrupt(format!("{count} rows deleted of {rows}"), format!("{found} bits set"));
        }
        Ok(deleted)
    }
}

/// The hash of the file but for the hash itself.
fn checksum(bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..CHECKSUM_AT]);
    hasher.update(&bytes[PAGE..]);
    hasher.finalize()
}

/// The rows of one shard that can be found: all but the deleted.
#[derive(Debug, Clone)]
pub struct LiveRows {
    first_row: u64,
    rows: u64,
    live: u64,
    deleted: Option<Arc<Deleted>>,
}

impl LiveRows {
    /// All of `rows` rows.
    pub fn all(rows: u64) -> Self {
        Self { first_row: 0, rows, live: rows, deleted: None }
    }

    /// Those of `shard` that are not among the `deleted` rows of its generation.
    pub fn of(shard: Shard, deleted: Option<&Arc<Deleted>>) -> Self {
        let Shard { first_row, rows, .. } = shard;
        let dead = deleted.map_or(0, |deleted| deleted.count_in(first_row..first_row.saturating_add(rows)));
        // A shard without deleted rows need not look.
        let deleted = deleted.filter(|_| dead > 0).cloned();
        Self { first_row, rows, live: rows - dead, deleted }
    }

    /// Rows in all, deleted ones too.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that can be found.
    pub fn count(&self) -> u64 {
        self.live
    }

    /// Whether all rows can be found.
    pub fn is_whole(&self) -> bool {
        self.live == self.rows
    }

    /// Whether `row`, counted in the shard, can be found.
    pub fn contains(&self, row: u64) -> bool {
        row < self.rows && self.deleted.as_ref().is_none_or(|deleted| !deleted.contains(self.first_row + row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_agree_with_the_bits() {
        let mut deleted = Deleted::none(200);
        let rows = [0, 1, 63, 64, 65, 127, 128, 199];
        assert!(rows.iter().all(|row| deleted.insert(*row)));
        assert!(!deleted.insert(64) && !deleted.insert(200));
        for start in 0..=200 {
            for end in start..=201 {
                let expected = rows.iter().filter(|row| (start..end).contains(*row)).count() as u64;
                assert_eq!(deleted.count_in(start..end), expected, "{start}..{end}");
            }
        }
        assert_eq!(deleted.live_from(0).count(), 200 - rows.len());
        let grown = deleted.grown(1000);
        assert_eq!((grown.count(), grown.live_from(190).count()), (8, 809));
    }
}
