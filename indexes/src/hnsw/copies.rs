//! Rows with equal codes, of which the graph holds one.
//!
//! Nodes at distance zero fill each other's links and become an island that no walk reaches. So the first row of
//! each code stands in the graph for the later ones.

use std::path::Path;

use crate::bytes::u64_at;
use crate::{Error, Result};

/// Bytes of a pair.
pub const PAIR: usize = 16;

/// The rows that are not in the graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Copies {
    /// The row in the graph, and a later one with its code; in order.
    pairs: Vec<(u64, u64)>,
}

impl Copies {
    /// Finds copies among rows with the `hashes` of their codes. Hashes may collide: `equal` compares the codes.
    pub fn find(mut hashes: Vec<(u64, u64)>, equal: impl Fn(u64, u64) -> bool) -> Self {
        hashes.sort_unstable();
        let mut pairs = Vec::new();
        for group in hashes.chunk_by(|(a, _), (b, _)| a == b) {
            let [(_, first), later @ ..] = group else { continue };
            pairs.extend(later.iter().filter(|(_, row)| equal(*first, *row)).map(|(_, row)| (*first, *row)));
        }
        pairs.sort_unstable();
        Self { pairs }
    }

    /// How many rows are not in the graph.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The rows that `first` stands for.
    pub fn of(&self, first: u64) -> impl Iterator<Item = u64> {
        let start = self.pairs.partition_point(|(row, _)| *row < first);
        self.pairs[start..].iter().take_while(move |(row, _)| *row == first).map(|(_, copy)| *copy)
    }

    /// All rows that are not in the graph, in order.
    pub fn rows(&self) -> Vec<u64> {
        let mut rows: Vec<u64> = self.pairs.iter().map(|(_, copy)| *copy).collect();
        rows.sort_unstable();
        rows
    }

    /// The stored form.
    pub fn encode(&self) -> impl Iterator<Item = u8> {
        self.pairs.iter().flat_map(|(first, copy)| [first.to_le_bytes(), copy.to_le_bytes()]).flatten()
    }

    /// Reads pairs of rows below `rows` from `bytes` of the file at `path`.
    pub fn decode(path: &Path, bytes: &[u8], rows: u64) -> Result<Self> {
        let pairs: Vec<(u64, u64)> = bytes.chunks_exact(PAIR).map(|pair| (u64_at(pair, 0), u64_at(pair, 8))).collect();
        let sound = |(first, copy): &(u64, u64)| first < copy && *copy < rows;
        if !pairs.is_sorted() || !pairs.iter().all(sound) {
            return Err(Error::Corrupt {
                path: path.into(),
                expected: format!("copies in order, of rows below {rows}"),
                found: "others".into(),
            });
        }
        Ok(Self { pairs })
    }
}
