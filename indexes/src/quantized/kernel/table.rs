//! A query as a kernel wants it: whole numbers, and tables of their sums.

use pulp::{Arch, Simd, WithSimd};

use super::{GROUP, Kernel};
use crate::quantized::coder::Units;

/// The largest sum in a table: [`LOOKUPS_OF_BYTE`] of them fit a byte. What the query loses to rounding is a fiftieth of
/// the noise that the rows' codes have of their own.
const MAX_ENTRY: f32 = 31.0;
/// Look-ups whose sum fits a byte.
pub const LOOKUPS_OF_BYTE: usize = 8;
/// What rounding six numbers may add to their sum.
const ROUNDING: f32 = 3.0;
/// The largest sum of a row before rounding: with what that may add, half a unit a coordinate, it must fit 16 bits.
const MAX_SUM: f32 = 30_000.0;

/// Added to a number of less than 2^22, it leaves the nearest whole number (of two the even one) in the lowest bits.
const ROUND: f32 = (3_u32 << 22) as f32;

/// Coordinates looked up at once.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "each architecture has its own"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// None: the kernel adds the weights themselves.
    None,
    /// The low and the high four bits of each byte: 16 sums each.
    Four,
    /// For three bytes the low six bits of each, then the two high bits of all three, the first byte's lowest: 64
    /// sums each.
    Six,
}

/// What turns an integer sum S and a row's factors a and b into an estimate:
/// b x (`per_unit` x S + `at_zero`) + (a x `mean_unit` + `base`), each product fused with its sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryParts {
    pub per_unit: f32,
    pub at_zero: f32,
    pub mean_unit: f32,
    pub base: f32,
}

/// A cache line, so that no load touches two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u8; 64]);

/// The bytes of `lines`.
pub fn bytes_of(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is 64 bytes without padding.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines))
    }
}

/// A query for one kernel.
#[derive(Debug, Clone)]
pub struct Query {
    kernel: Kernel,
    /// One a coordinate; only for the scalar kernel.
    weights: Vec<i16>,
    tables: Vec<Line>,
    code_bytes: usize,
    /// What the tables add to a row's sum so that no entry is negative.
    bias: u16,
    parts: QueryParts,
}

impl Query {
    /// Rounds the rotated query `rotated`, whose length is a multiple of [`GROUP`], and from which `along_mean` times
    /// the mean was taken. `base` is the inner product of query and mean; `units` are what the rows' factors are
    /// multiples of.
    pub fn new(kernel: Kernel, rotated: &[f32], base: f32, along_mean: f32, units: Units) -> Self {
        debug_assert!(rotated.len().is_multiple_of(GROUP));
        Arch::new().dispatch(Round { kernel, rotated, base, along_mean, units })
    }

    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Bytes of a code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    pub fn weights(&self) -> &[i16] {
        &self.weights
    }

    pub fn bias(&self) -> u16 {
        self.bias
    }

    pub fn parts(&self) -> &QueryParts {
        &self.parts
    }

    /// The tables, one after the other: for [`Lookup::Four`] 32 bytes a byte of code, for [`Lookup::Six`] 256 bytes
    /// for three.
    pub fn tables(&self) -> &[u8] {
        bytes_of(&self.tables)
    }
}

/// Makes a [`Query`], compiled for the instructions of the machine.
struct Round<'a> {
    kernel: Kernel,
    rotated: &'a [f32],
    base: f32,
    along_mean: f32,
    units: Units,
}

impl WithSimd for Round<'_> {
    type Output = Query;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Query {
        let Self { kernel, rotated, base, along_mean, units } = self;
        let step = step(rotated);
        let per_step = if step > 0.0 { 1.0 / step } else { 0.0 };
        let mut weights = vec![0i16; rotated.len()];
        let (mut bias, mut total) = (0i32, 0i32);
        for (weight, x) in weights.iter_mut().zip(rotated) {
            *weight = (x * per_step + ROUND).to_bits() as i16;
            bias += i32::from((-*weight).max(0));
            total += i32::from(*weight);
        }
        let unit = step * units.code;
        let at_zero = -unit * (2 * bias + total) as f32;
        let parts = QueryParts { per_unit: 2.0 * unit, at_zero, mean_unit: along_mean * units.mean, base };
        let tables = match kernel.lookup() {
            Lookup::None => Vec::new(),
            Lookup::Four => tables_of_four(&weights),
            Lookup::Six => tables_of_six(&weights),
        };
        let code_bytes = rotated.len() / 8;
        let weights = if kernel == Kernel::Scalar { weights } else { Vec::new() };
        Query { kernel, weights, tables, code_bytes, bias: bias as u16, parts }
    }
}

