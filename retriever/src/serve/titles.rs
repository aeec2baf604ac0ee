//! Which passages have this title? For whole pages, of which the corpus knows no more than their passages' titles.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::Result;
use crate::corpus::Corpus;

/// Rows by the hash of their title: 16 bytes a passage.
pub(super) struct Titles {
    rows: Vec<(u64, u64)>,
}

impl Titles {
    /// Reads all titles.
    pub fn read(corpus: &Corpus) -> Result<Self> {
        let mut rows = Vec::new();
        for row in corpus.rows() {
            rows.push((hash(corpus.get(row)?.display_title()), row));
        }
        rows.sort_unstable();
        Ok(Self { rows })
    }

    /// The rows of the passages with this title, in order; none for no title.
    pub fn rows_of(&self, title: &str, corpus: &Corpus) -> Result<Vec<u64>> {
        let hash = hash(title);
        let start = self.rows.partition_point(|(other, _)| *other < hash);
        let mut found = Vec::new();
        for (_, row) in self.rows[start..].iter().take_while(|(other, _)| *other == hash) {
            // Another title may have the same hash.
            if corpus.get(*row)?.display_title() == title {
                found.push(*row);
            }
        }
        Ok(found)
    }
}

fn hash(title: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    title.hash(&mut hasher);
    hasher.finish()
}
