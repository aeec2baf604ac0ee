//! Rows as stored bytes, and the vectors that they stand for.

use pulp::{Arch, Simd, WithSimd};

use super::{MatrixSpec, Planes};
use crate::ElementType;

// Stored numbers are little-endian and are used in place.
const _: () = assert!(cfg!(target_endian = "little"), "the index format needs a little-endian machine");

/// Steps of a fine code in one of a coarse code.
pub(super) const FINE_STEPS: f32 = 256.0;

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
    /// Rows as those of `I8`, and for each `mean.len()` codes that tell it finer.
    I16 {
        mean: &'a [f32],
        coarse: &'a [u8],
        fine: &'a [u8],
    },
}

impl<'a> Rows<'a> {
    /// Views the bytes of rows, which begin with a row (and so are aligned for the element type).
    pub fn new(spec: &'a MatrixSpec, Planes { coarse, fine }: Planes<'a>) -> Self {
        match spec.element_type {
            ElementType::F32 => Self::F32(bytemuck::cast_slice(coarse)),
            ElementType::F16 => Self::F16(bytemuck::cast_slice(coarse)),
            ElementType::I8 => Self::I8 { mean: &spec.mean, rows: coarse },
            ElementType::I16 => Self::I16 { mean: &spec.mean, coarse, fine },
        }
    }

    /// The row at place `at` of rows of eight bits about `mean`.
    pub fn i8_row(mean: &'a [f32], rows: &'a [u8], at: usize) -> Self {
        let bytes = size_of::<f32>() + mean.len();
        Self::I8 { mean, rows: &rows[at * bytes..][..bytes] }
    }

    /// What the first plane tells of the rows: of those in two planes, rows near them (`dot::reach` tells how near).
    pub fn coarse(self) -> Self {
        match self {
            Self::I16 { mean, coarse, .. } => Self::I8 { mean, rows: coarse },
            whole => whole,
        }
    }

    /// The scale of the row at this place, if rows are in two planes.
    pub fn fine_scale(self, at: usize) -> Option<f32> {
        let Self::I16 { mean, coarse, .. } = self else { return None };
        Some(split_scale(&coarse[at * (size_of::<f32>() + mean.len())..]).0)
    }

    /// The stored bytes of the first plane.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F16(values) => bytemuck::cast_slice(values),
            Self::I8 { rows, .. } | Self::I16 { coarse: rows, .. } => rows,
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
            Self::I8 { mean, rows } | Self::I16 { mean, coarse: rows, .. } => {
                rows.len() / (size_of::<f32>() + mean.len()) * mean.len()
            }
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
            Rows::I16 { mean, coarse, fine } => {
                let rows = coarse.chunks_exact(size_of::<f32>() + mean.len()).zip(fine.chunks_exact(mean.len()));
                for ((row, fine), out) in rows.zip(self.out.chunks_exact_mut(mean.len())) {
                    let (scale, codes) = split_scale(row);
                    map(codes, out, i8_value);
                    // The sum of both codes has sixteen bits: it is exact.
                    let codes = out.iter_mut().zip(fine);
                    codes.for_each(|(out, fine)| *out = scale * (*out + i8_value(*fine) / FINE_STEPS));
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
