//! Are two corpora the same? A hash over rows, whatever the file format, the compression and the batch size.

use crate::Passage;

/// BLAKE3 over each row: the id, whether there is a title, the title, the text; strings behind their length (u64,
/// little-endian), so that no two lists of rows give the same bytes.
pub(super) struct CorpusHasher {
    hasher: blake3::Hasher,
    /// BLAKE3 is fastest on long inputs; rows are short.
    buffer: Vec<u8>,
}

impl CorpusHasher {
    pub fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hindsearch corpus 1\n");
        Self { hasher, buffer: Vec::new() }
    }

    pub fn update(&mut self, passage: &Passage) {
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

    pub fn finish(mut self) -> String {
        self.hasher.update(&self.buffer);
        self.hasher.finalize().to_hex().to_string()
    }

    fn string(&mut self, text: &str) {
        self.buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(text.as_bytes());
    }
}
