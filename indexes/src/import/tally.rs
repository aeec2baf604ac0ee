//! What kind of numbers are these vectors?

use serde::{Deserialize, Serialize};

use crate::{Vectors, dot};

/// Counts over rows, as they stream by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Values counted.
    pub values: u64,
    /// Those among them that half precision holds without rounding: an element type of `f16` loses nothing of these.
    pub exact_f16: u64,
    /// The shortest row's L2 norm; 0 without rows.
    pub least_norm: f64,
    /// The longest row's L2 norm; 0 without rows.
    pub greatest_norm: f64,
}

impl Tally {
    /// Counts `vectors`.
    pub fn add(&mut self, vectors: &Vectors) {
        let exact = vectors.as_slice().iter().map(|x| u32::from(is_exact_f16(*x))).sum::<u32>();
        let (mut least, mut greatest) = (f64::INFINITY, self.greatest_norm);
        for norm in vectors.rows().map(dot::norm) {
            (least, greatest) = (least.min(norm), greatest.max(norm));
        }
        if !vectors.is_empty() {
            self.least_norm = if self.values == 0 { least } else { least.min(self.least_norm) };
            self.greatest_norm = greatest;
        }
        self.values += vectors.as_slice().len() as u64;
        self.exact_f16 += u64::from(exact);
    }

    /// The share of values that half precision holds exactly; 1 without values.
    pub fn share_exact_f16(&self) -> f64 {
        if self.values == 0 { 1.0 } else { self.exact_f16 as f64 / self.values as f64 }
    }
}

/// Whether half precision holds this number without rounding, in steps that compilers turn into vector code.
fn is_exact_f16(value: f32) -> bool {
    let bits = value.to_bits() & 0x7fff_ffff;
    let exponent = (bits >> 23) as i32 - 127;
    // Ten bits of fraction; below 2^-14 one less for each halving.
    let lost = (13 + (-14 - exponent).max(0)).min(23);
    let fits = (-24..=15).contains(&exponent) && bits & ((1 << lost) - 1) == 0;
    fits || bits == 0
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::is_exact_f16;

    #[test]
    fn exact_are_the_numbers_that_survive_half_precision() {
        let near = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32()).filter(|x| x.is_finite());
        for x in near.flat_map(|x| [x, x.next_up(), x.next_down(), x * 1.000_1, x * 0.5, x * 2.0]) {
            let expected = x.is_finite() && f16::from_f32(x).to_f32() == x;
            assert_eq!(is_exact_f16(x), expected, "{x:e}");
        }
        assert!(!is_exact_f16(f32::NAN) && !is_exact_f16(f32::INFINITY));
    }
}
