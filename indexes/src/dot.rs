//! Inner products: one canonical definition, and fast kernels that agree with it within a known bound.
//!
//! A search finds candidates with the kernels below, whose order of additions follows the machine, and gives every
//! hit the [`canonical`] score. Because [`slack`] bounds the difference, a search that keeps all rows within the
//! slack of its threshold is exact, and its answer is the same on every machine, in every batch, on any threads.

mod panels;
mod rows;

use pulp::{Arch, Simd, WithSimd};

pub use panels::Panels;
pub use rows::{score_each, score_rows};

/// Partial sums of the canonical product.
const LANES: usize = 8;

/// The inner product that all indexes report.
///
/// Defined as: products in `f64` (exact for `f32` factors), eight partial sums (value `i` goes to sum `i % 8`, in
/// ascending order), sums added pairwise, rounded once to `f32`. No machine or compiler may change its bits.
pub fn canonical(a: &[f32], b: &[f32]) -> f32 {
    // Adding zero turns -0 into 0, so that equal scores are equal bits.
    sum_of_products(a, b) as f32 + 0.0
}

/// The length of a vector (L2 norm).
pub fn norm(a: &[f32]) -> f64 {
    sum_of_products(a, a).sqrt()
}

fn sum_of_products(a: &[f32], b: &[f32]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    Arch::new().dispatch(SumOfProducts { a, b })
}

struct SumOfProducts<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for SumOfProducts<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut sums = [0f64; LANES];
        let (a_blocks, a_rest) = self.a.as_chunks::<LANES>();
        let (b_blocks, b_rest) = self.b.as_chunks::<LANES>();
        for (x, y) in a_blocks.iter().zip(b_blocks) {
            for lane in 0..LANES {
                sums[lane] += f64::from(x[lane]) * f64::from(y[lane]);
            }
        }
        for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
            sums[lane] += f64::from(*x) * f64::from(*y);
        }
        let [s0, s1, s2, s3, s4, s5, s6, s7] = sums;
        ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    }
}

/// How far a kernel's score may be from the canonical one, for vectors of `dimensions` values whose norms multiply
/// to `norms`: the bound of a sum of n rounded products, n u / (1 - n u) with u = 2^-24 (Higham, *Accuracy and
/// Stability of Numerical Algorithms*, 3.1), and a little for the comparisons around it.
pub fn slack(dimensions: usize, norms: f64) -> f32 {
    let roundings = (dimensions + 8) as f64 * f64::from(f32::EPSILON) / 2.0;
    (norms * roundings / (1.0 - roundings).max(0.5) * 1.01) as f32 + f32::MIN_POSITIVE
}

/// For rows in two planes, how far the canonical score of a row of scale 1 may be above what a kernel makes of its first
/// plane, besides the [`slack`], for a query of this norm; for another row it is its scale times as much.
///
/// Let a row have the mean m, the scale s, coarse codes a and fine codes b, from -128 to 127, in n dimensions. Without
/// roundings its vector is w = m + s (a + b / 256), and that of its first plane v = m + s a. By Cauchy and Schwarz
///
/// (w - v) q = s b q / 256 <= s (sqrt(n) / 2) |q| =: s r.
///
/// On the way from w q to the canonical score are 3 roundings (product, sum, score), on that from v q to the kernel's at
/// most n + 2 (its sum, the product with the scale, the product with the mean), and 2 are in adding the bound and in
/// comparing: k = n + 7 in all, fewer than the slack allows. Each is at most u = 2^-24 of |m| + |s a|, or of
/// |m| + |s (a + b / 256)|, times |q|. As |s a| <= |w| + |m| + s sqrt(n) / 2, their sum is within k u (|w| + 2 |m|) |q|,
/// which is the slack for the matrix's bound of sums (`Matrix::sum_bound`, of whole rows), and k u s r. There are at most
/// 65,536 dimensions, so k u is below 0.004: a hundredth of r covers it, with the roundings of r and of s r.
pub fn reach(dimensions: usize, norm: f64) -> f32 {
    ((dimensions as f64).sqrt() / 2.0 * norm * 1.01) as f32
}
