//! Rows in memory in their stored form: coded anew, or read from a file.

use super::encode::encode;
use super::{MatrixSpec, Planes};
use crate::Result;

/// The bytes of some rows.
pub(crate) struct Block {
    /// Words, so that the bytes may be viewed as any element type.
    coarse: Vec<u64>,
    coarse_length: usize,
    fine: Vec<u8>,
}

impl Block {
    /// Zeros for `rows` rows.
    pub fn zeros(spec: &MatrixSpec, rows: usize) -> Self {
        let coarse_length = rows * spec.coarse_bytes();
        let coarse = vec![0; coarse_length.div_ceil(size_of::<u64>())];
        Self { coarse, coarse_length, fine: vec![0; rows * spec.fine_bytes()] }
    }

    /// The planes of all rows.
    pub fn planes(&self) -> Planes<'_> {
        let coarse = &bytemuck::cast_slice(&self.coarse)[..self.coarse_length];
        Planes { coarse, fine: &self.fine }
    }

    /// The bytes of the first plane, then those of the second.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 2] {
        let coarse = &mut bytemuck::cast_slice_mut(&mut self.coarse)[..self.coarse_length];
        [coarse, &mut self.fine]
    }
}

impl MatrixSpec {
    /// The stored form of `vectors`, row-major, the first of which has this number; the mean has all its values.
    pub(crate) fn encode(&self, vectors: &[f32], first: u64) -> Result<Block> {
        let mut block = Block::zeros(self, vectors.len() / self.dimensions);
        let [coarse, mut fine] = block.planes_mut();
        let rows = vectors.chunks_exact(self.dimensions).zip(coarse.chunks_exact_mut(self.coarse_bytes()));
        for ((row, coarse), number) in rows.zip(first..) {
            let (row_fine, rest) = fine.split_at_mut(self.fine_bytes());
            encode(self, number, row, [coarse, row_fine])?;
            fine = rest;
        }
        Ok(block)
    }
}
