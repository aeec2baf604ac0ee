//! What gives the vectors their shape: spectra, means, scales, and a rotation.

use crate::hadamard::hadamard;

use super::noise::Stream;

/// The variance on the i-th axis falls as i and this to the minus the slope.
const FIRST_AXIS: usize = 16;
/// Rounds of the rotation: after two each value depends on every axis.
const ROUNDS: usize = 2;
/// Standard deviation of the logarithm of a dimension's scale in the common mean.
const MEAN_SPREAD: f32 = 0.5;
/// How far the mean of queries is from that of rows.
const QUERY_SHIFT: f32 = 0.35;

/// A rotation without a matrix: random signs and a Hadamard transform of as many values as a power of two allows, of
/// the first and then of the last.
pub(super) struct Rotation {
    /// By round, for the first values and for the last, signs over the root of their number.
    signs: Vec<Vec<f32>>,
}

impl Rotation {
    pub fn new(stream: Stream, dimensions: usize) -> Self {
        let length = 1 << dimensions.ilog2();
        let scale = (length as f32).sqrt().recip();
        let sign = |at| if stream.uniform(at) < 0.5 { scale } else { -scale };
        let signs = |step| (step * length as u64..).take(length).map(sign).collect();
        Self { signs: (0..2 * ROUNDS as u64).map(signs).collect() }
    }

    #[inline(always)]
    pub fn apply(&self, values: &mut [f32]) {
        for (step, signs) in self.signs.iter().enumerate() {
            let start = if step % 2 == 0 { 0 } else { values.len() - signs.len() };
            let part = &mut values[start..][..signs.len()];
            part.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            hadamard(part);
        }
    }
}

/// Standard deviations that fall by a power law over axes in a random order, their squares adding up to 1.
pub(super) fn spectrum(order: Stream, slope: f64, dimensions: usize) -> Vec<f32> {
    let mut axes: Vec<usize> = (0..dimensions).collect();
    axes.sort_by(|a, b| order.uniform(*a as u64).total_cmp(&order.uniform(*b as u64)));
    let mut variances = vec![0.0; dimensions];
    for (rank, axis) in axes.into_iter().enumerate() {
        variances[axis] = ((rank + FIRST_AXIS) as f64).powf(-slope);
    }
    let total: f64 = variances.iter().sum();
    variances.into_iter().map(|variance| (variance / total).sqrt() as f32).collect()
}

/// The means of rows and of queries.
pub(super) fn means(stream: Stream, dimensions: usize) -> [Vec<f32>; 2] {
    let [mut rows, mut shift, mut spread] = [vec![0.0; dimensions], vec![0.0; dimensions], vec![0.0; dimensions]];
    for (part, from) in [&mut rows, &mut shift, &mut spread].into_iter().zip((0..).step_by(dimensions)) {
        stream.normals(from, part);
    }
    rows.iter_mut().zip(&spread).for_each(|(x, spread)| *x *= (MEAN_SPREAD * spread).exp());
    unit(&mut rows);
    // At a right angle to the mean of rows.
    let common: f32 = shift.iter().zip(&rows).map(|(x, y)| x * y).sum();
    shift.iter_mut().zip(&rows).for_each(|(x, row)| *x -= common * row);
    unit(&mut shift);
    let mut queries: Vec<f32> = rows.iter().zip(&shift).map(|(row, shift)| row + QUERY_SHIFT * shift).collect();
    unit(&mut queries);
    [rows, queries]
}

/// Numbers whose logarithms are normal with the standard deviation `spread`.
pub(super) fn lognormals(stream: Stream, spread: f32, count: usize) -> Vec<f32> {
    (0..count as u64).map(|at| (spread * stream.normal(at)).exp()).collect()
}

#[inline(always)]
pub(super) fn length(values: &[f32]) -> f32 {
    // Sums of sixteen columns, which compilers make vector code of.
    let mut sums = [0.0_f32; 16];
    let (blocks, rest) = values.as_chunks::<16>();
    for block in blocks {
        sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x * x);
    }
    let squares = sums.iter().sum::<f32>() + rest.iter().map(|x| x * x).sum::<f32>();
    squares.sqrt()
}

pub(super) fn unit(values: &mut [f32]) {
    let scale = 1.0 / length(values);
    values.iter_mut().for_each(|x| *x *= scale);
}

pub(super) fn add(values: &mut [f32], others: &[f32]) {
    values.iter_mut().zip(others).for_each(|(x, y)| *x += y);
}
