//! Vectors in memory: what an embedder gives and an index takes.

use std::ops::RangeInclusive;

use crate::{Error, Result};

/// Lengths (L2 norms) of a vector that an index takes. Unit vectors are the use; the range keeps every inner product
/// far from overflow and underflow, and turns away the zero vector, which is an embedder's failure.
pub const NORMS: RangeInclusive<f64> = 1e-12..=1e12;

/// A matrix of `f32`, one vector a row, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    dimensions: usize,
    data: Vec<f32>,
}

impl Vectors {
    /// Takes `data` as rows of `dimensions` values.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when `dimensions` is 0 or does not divide the length of `data`.
    pub fn new(dimensions: usize, data: Vec<f32>) -> Result<Self> {
        if dimensions == 0 || !data.len().is_multiple_of(dimensions) {
            return Err(Error::InvalidInput {
                what: "vectors".into(),
                expected: format!("a whole number of rows of {dimensions} values"),
                found: format!("{} values", data.len()),
            });
        }
        Ok(Self { dimensions, data })
    }

    /// Values in a row.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.dimensions
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// All values, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.data
    }

    /// The same, taken over.
    pub fn into_vec(self) -> Vec<f32> {
        self.data
    }

    /// The rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.dimensions)
    }

    /// Refuses NaN and infinity, which would poison every later comparison.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the first such value, its row counted from `first_row`.
    pub fn check_finite(&self, name: &str, first_row: u64) -> Result<()> {
        match self.rows().position(|row| row.iter().any(|x| !x.is_finite())) {
            None => Ok(()),
            Some(at) => {
                Err(not_finite(&self.data[at * self.dimensions..][..self.dimensions], name, first_row + at as u64))
            }
        }
    }

    /// Refuses what an index cannot take: other dimensions, values that are not finite, a length outside [`NORMS`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the first such vector as `name` and its number, counted from `first_row`.
    pub fn check(&self, dimensions: usize, name: &str, first_row: u64) -> Result<()> {
        if self.dimensions != dimensions {
            return Err(Error::InvalidInput {
                what: format!("{name} {first_row}"),
                expected: format!("{dimensions} values"),
                found: format!("{} values", self.dimensions),
            });
        }
        for (row, number) in self.rows().zip(first_row..) {
            let norm = crate::dot::norm(row);
            if !NORMS.contains(&norm) {
                if !norm.is_finite() {
                    return Err(not_finite(row, name, number));
                }
                return Err(Error::InvalidInput {
                    what: format!("{name} {number}"),
                    expected: format!("a vector of length {:e} to {:e}", NORMS.start(), NORMS.end()),
                    found: format!("length {norm:e}"),
                });
            }
        }
        Ok(())
    }
}

/// The refusal of a row with NaN or infinity.
fn not_finite(row: &[f32], name: &str, number: u64) -> Error {
    let at = row.iter().position(|x| !x.is_finite()).unwrap_or_default();
    Error::InvalidInput {
        what: format!("{name} {number}"),
        expected: "finite values".into(),
        found: format!("{} at position {at}", row[at]),
    }
}
