//! The eight-bit codes that the graph compares.
//!
//! Embeddings sit in a narrow cone: most of each value is the common mean. The library's own cast spends most of its
//! steps on that mean and loses a tenth of the neighbours. So values are centred and stretched before they are
//! rounded. Between codes the graph measures squared distance, which for unit vectors ranks as the cosine.

use crate::{Interrupt, Matrix, Result};

/// The largest code; the smallest is its negative.
const MAX_CODE: f32 = 127.0;
/// Rows that the range is taken from, at most.
const RANGE_ROWS: u64 = 1 << 12;
/// Share of the values that the codes cover; the few beyond it are cut off to code the others finer.
const COVERED: f64 = 0.999;

/// The map from vectors to codes: (x - mean) x scale, rounded and cut off at 127.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    pub mean: Vec<f32>,
    pub scale: f32,
}

impl Codes {
    /// Fits the map to rows of `matrix`, evenly spread.
    pub fn fit(matrix: &Matrix, interrupt: &Interrupt) -> Result<Self> {
        let mean = matrix.mean(interrupt)?;
        let mut distances = Vec::new();
        for row in matrix.spread(RANGE_ROWS) {
            interrupt.check()?;
            distances.extend(matrix.row(row).iter().zip(&mean).map(|(x, mean)| (x - mean).abs()));
        }
        let covered = (distances.len() as f64 * COVERED) as usize;
        let range = match distances.len() {
            0 => 0.0,
            _ => *distances.select_nth_unstable_by(covered, f32::total_cmp).1,
        };
        // Rows that are all alike have no range, and any scale will do.
        let scale = if range > 0.0 && (MAX_CODE / range).is_finite() { MAX_CODE / range } else { 1.0 };
        Ok(Self { mean, scale })
    }

    pub fn dimensions(&self) -> usize {
        self.mean.len()
    }

    /// Writes the code of `vector`.
    pub fn encode(&self, vector: &[f32], code: &mut [i8]) {
        for ((code, x), mean) in code.iter_mut().zip(vector).zip(&self.mean) {
            *code = ((x - mean) * self.scale).round().clamp(-MAX_CODE, MAX_CODE) as i8;
        }
    }
}
