//! From vectors to rows as they are stored.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use pulp::{Arch, Simd, WithSimd};

use super::MatrixSpec;
use super::rows::FINE_STEPS;
use crate::{ElementType, Error, Result};

/// Codes run from -127 to 127.
const MAX_CODE: f32 = 127.0;
/// The largest sixteen-bit code: a coarse code of 127 and a fine one of 127.
const MAX_FINE_CODE: f64 = 127.0 * 256.0 + 127.0;
/// How far from its code, of which the next is 1 away, a value may take the next one instead.
const NEARLY_BETWEEN: f64 = 0.4;
/// What may be left of the sum along the mean, in codes: a few hundredths of what there is, for a mean of length 1.
const LEFT_ALONG_MEAN: f64 = 0.01;
/// Values that are coded at once.
const LANES: usize = 8;
/// Added to a number of less than 2^51, it leaves the nearest whole number (of two the even one) in the lowest bits.
const ROUND: f64 = (3_u64 << 51) as f64;

/// Writes the stored form of `row` to the bytes of both planes. `number` is the row's number, for messages.
pub fn encode(spec: &MatrixSpec, number: u64, row: &[f32], [out, fine]: [&mut [u8]; 2]) -> Result<()> {
    match spec.element_type {
        ElementType::F32 => out.copy_from_slice(bytemuck::cast_slice(row)),
        ElementType::F16 => {
            let halves: &mut [f16] = bytemuck::cast_slice_mut::<u8, u16>(out).reinterpret_cast_mut();
            halves.convert_from_f32_slice(row);
            if let Some(at) = halves.iter().position(|half| !half.is_finite()) {
                return Err(Error::InvalidInput {
                    what: format!("row {number}"),
                    expected: format!("values to {} for `f16`", f16::MAX),
                    found: format!("{} at position {at}", row[at]),
                });
            }
        }
        ElementType::I8 | ElementType::I16 => {
            let (scale, codes) = out.split_at_mut(size_of::<f32>());
            Arch::new().dispatch(Quantize { row, mean: &spec.mean, scale, codes, fine });
        }
    }
    Ok(())
}

/// Codes a row in one plane, or in two where there is room for `fine` codes.
struct Quantize<'a> {
    row: &'a [f32],
    mean: &'a [f32],
    scale: &'a mut [u8],
    codes: &'a mut [u8],
    fine: &'a mut [u8],
}

impl WithSimd for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { row, mean, scale, codes, fine } = self;
        // The codes reach the farthest value.
        let found = farthest(row, mean) / MAX_CODE;
        scale.copy_from_slice(&found.to_le_bytes());
        // A row on the mean has the scale 0, and codes of 0.
        let per_unit = if found > 0.0 { 1.0 / f64::from(found) } else { 0.0 };
        if fine.is_empty() {
            let along_mean = round(row, mean, per_unit, codes);
            move_across_mean(row, mean, per_unit, codes, along_mean);
        } else {
            round_in_two(row, mean, per_unit, codes, fine);
        }
    }
}

/// The largest distance of a value from the mean's.
#[inline(always)]
fn farthest(row: &[f32], mean: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (means, mean_rest) = mean.as_chunks::<LANES>();
    let larger = |most: &mut f32, x: f32, m: f32| *most = if (x - m).abs() > *most { (x - m).abs() } else { *most };
    for (x, m) in rows.iter().zip(means) {
        for lane in 0..LANES {
            larger(&mut lanes[lane], x[lane], m[lane]);
        }
    }
    let mut most = lanes.into_iter().fold(0.0, f32::max);
    row_rest.iter().zip(mean_rest).for_each(|(x, m)| larger(&mut most, *x, *m));
    most
}

/// A value in codes, within what codes reach: the scale is rounded, and could be a little too small for the farthest.
#[inline(always)]
fn in_codes(value: f32, mean: f32, per_code: f64, most: f64) -> f64 {
    let exact = f64::from(value - mean) * per_code;
    let exact = if exact > most { most } else { exact };
    if exact < -most { -most } else { exact }
}

