//! One query or a few: rows are read at the speed of memory, and widened in registers.

use pulp::{Arch, Simd, WithSimd};

use crate::matrix::{Rows, f16_value, i8_value, split_scale};
use crate::mmap::prefetch;

/// Registers of partial sums: enough to hide the latency of an addition.
const SUMS: usize = 4;
/// Rows whose bytes are asked for before they are needed.
const AHEAD: usize = 3;
/// The most values that a register of any machine holds.
const MAX_LANES: usize = 16;

/// Scores stored `rows` with `queries` (row-major): `scores` gets a value a query for the first row, then for the
/// second, and so on. Of rows in two planes the first is scored.
pub fn score_rows(rows: Rows<'_>, queries: &[f32], dimensions: usize, scores: &mut [f32]) {
    Arch::new().dispatch(ScoreRows { rows, queries, dimensions, scores });
}

struct ScoreRows<'a> {
    rows: Rows<'a>,
    queries: &'a [f32],
    dimensions: usize,
    scores: &'a mut [f32],
}

impl WithSimd for ScoreRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.rows {
            Rows::F32(values) => self.score_values(simd, values, |value| value),
            Rows::F16(values) => self.score_values(simd, values, f16_value),
            Rows::I8 { mean, rows } | Rows::I16 { mean, coarse: rows, .. } => {
                let mut of_mean = vec![0.0; self.queries.len() / self.dimensions];
                for (query, of_mean) in self.queries.chunks_exact(self.dimensions).zip(&mut of_mean) {
                    *of_mean = product(simd, mean, query, |value| value);
                }
                let rows = rows.chunks_exact(size_of::<f32>() + self.dimensions);
                for (row, scores) in rows.zip(self.scores.chunks_exact_mut(of_mean.len())) {
                    let (scale, codes) = split_scale(row);
                    let queries = self.queries.chunks_exact(self.dimensions).zip(&of_mean);
                    for ((query, of_mean), score) in queries.zip(scores) {
                        *score = of_mean + scale * product(simd, codes, query, i8_value);
                    }
                }
            }
        }
    }
}

impl ScoreRows<'_> {
    #[inline(always)]
    fn score_values<S: Simd, T: Copy>(self, simd: S, values: &[T], widen: impl Fn(T) -> f32 + Copy) {
        let rows = values.chunks_exact(self.dimensions);
        for (row, scores) in rows.zip(self.scores.chunks_exact_mut(self.queries.len() / self.dimensions)) {
            for (query, score) in self.queries.chunks_exact(self.dimensions).zip(scores) {
                *score = product(simd, row, query, widen);
            }
        }
    }
}

/// Scores single rows, here and there, with one query: each gets its `row` bytes by a call of `stored`. Of rows in two
/// planes the first is scored.
pub fn score_each<'r>(count: usize, query: &[f32], scores: &mut Vec<f32>, stored: impl Fn(usize) -> Rows<'r>) {
    Arch::new().dispatch(ScoreEach { count, query, scores, stored });
}

struct ScoreEach<'a, F> {
    count: usize,
    query: &'a [f32],
    scores: &'a mut Vec<f32>,
    stored: F,
}

impl<'r, F: Fn(usize) -> Rows<'r>> WithSimd for ScoreEach<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut of_mean = None;
        self.scores.clear();
        for at in 0..self.count {
            if at + AHEAD < self.count {
                prefetch((self.stored)(at + AHEAD).bytes());
            }
            self.scores.push(match (self.stored)(at) {
                Rows::F32(row) => product(simd, row, self.query, |value| value),
                Rows::F16(row) => product(simd, row, self.query, f16_value),
                Rows::I8 { mean, rows } | Rows::I16 { mean, coarse: rows, .. } => {
                    let of_mean = *of_mean.get_or_insert_with(|| product(simd, mean, self.query, |value| value));
                    let (scale, codes) = split_scale(rows);
                    of_mean + scale * product(simd, codes, self.query, i8_value)
                }
            });
        }
    }
}

/// The product of stored values and a query.
#[inline(always)]
fn product<S: Simd, T: Copy>(simd: S, values: &[T], query: &[f32], widen: impl Fn(T) -> f32 + Copy) -> f32 {
    let lanes = S::F32_LANES;
    let mut sums = [simd.splat_f32s(0.0); SUMS];
    let whole = query.len() / (SUMS * lanes) * (SUMS * lanes);
    let blocks = values[..whole].chunks_exact(SUMS * lanes).zip(query[..whole].chunks_exact(SUMS * lanes));
    for (values, query) in blocks {
        let query = S::as_simd_f32s(query).0;
        for (v, sum) in sums.iter_mut().enumerate() {
            let mut wide = [0f32; MAX_LANES];
            for (wide, value) in wide.iter_mut().zip(&values[v * lanes..][..lanes]) {
                *wide = widen(*value);
            }
            *sum = simd.mul_add_e_f32s(S::as_simd_f32s(&wide[..lanes]).0[0], query[v], *sum);
        }
    }
    let rest: f32 = values[whole..].iter().zip(&query[whole..]).map(|(value, query)| widen(*value) * query).sum();
    let [a, b, c, d] = sums;
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(a, b), simd.add_f32s(c, d))) + rest
}
