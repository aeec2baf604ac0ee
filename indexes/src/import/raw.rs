//! An array of `f32` without a header: rows and dimensions come from elsewhere.

use super::parts::Parts;
use super::places::Places;
use super::{Coding, Comparison, Contents, foreign};
use crate::Result;

/// Whether the length is that of whole rows.
pub(super) fn fits(length: u64, dimensions: usize) -> bool {
    let row = dimensions as u64 * 4;
    row > 0 && length > 0 && length.is_multiple_of(row)
}

pub(super) fn contents(parts: &Parts, dimensions: usize) -> Result<Contents> {
    let (length, row) = (parts.length(), dimensions as u64 * 4);
    if !fits(length, dimensions) {
        return Err(parts.refuse(
            format!("{}; or, without a header, rows of {dimensions} `f32` values, {row} bytes each", foreign::READ),
            match length.checked_rem(row) {
                Some(over) if length > 0 => format!("{length} bytes, which are {} rows and {over} bytes", length / row),
                _ => format!("{length} bytes"),
            },
            "give all parts in their order and the model that made the vectors (`--model`), or save them as `.npy`",
        ));
    }
    Ok(Contents {
        format: "raw f32".into(),
        comparison: Comparison::InnerProduct,
        rows: length / row,
        dimensions,
        coding: Coding::F32,
        places: Places::InOrder(0),
    })
}
