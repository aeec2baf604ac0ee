//! Which part of a generation's rows is in which files?
//!
//! A generation has one or more shards. Those that were there before an append are taken over as they are, so that growth
//! costs what the new rows cost. The files of the first shard have the bare names (`vectors`), those of the n-th end in
//! `.n` (`vectors.2`). Rows are counted through all shards.

use std::path::{Path, PathBuf};

/// A run of rows with files of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    /// The row of the whole index that is the first here.
    pub first_row: u64,
    /// Rows here, deleted ones too.
    pub rows: u64,
}

impl Shard {
    /// Where its files are in the folder of a generation.
    pub fn files(self, folder: &Path) -> ShardFiles<'_> {
        ShardFiles { folder, number: self.number }
    }
}

/// The files of one shard in the folder of a generation.
#[derive(Debug, Clone, Copy)]
pub struct ShardFiles<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// The shard, from 1.
    pub number: usize,
}

impl ShardFiles<'_> {
    /// The path of a file: of `vectors`, say.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(shard_file(name, self.number))
    }
}

/// Those of the first shard.
impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for ShardFiles<'a> {
    fn from(folder: &'a P) -> Self {
        Self { folder: folder.as_ref(), number: 1 }
    }
}

/// The name of shard `number`'s file `name`.
pub fn shard_file(name: &str, number: usize) -> String {
    if number <= 1 { name.to_owned() } else { format!("{name}.{number}") }
}

/// The name and the number of the shard that make up a file name: `vectors` and 2 of `vectors.2`.
pub fn split_shard_file(file: &str) -> (&str, usize) {
    let split = file.rsplit_once('.').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    split.filter(|(name, number)| *number > 1 && shard_file(name, *number) == file).unwrap_or((file, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shards_come_back_from_file_names() {
        for (name, number, file) in [("vectors", 1, "vectors"), ("vectors", 2, "vectors.2"), ("ids", 10, "ids.10")] {
            assert_eq!(shard_file(name, number), file);
            assert_eq!(split_shard_file(file), (name, number));
        }
        for other in ["vectors.1", "vectors.0", "vectors.02", "vectors.tmp", "vectors.", ".2"] {
            assert_eq!(split_shard_file(other).1, if other == ".2" { 2 } else { 1 }, "{other}");
        }
    }
}
