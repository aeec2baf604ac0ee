//! Vectors in memory: what an embedder gives and an index takes.

use crate::{Error, Result};

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

    /// The rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.dimensions)
    }

    /// Refuses NaN and infinity, which would poison every later comparison.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the first such value, its row counted from `first_row`.
    pub fn check_finite(&self, name: &str, first_row: u64) -> Result<()> {
        match self.data.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(at) => Err(Error::InvalidInput {
                what: format!("{name} {}", first_row + (at / self.dimensions) as u64),
                expected: "finite values".into(),
                found: format!("{} at position {}", self.data[at], at % self.dimensions),
            }),
        }
    }
}
