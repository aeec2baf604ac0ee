//! Inner products: one canonical definition, and fast kernels that agree with it within a known bound.
//!
//! A search finds candidates with the kernels below, whose order of additions follows the machine, and gives every
//! hit the [`canonical`] score. Because [`slack`] bounds the difference, a search that keeps all rows within the
//! slack of its threshold is exact, and its answer is the same on every machine, in every batch, on any threads.

use pulp::{Arch, Simd, WithSimd};

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
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut sums = [0f64; LANES];
            let (a_blocks, a_rest) = a.as_chunks::<LANES>();
            let (b_blocks, b_rest) = b.as_chunks::<LANES>();
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
        },
    )
}

/// How far a kernel's score may be from the canonical one, for vectors of `dimensions` values whose norms multiply
/// to `norms`: the bound of a sum of n rounded products, n u / (1 - n u) with u = 2^-24 (Higham, *Accuracy and
/// Stability of Numerical Algorithms*, 3.1), and a little for the comparisons around it.
pub fn slack(dimensions: usize, norms: f64) -> f32 {
    let roundings = (dimensions + 8) as f64 * f64::from(f32::EPSILON) / 2.0;
    (norms * roundings / (1.0 - roundings).max(0.5) * 1.01) as f32 + f32::MIN_POSITIVE
}

/// Queries of a panel: the widest block that a kernel scores at once.
const PANEL: usize = 64;
/// Panels are padded to a whole number of these.
const STEP: usize = 16;
/// Rows of a block: 6 rows x 64 queries fill 24 of the 32 registers of AVX-512 with running sums.
const BLOCK_ROWS: usize = 6;

/// Queries laid out for [`Panels::score`]: in each panel value 0 of all its queries, then value 1, and so on.
pub struct Panels {
    dimensions: usize,
    queries: usize,
    data: Vec<f32>,
}

impl Panels {
    /// Lays out `queries`, row-major with `dimensions` values each.
    pub fn new(dimensions: usize, queries: &[f32]) -> Self {
        let count = queries.len() / dimensions;
        let mut data = vec![0.0; count.next_multiple_of(STEP) * dimensions];
        for (panel, first) in (0..count).step_by(PANEL).enumerate() {
            let width = (count - first).min(PANEL).next_multiple_of(STEP);
            let panel = &mut data[panel * PANEL * dimensions..][..width * dimensions];
            for (column, query) in queries[first * dimensions..].chunks_exact(dimensions).take(PANEL).enumerate() {
                for (value, slot) in query.iter().zip(panel[column..].iter_mut().step_by(width)) {
                    *slot = *value;
                }
            }
        }
        Self { dimensions, queries: count, data }
    }

    /// Scores a row holds, queries and padding: the stride of the output of [`Panels::score`].
    pub fn width(&self) -> usize {
        self.queries.next_multiple_of(STEP)
    }

    /// Scores all `rows` (row-major) with all queries: `scores` gets [`width`](Self::width) values a row.
    pub fn score(&self, rows: &[f32], scores: &mut [f32]) {
        Arch::new().dispatch(ScorePanels { panels: self, rows, scores });
    }
}

struct ScorePanels<'a> {
    panels: &'a Panels,
    rows: &'a [f32],
    scores: &'a mut [f32],
}

impl WithSimd for ScorePanels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { panels, rows, scores } = self;
        let (dimensions, stride) = (panels.dimensions, panels.width());
        // With 16 registers (AVX2) only half as many sums fit as with 32.
        let widest = if S::REGISTER_COUNT >= 32 { 4 * S::F32_LANES } else { 2 * S::F32_LANES };
        for (panel, first) in panels.data.chunks(PANEL * dimensions).zip((0..stride).step_by(PANEL)) {
            let width = panel.len() / dimensions;
            let mut column = 0;
            while column < width {
                let columns = (width - column).min(widest);
                let block = Block { dimensions, panel, width, column };
                let mut row_blocks = rows.chunks_exact(BLOCK_ROWS * dimensions);
                let mut out = scores.chunks_mut(BLOCK_ROWS * stride);
                for (rows, out) in row_blocks.by_ref().zip(out.by_ref()) {
                    block.score::<S, BLOCK_ROWS>(simd, columns, rows, &mut out[first + column..], stride);
                }
                if let Some(out) = out.next() {
                    for (row, out) in row_blocks.remainder().chunks_exact(dimensions).zip(out.chunks_mut(stride)) {
                        block.score::<S, 1>(simd, columns, row, &mut out[first + column..], stride);
                    }
                }
                column += columns;
            }
        }
    }
}

/// Some columns of a panel.
#[derive(Clone, Copy)]
struct Block<'a> {
    dimensions: usize,
    panel: &'a [f32],
    width: usize,
    column: usize,
}

impl Block<'_> {
    #[inline(always)]
    fn score<S: Simd, const R: usize>(self, simd: S, columns: usize, rows: &[f32], out: &mut [f32], stride: usize) {
        match columns / S::F32_LANES {
            4 => self.sums::<S, R, 4>(simd, rows, out, stride),
            3 => self.sums::<S, R, 3>(simd, rows, out, stride),
            2 => self.sums::<S, R, 2>(simd, rows, out, stride),
            _ => self.sums::<S, R, 1>(simd, rows, out, stride),
        }
    }

    /// `R` rows against `V` registers of queries, all sums in registers.
    #[inline(always)]
    fn sums<S: Simd, const R: usize, const V: usize>(self, simd: S, rows: &[f32], out: &mut [f32], stride: usize) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; V]; R];
        let rows: [&[f32]; R] = std::array::from_fn(|r| &rows[r * self.dimensions..][..self.dimensions]);
        for (i, values) in self.panel.chunks_exact(self.width).take(self.dimensions).enumerate() {
            let values = S::as_simd_f32s(&values[self.column..][..V * S::F32_LANES]).0;
            let queries: [S::f32s; V] = std::array::from_fn(|v| values[v]);
            for r in 0..R {
                let value = simd.splat_f32s(rows[r][i]);
                for v in 0..V {
                    sums[r][v] = simd.mul_add_f32s(value, queries[v], sums[r][v]);
                }
            }
        }
        for (sums, out) in sums.iter().zip(out.chunks_mut(stride)) {
            for (sum, out) in sums.iter().zip(S::as_mut_simd_f32s(out).0) {
                *out = *sum;
            }
        }
    }
}

/// Partial sums of [`score_rows`]: enough to hide the latency of an addition.
const WIDE: usize = 64;

/// Scores `rows` with `queries` (both row-major): `scores` gets a value a query for the first row, then for the
/// second, and so on. For few queries, where reading the rows is the cost.
pub fn score_rows(rows: &[f32], queries: &[f32], dimensions: usize, scores: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let rows = rows.chunks_exact(dimensions);
            for (row, scores) in rows.zip(scores.chunks_exact_mut(queries.len() / dimensions)) {
                for (query, score) in queries.chunks_exact(dimensions).zip(scores) {
                    *score = wide(row, query);
                }
            }
        },
    );
}

#[inline(always)]
fn wide(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; WIDE];
    let (a_blocks, a_rest) = a.as_chunks::<WIDE>();
    let (b_blocks, b_rest) = b.as_chunks::<WIDE>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..WIDE {
            sums[lane] += x[lane] * y[lane];
        }
    }
    for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += x * y;
    }
    let mut width = WIDE / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}
