//! What do the codes say of every row? For looking into an index, and for comparing kernels and readers.

use super::Quantized;
use super::coder::coordinates;
use super::kernel::{BLOCK, Estimates, Query, Sink};
use super::scan::TILE_BLOCKS;
use crate::{Result, Vectors};

impl Quantized {
    /// The estimated score of each row for each of `queries`, by row, those of deleted rows too: what a search ranks
    /// candidates by. NaN stands for a row that the codes do not name, or whose factors are no numbers, both of which only
    /// damage brings about. All kernels give the same bits.
    ///
    /// # Errors
    /// As [`Index::search`](crate::Index::search), and [`Error::Corrupt`](crate::Error::Corrupt) for a slot that names no
    /// row.
    pub fn estimates(&self, queries: &Vectors) -> Result<Vec<Vec<f32>>> {
        queries.check(self.matrix.dimensions(), "query", 0)?;
        let (coder, slots) = (self.codes.coder(), self.codes.shape().slots);
        let mut rotated = vec![0.0; coordinates(queries.dimensions())];
        let coded: Vec<Query> = queries.rows().map(|query| coder.query(self.kernel, query, &mut rotated)).collect();
        let coded: Vec<&Query> = coded.iter().collect();
        let count = slots.div_ceil(BLOCK as u64);
        let mut found = BySlot { all: vec![vec![f32::NAN; count as usize * BLOCK]; coded.len()], first: 0 };
        for first in (0..count).step_by(TILE_BLOCKS) {
            found.first = first as usize;
            let blocks = self.codes.blocks(first..count.min(first + TILE_BLOCKS as u64));
            if !coded.is_empty() {
                self.kernel.scan(blocks, &coded, &mut found);
            }
        }
        let rows = (0..slots as u32).map(|slot| self.codes.row(slot)).collect::<Result<Vec<u64>>>()?;
        let of_rows = found.all.into_iter().map(|of_slots| {
            let mut of_rows = vec![f32::NAN; self.matrix.rows() as usize];
            rows.iter().zip(of_slots).for_each(|(row, estimate)| of_rows[*row as usize] = estimate);
            of_rows
        });
        Ok(of_rows.collect())
    }
}

struct BySlot {
    /// By query, the estimates of all slots.
    all: Vec<Vec<f32>>,
    /// The first block of the tile.
    first: usize,
}

impl Sink for BySlot {
    fn threshold(&self, _: usize) -> f32 {
        f32::NEG_INFINITY
    }

    fn take(&mut self, query: usize, block: usize, _: u64, estimates: &Estimates) {
        self.all[query][(self.first + block) * BLOCK..][..BLOCK].copy_from_slice(estimates);
    }
}
