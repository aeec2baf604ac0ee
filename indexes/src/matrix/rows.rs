//! Rows as stored bytes: coding and decoding.

use half::f16;
use pulp::{Arch, Simd, WithSimd};

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
    /// Bits of half-precision numbers.
    F16(&'a [u16]),
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

    /// The stored bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F16(values) => bytemuck::cast_slice(values),
            Self::I8 { rows, .. } => rows,
        }
    }

    /// The rows' vectors, row-major: in place, or in the first part of `buffer`.
    pub fn widened<'b>(self, buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        let values = match self {
            Self::F32(values) => return values,
            Self::F16(values) => values.len(),
            Self::I8 { mean, rows } => rows.len() / (size_of::<f32>() + mean.len()) * mean.len(),
        };
        self.widen(&mut buffer[..values]);
        &buffer[..values]
    }

    /// The rows' vectors, row-major.
    pub fn widen(self, out: &mut [f32]) {
        Arch::new().dispatch(Widen { rows: self, out });
    }
}

struct Widen<'a> {
    rows: Rows<'a>,
    out: &'a mut [f32],
}

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.rows {
            Rows::F32(values) => self.out.copy_from_slice(values),
            Rows::F16(values) => map(values, self.out, f16_value),
            Rows::I8 { mean, rows } => {
                let rows = rows.chunks_exact(size_of::<f32>() + mean.len());
                for (row, out) in rows.zip(self.out.chunks_exact_mut(mean.len())) {
                    let (scale, codes) = split_scale(row);
                    map(codes, out, |code| scale * i8_value(code));
                    out.iter_mut().zip(mean).for_each(|(out, mean)| *out += mean);
                }
            }
        }
    }
}

/// Widens `values` into `out`, by blocks of fixed size, from which compilers make vector code.
#[inline(always)]
fn map<T: Copy>(values: &[T], out: &mut [f32], widen: impl Fn(T) -> f32 + Copy) {
    let (blocks, rest) = values.as_chunks::<16>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<16>();
    for (out, block) in out_blocks.iter_mut().zip(blocks) {
        let mut wide = [0f32; 16];
        for (wide, value) in wide.iter_mut().zip(block) {
            *wide = widen(*value);
        }
        *out = wide;
    }
    for (out, value) in out_rest.iter_mut().zip(rest) {
        *out = widen(*value);
    }
}

/// The number with these half-precision bits; for bits of infinity and NaN, which are not stored, some number from
/// 65,536 on. In integer steps and one subtraction, which compilers turn into vector code on any machine.
#[inline(always)]
pub(crate) fn f16_value(bits: u16) -> f32 {
    const SIGN: u32 = 1 << 31;
    // The bits in their places of single precision: sign, exponent (biased by 15, not 127), fraction.
    let bits = ((i32::from(bits as i16) << 13) as u32) & (SIGN | 0x0fff_e000);
    if bits & 0x0f80_0000 == 0 {
        // Subnormal: the fraction behind a hidden one of 2^-14, less that one.
        f32::from_bits(bits + (113 << 23)) - f32::from_bits(bits & SIGN | 113 << 23)
    } else {
        f32::from_bits(bits + (112 << 23))
    }
}

/// The code in this byte.
#[inline(always)]
pub(crate) fn i8_value(code: u8) -> f32 {
    f32::from(code as i8)
}

/// The scale and the codes of an `i8` row.
#[inline(always)]
pub(crate) fn split_scale(row: &[u8]) -> (f32, &[u8]) {
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
