//! Rows as stored bytes: coding and decoding.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::MatrixSpec;
use crate::{ElementType, Error, Result};

// Stored numbers are little-endian and are used in place.
const _: () = assert!(cfg!(target_endian = "little"), "the index format needs a little-endian machine");

/// Codes run from -127 to 127.
const MAX_CODE: f32 = 127.0;

/// Whole rows in their stored form.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    /// Rows of a scale and `mean.len()` codes each.
    I8 {
        mean: &'a [f32],
        rows: &'a [u8],
    },
}

impl<'a> Rows<'a> {
    /// Views `bytes`, which begin with a row (and so are aligned for the element type).
    pub fn new(spec: &'a MatrixSpec, bytes: &'a [u8]) -> Self {
        match spec.element_type {
            ElementType::F32 => Self::F32(bytemuck::cast_slice(bytes)),
            ElementType::F16 => Self::F16(bytemuck::cast_slice(bytes)),
            ElementType::I8 => Self::I8 { mean: &spec.mean, rows: bytes },
        }
    }

    /// The rows' vectors, row-major.
    pub fn widen(self, out: &mut [f32]) {
        match self {
            Self::F32(values) => out.copy_from_slice(values),
            Self::F16(values) => values.convert_to_f32_slice(out),
            Self::I8 { mean, rows } => {
                let row_bytes = size_of::<f32>() + mean.len();
                assert_eq!(rows.len() / row_bytes * mean.len(), out.len());
                pulp::Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for (row, out) in rows.chunks_exact(row_bytes).zip(out.chunks_exact_mut(mean.len())) {
                            let (scale, codes) = split(row);
                            for ((out, code), mean) in out.iter_mut().zip(codes).zip(mean) {
                                *out = mean + scale * f32::from(*code as i8);
                            }
                        }
                    },
                );
            }
        }
    }
}

/// The scale and the codes of an `i8` row.
#[inline(always)]
pub(crate) fn split(row: &[u8]) -> (f32, &[u8]) {
    let (scale, codes) = row.split_at(size_of::<f32>());
    (f32::from_le_bytes(std::array::from_fn(|i| scale[i])), codes)
}

/// Writes the stored form of `row` to `out`. `number` is the row's number, for messages.
pub(super) fn encode(spec: &MatrixSpec, number: u64, row: &[f32], out: &mut [u8]) -> Result<()> {
    match spec.element_type {
        ElementType::F32 => out.copy_from_slice(bytemuck::cast_slice(row)),
        ElementType::F16 => {
            for (at, (value, slot)) in row.iter().zip(out.as_chunks_mut().0).enumerate() {
                let rounded = f16::from_f32(*value);
                if !rounded.is_finite() {
                    return Err(Error::InvalidInput {
                        what: format!("row {number}"),
                        expected: format!("values to {} for `f16`", f16::MAX),
                        found: format!("{value} at position {at}"),
                    });
                }
                *slot = rounded.to_le_bytes();
            }
        }
        ElementType::I8 => {
            let largest = row.iter().zip(&spec.mean).map(|(x, m)| (x - m).abs()).fold(0.0, f32::max);
            let scale = largest / MAX_CODE;
            // A row on the mean has the scale 0, and codes of 0.
            let per_unit = if scale > 0.0 { 1.0 / f64::from(scale) } else { 0.0 };
            let (head, codes) = out.split_at_mut(size_of::<f32>());
            head.copy_from_slice(&scale.to_le_bytes());
            for ((value, mean), code) in row.iter().zip(&spec.mean).zip(codes) {
                // `as` clamps at 127, so the rounding of the scale cannot wrap a code around.
                *code = ((f64::from(value - mean) * per_unit).round() as i8).max(-(MAX_CODE as i8)) as u8;
            }
        }
    }
    Ok(())
}
