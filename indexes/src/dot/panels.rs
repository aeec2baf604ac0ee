//! Many queries at once: rows against panels of queries, with all running sums in registers.

use pulp::{Arch, Simd, WithSimd};

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