/// Writes the nearest code of each value, and gives the product with the mean of what this adds, in codes.
#[inline(always)]
fn round(row: &[f32], mean: &[f32], per_unit: f64, codes: &mut [u8]) -> f64 {
    let code = |value: f32, mean: f32, code: &mut u8| {
        let exact = in_codes(value, mean, per_unit, f64::from(MAX_CODE));
        let rounded = exact + ROUND;
        *code = rounded.to_bits() as u8;
        ((rounded - ROUND) - exact) * f64::from(mean)
    };
    let mut sums = [0f64; LANES];
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (means, mean_rest) = mean.as_chunks::<LANES>();
    let (coded, code_rest) = codes.as_chunks_mut::<LANES>();
    for ((x, m), out) in rows.iter().zip(means).zip(coded) {
        for lane in 0..LANES {
            sums[lane] += code(x[lane], m[lane], &mut out[lane]);
        }
    }
    let rest = row_rest.iter().zip(mean_rest).zip(code_rest);
    sums.into_iter().sum::<f64>() + rest.map(|((x, m), out)| code(*x, *m, out)).sum::<f64>()
}

/// Moves codes so that what rounding adds is at right angles to the mean; so far it has the product `along_mean` with it.
///
/// Queries of the corpus' kind lie near its mean: what rounding adds along it goes into every score, and for E5, whose
/// vectors are mostly mean, that is most of the error. Some values that lie nearly between two codes, and so cost little
/// on either, go to the farther one until the sum along the mean is nearly nothing.
#[inline(always)]
fn move_across_mean(row: &[f32], mean: &[f32], per_unit: f64, codes: &mut [u8], mut along_mean: f64) {
    for ((value, mean), code) in row.iter().zip(mean).zip(codes) {
        if along_mean.abs() < LEFT_ALONG_MEAN {
            return;
        }
        let nearest = f64::from(*code as i8);
        let beyond = f64::from(value - mean) * per_unit - nearest;
        let (other, along_other) = (nearest + beyond.signum(), along_mean + beyond.signum() * f64::from(*mean));
        let is_code = other.abs() <= f64::from(MAX_CODE);
        if beyond.abs() > NEARLY_BETWEEN && is_code && along_other.abs() < along_mean.abs() {
            *code = other as i8 as u8;
            along_mean = along_other;
        }
    }
}

/// Writes for each value the nearest of 256 times as many codes: in `codes` the nearest coarse one, and in `fine` how
/// many of the others it is from there, from -128 to 127.
#[inline(always)]
fn round_in_two(row: &[f32], mean: &[f32], per_unit: f64, codes: &mut [u8], fine: &mut [u8]) {
    let per_step = per_unit * f64::from(FINE_STEPS);
    let code = |value: f32, mean: f32, coarse: &mut u8, fine: &mut u8| {
        let steps = (in_codes(value, mean, per_step, MAX_FINE_CODE) + ROUND).to_bits() as i32;
        let nearest = (steps + 128) >> 8;
        *coarse = nearest as u8;
        *fine = (steps - (nearest << 8)) as u8;
    };
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (means, mean_rest) = mean.as_chunks::<LANES>();
    let (coarse, coarse_rest) = codes.as_chunks_mut::<LANES>();
    let (fine, fine_rest) = fine.as_chunks_mut::<LANES>();
    for (((x, m), coarse), fine) in rows.iter().zip(means).zip(coarse).zip(fine) {
        for lane in 0..LANES {
            code(x[lane], m[lane], &mut coarse[lane], &mut fine[lane]);
        }
    }
    let rest = row_rest.iter().zip(mean_rest).zip(coarse_rest).zip(fine_rest);
    rest.for_each(|(((x, m), coarse), fine)| code(*x, *m, coarse, fine));
}