/// The unit of the whole numbers: the finest with which every table entry and every row's sum fits; 0 for a query so near
/// the mean that its coordinates cannot be divided by it.
#[inline(always)]
fn step(rotated: &[f32]) -> f32 {
    let mut largest = 0f32;
    for group in rotated.as_chunks::<GROUP>().0 {
        let mut tops = 0.0;
        for byte in group.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = byte.map(f32::abs);
            // The low six bits of a byte, and its high four; the low four are among the six.
            largest = largest.max(((a + b) + (c + d)) + (e + f)).max((e + f) + (g + h));
            tops += g + h;
        }
        largest = largest.max(tops);
    }
    let mut sums = [0f32; 8];
    for byte in rotated.as_chunks::<8>().0 {
        for lane in 0..8 {
            sums[lane] += byte[lane].abs();
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let all = ((a + b) + (c + d)) + ((e + f) + (g + h));
    let step = (largest / (MAX_ENTRY - ROUNDING)).max(all / MAX_SUM);
    if step.is_normal() { step } else { 0.0 }
}

/// The sums of all subsets of three `weights`, shifted so that the least is zero: byte i of the result is that of subset
/// i, and bit j of i stands for weight j.
#[inline(always)]
fn sums_of_three(weights: [i16; 3]) -> u64 {
    // The bytes of the subsets with each weight; a negative one counts, positive, in those without it. No sum is more
    // than a byte holds.
    const WITH: [u64; 3] = [0x0100_0100_0100_0100, 0x0101_0000_0101_0000, 0x0101_0101_0000_0000];
    let mut sums = 0;
    for (weight, with) in weights.into_iter().zip(WITH) {
        let bytes = if weight < 0 { ALL - with } else { with };
        sums = u64::wrapping_add(sums, bytes.wrapping_mul(u64::from(weight.unsigned_abs())));
    }
    sums
}

/// A one in each byte.
const ALL: u64 = 0x0101_0101_0101_0101;

/// The same for six: the first three are the lowest bits.
#[inline(always)]
fn sums_of_six(low: [i16; 3], high: [i16; 3], line: &mut [u8; 64]) {
    let low = sums_of_three(low);
    for (sums, high) in line.as_chunks_mut::<8>().0.iter_mut().zip(sums_of_three(high).to_le_bytes()) {
        *sums = low.wrapping_add(ALL.wrapping_mul(u64::from(high))).to_le_bytes();
    }
}

#[inline(always)]
fn tables_of_four(weights: &[i16]) -> Vec<Line> {
    let mut lines = vec![Line([0; 64]); weights.len().div_ceil(16)];
    for (line, weights) in lines.iter_mut().zip(weights.chunks(16)) {
        for (table, [a, b, c, d]) in line.0.as_chunks_mut::<16>().0.iter_mut().zip(weights.as_chunks().0) {
            let (low, high) = (sums_of_three([*a, *b, *c]), sums_of_three([*d, 0, 0]).to_le_bytes());
            for (sums, high) in table.as_chunks_mut::<8>().0.iter_mut().zip(high) {
                *sums = low.wrapping_add(ALL.wrapping_mul(u64::from(high))).to_le_bytes();
            }
        }
    }
    lines
}

#[inline(always)]
fn tables_of_six(weights: &[i16]) -> Vec<Line> {
    let mut lines = vec![Line([0; 64]); weights.len() / 6];
    for (lines, group) in lines.as_chunks_mut::<4>().0.iter_mut().zip(weights.as_chunks::<GROUP>().0) {
        let of = |at: usize| [group[at], group[at + 1], group[at + 2]];
        for (line, byte) in lines.iter_mut().zip([0, 8, 16]) {
            sums_of_six(of(byte), of(byte + 3), &mut line.0);
        }
        let [low, high] = [[6, 7, 14], [15, 22, 23]].map(|tops| tops.map(|at| group[at]));
        sums_of_six(low, high, &mut lines[3].0);
    }
    lines
}
