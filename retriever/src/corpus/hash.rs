//! Are two corpora the same? A hash over rows, whatever the file format, the compression and the batch size.

use hindsearch_indexes::{Interrupt, OnProgress};

use super::source::Source;
use super::store::CorpusSummary;
use crate::{Passage, Result};

/// BLAKE3 over each row: the id, whether there is a title, the title, the text; strings behind their length (u64,
/// little-endian), so that no two lists of rows give the same bytes.
pub(super) struct CorpusHasher {
    hasher: blake3::Hasher,
    /// BLAKE3 is fastest on long inputs; rows are short.
    buffer: Vec<u8>,
    rows: u64,
    bytes: u64,
}

impl CorpusSummary {
    /// The summary of what `source` gives, without writing anything. Progress in bytes of the input.
    ///
    /// # Errors
    /// Those of the source; interrupted.
    pub fn read(source: &mut dyn Source, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<Self> {
        let mut hasher = CorpusHasher::new();
        while let Some(passage) = source.next().transpose()? {
            hasher.update(&passage);
            if hasher.rows.is_multiple_of(1024) {
                interrupt.check()?;
                progress(source.progress());
            }
        }
        Ok(hasher.finish())
    }
}

impl CorpusHasher {
    pub fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hindsearch corpus 1\n");
        Self { hasher, buffer: Vec::new(), rows: 0, bytes: 0 }
    }

    pub fn update(&mut self, passage: &Passage) {
        self.rows += 1;
        self.string(&passage.id);
        self.buffer.push(u8::from(passage.title.is_some()));
        if let Some(title) = &passage.title {
            self.string(title);
        }
        self.string(&passage.text);
        if self.buffer.len() >= 256 << 10 {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    pub fn finish(mut self) -> CorpusSummary {
        self.hasher.update(&self.buffer);
        let blake3 = self.hasher.finalize().to_hex().to_string();
        CorpusSummary { rows: self.rows, blake3, bytes: self.bytes }
    }

    fn string(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(text.as_bytes());
    }
}
