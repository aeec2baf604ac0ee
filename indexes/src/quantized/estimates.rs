//! What do the codes say of every row? For looking into an index, and for comparing kernels and readers.

use super::Quantized;
use super::coder::coordinates;
use super::kernel::{BLOCK, Estimates, Query, Sink, WIDTH};
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
        let blocks = self.codes.blocks(0..slots.div_ceil(BLOCK as u64));
        let mut all = Vec::with_capacity(coded.len());
        for pair in coded.chunks(WIDTH) {
            let mut found = BySlot(vec![vec![f32::NAN; slots.next_multiple_of(BLOCK as u64) as usize]; pair.len()]);
            self.kernel.scan(blocks, &pair.iter().collect::<Vec<_>>(), &mut found);
            for of_slots in found.0 {
                let mut of_rows = vec![f32::NAN; self.matrix.rows() as usize];
                for (slot, estimate) in (0..slots as u32).zip(of_slots) {
                    of_rows[self.codes.row(slot)? as usize] = estimate;
                }
                all.push(of_rows);
            }
        }
        Ok(all)
    }
}

/// By query, the estimates of all slots.
struct BySlot(Vec<Vec<f32>>);

impl Sink for BySlot {
    fn threshold(&self, _: usize) -> f32 {
        f32::NEG_INFINITY
    }

    fn take(&mut self, query: usize, block: usize, _: u64, estimates: &Estimates) {
        self.0[query][block * BLOCK..][..BLOCK].copy_from_slice(estimates);
    }
}
