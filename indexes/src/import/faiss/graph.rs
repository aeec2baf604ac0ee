//! HNSW in faiss: the graph is held against the number of rows and passed over; the vectors stand behind it.

use super::super::Contents;
use super::super::cursor::Cursor;
use super::{AGAIN, Header, agree, index};
use crate::Result;

/// Layers of a graph, at most: each has about 1/M of the nodes of the one below.
const MAX_LAYERS: u64 = 256;

pub(super) fn read(cursor: &mut Cursor<'_>, letters: [u8; 4], depth: usize) -> Result<Contents> {
    let header = Header::read(cursor)?;
    let layers = cursor.vector("chances of layers", 8)?.count;
    let sums = cursor.vector("links by layer", 4)?.count;
    if layers > MAX_LAYERS || sums > MAX_LAYERS {
        return Err(cursor.refuse(format!("at most {MAX_LAYERS} layers"), layers.max(sums).to_string(), AGAIN));
    }
    cursor.vector_of("layers of nodes", header.rows, 4)?;
    let offsets = cursor.vector_of("places of links", header.rows.saturating_add(1), 8)?;
    let mut links = [0; 8];
    cursor.parts().read_at(offsets + header.rows * 8, &mut links)?;
    cursor.vector_of("links", u64::from_le_bytes(links), 4)?;
    // Entry point, highest layer, two widths of search, and one that is no longer used.
    cursor.skip("the end of the graph", 5, 4)?;
    if cursor.peek().starts_with(b"null") {
        return Err(cursor.refuse(
            "the vectors behind the graph".into(),
            "a graph that was written without its vectors".into(),
            "import the flat index that belongs to it",
        ));
    }
    let inner = index(cursor, depth + 1)?;
    agree(cursor, &header, &inner)?;
    Ok(Contents { format: format!("{} under a graph ({})", inner.format, letters.escape_ascii()), ..inner })
}
