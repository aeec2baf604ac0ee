//! Indexes written by faiss: which parts of them are vectors?
//!
//! A file begins with four letters that name the kind. Indexes hold other indexes, so the whole is read recursively;
//! graphs and cells are passed over, for only the vectors come in.

mod graph;
mod lists;
mod names;
mod quantizer;

use super::cursor::Cursor;
use super::{Coding, Comparison, Contents, MAX_DIMENSIONS, Places};
use crate::{Error, Result};

/// Indexes within indexes, at most.
const MAX_DEPTH: usize = 4;
/// What faiss writes where it once had numbers.
const UNUSED: i64 = 1 << 20;
const AGAIN: &str = "fetch the file again, or write it again with `faiss.write_index`";

/// Whether a file with this beginning is a faiss index, of a kind that is read or of another.
pub(super) fn begins(start: impl AsRef<[u8]>) -> bool {
    start.as_ref().first_chunk().is_some_and(|letters| names::of(*letters).is_some())
}

/// Reads all of a file but its vectors.
pub(super) fn contents(mut cursor: Cursor<'_>) -> Result<Contents> {
    let contents = index(&mut cursor, 0)?;
    cursor.finish()?;
    Ok(contents)
}

fn index(cursor: &mut Cursor<'_>, depth: usize) -> Result<Contents> {
    let letters = cursor.take::<4>("the letters of a faiss index")?;
    if depth > MAX_DEPTH {
        return Err(cursor.refuse(format!("at most {MAX_DEPTH} indexes in one another"), "more".into(), AGAIN));
    }
    match &letters {
        b"IxFI" | b"IxF2" | b"IxFl" => flat(cursor, letters),
        b"IHNf" | b"IHNs" => graph::read(cursor, letters, depth),
        b"IxMp" | b"IxM2" => id_map(cursor, letters, depth),
        b"IxSQ" => quantizer::read(cursor),
        b"IwFl" => lists::read(cursor, depth),
        _ => Err(cursor.refuse(
            "a faiss index that holds vectors: flat, HNSW over flat, IVF flat, scalar quantiser, or an id map over these"
                .into(),
            match names::of(letters) {
                Some(name) => format!("`{}`, {name}", letters.escape_ascii()),
                None => format!("`{}`", letters.escape_ascii()),
            },
            "write its vectors in corpus order to a `.npy` file (`numpy.save(path, index.reconstruct_n(0, index.ntotal))`) \
             if it can give them back",
        )),
    }
}

/// The bytes before the values of a flat index by inner product: `IxFI`.
///
/// # Errors
/// [`Error::InvalidInput`] for sizes that faiss cannot count.
pub(crate) fn flat_header(rows: u64, dimensions: usize) -> Result<Vec<u8>> {
    let beyond = || Error::InvalidInput {
        what: "vectors for faiss".into(),
        expected: "sizes that it can count".into(),
        found: format!("{rows} rows of {dimensions} values"),
    };
    let (d, n) = (i32::try_from(dimensions).map_err(|_| beyond())?, i64::try_from(rows).map_err(|_| beyond())?);
    let values = rows.checked_mul(dimensions as u64).ok_or_else(beyond)?;
    let trained = [1];
    let inner_product = 0_i32.to_le_bytes();
    Ok([
        b"IxFI".as_slice(),
        &d.to_le_bytes(),
        &n.to_le_bytes(),
        &UNUSED.to_le_bytes(),
        &UNUSED.to_le_bytes(),
        &trained,
        &inner_product,
        &values.to_le_bytes(),
    ]
    .concat())
}

/// What every index begins with.
struct Header {
    dimensions: usize,
    rows: u64,
    comparison: Comparison,
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        const WHAT: &str = "the header of a faiss index";
        let dimensions = cursor.i32(WHAT)?;
        let rows = cursor.i64(WHAT)?;
        // Two numbers that faiss no longer uses, and whether it was trained.
        cursor.take::<17>(WHAT)?;
        let metric = cursor.i32(WHAT)?;
        let dimensions = match u64::try_from(dimensions) {
            Ok(found @ 1..=MAX_DIMENSIONS) => found as usize,
            _ => {
                return Err(cursor.refuse(
                    format!("1 to {MAX_DIMENSIONS} values a row"),
                    dimensions.to_string(),
                    AGAIN,
                ));
            }
        };
        let Ok(rows) = u64::try_from(rows) else {
            return Err(cursor.refuse("a number of rows".into(), rows.to_string(), AGAIN));
        };
        let comparison = match metric {
            0 => Comparison::InnerProduct,
            1 => Comparison::Distance,
            other => {
                return Err(cursor.refuse(
                    "inner product (0) or L2 (1)".into(),
                    format!("metric {other}"),
                    "an index here compares by inner product: choose a model that does",
                ));
            }
        };
        Ok(Self { dimensions, rows, comparison })
    }
}

fn flat(cursor: &mut Cursor<'_>, letters: [u8; 4]) -> Result<Contents> {
    let Header { dimensions, rows, comparison } = Header::read(cursor)?;
    let named = match &letters {
        b"IxFI" => Some(Comparison::InnerProduct),
        b"IxF2" => Some(Comparison::Distance),
        _ => None,
    };
    if named.is_some_and(|named| named != comparison) {
        return Err(cursor.refuse(
            format!("the metric that `{}` stands for", letters.escape_ascii()),
            comparison.to_string(),
            AGAIN,
        ));
    }
    let values = u128::from(rows) * dimensions as u128;
    let found = cursor.u64("the number of values")?;
    if u128::from(found) != values {
        return Err(cursor.refuse(format!("{values} values, {rows} rows of {dimensions}"), found.to_string(), AGAIN));
    }
    let offset = cursor.skip(&format!("{rows} rows of {dimensions} values"), found, 4)?;
    Ok(Contents {
        format: format!("faiss flat ({})", letters.escape_ascii()),
        comparison,
        rows,
        dimensions,
        coding: Coding::F32,
        places: Places::InOrder(offset),
    })
}

/// An index whose rows have names, which must be the passages' rows.
fn id_map(cursor: &mut Cursor<'_>, letters: [u8; 4], depth: usize) -> Result<Contents> {
    let header = Header::read(cursor)?;
    let inner = index(cursor, depth + 1)?;
    agree(cursor, &header, &inner)?;
    let ids = cursor.u64("ids")?;
    if ids != inner.rows {
        return Err(cursor.refuse(format!("{} ids", inner.rows), ids.to_string(), AGAIN));
    }
    let ids = super::cursor::Extent { offset: cursor.skip("ids", ids, 8)?, count: ids };
    let places = inner.places.renamed(cursor, ids, &inner.coding, inner.dimensions)?;
    Ok(Contents { format: format!("{} under an id map ({})", inner.format, letters.escape_ascii()), places, ..inner })
}

/// That an index and the one inside it speak of the same vectors.
fn agree(cursor: &Cursor<'_>, outer: &Header, inner: &Contents) -> Result<()> {
    if (outer.rows, outer.dimensions, outer.comparison) == (inner.rows, inner.dimensions, inner.comparison) {
        return Ok(());
    }
    let shown =
        |rows: u64, dimensions: usize, comparison| format!("{rows} rows of {dimensions} values by {comparison}");
    Err(cursor.refuse(
        shown(outer.rows, outer.dimensions, outer.comparison),
        format!("{} inside", shown(inner.rows, inner.dimensions, inner.comparison)),
        AGAIN,
    ))
}
