//! Which list does a row belong to?
//!
//! The row is taken as a query against the codes of the centroids: those of the cells first, then those of the lists in
//! the nearest cells. The best few estimates are decided by true products.

use super::candidates::Candidates;
use super::coder::{Coder, Factors, Units, coordinates};
use super::gather::Gather;
use super::kernel::{BLOCK, Kernel, Query};
use super::train::Centroids;
use crate::dot;
use crate::matrix::Rows;

/// Cells whose lists a row is held against.
const CELLS: usize = 16;
/// Lists whose true products decide.
const FINALISTS: usize = 16;

/// The list of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearest {
    pub list: u32,
    /// The product with the list's centroid.
    pub cosine: f32,
}

/// The centroids in the form in which rows are held against them.
pub struct Assigner<'a> {
    centroids: &'a Centroids,
    coder: Coder,
    kernel: Kernel,
    /// Codes of the cells' centroids.
    coarse: Vec<u8>,
    /// By cell, the codes of its lists.
    cells: Vec<Vec<u8>>,
}

impl<'a> Assigner<'a> {
    /// Codes all centroids. The units of `coder` do not matter.
    pub fn new(centroids: &'a Centroids, mut coder: Coder) -> Self {
        let all = centroids.fine.chunks_exact(centroids.dimensions);
        let all = all.chain(centroids.coarse.chunks_exact(centroids.dimensions));
        coder.set_units(Units::covering(largest_factors(&coder, all)));
        let mut first = 0;
        let cells = centroids.cell_ends.iter().map(|end| {
            let lists = &centroids.fine[first * centroids.dimensions..*end * centroids.dimensions];
            first = *end;
            code_all(&coder, lists)
        });
        let cells = cells.collect();
        let coarse = code_all(&coder, &centroids.coarse);
        Self { centroids, coder, kernel: Kernel::best(), coarse, cells }
    }

    /// The list of `row`, whose rotated form is `rotated`.
    pub fn nearest(&self, row: &[f32], rotated: &[f32]) -> Nearest {
        // What is the same for all centroids does not matter.
        let query = Query::new(self.kernel, rotated, 0.0, self.coder.units());
        let mut finalists = [Candidates::new(FINALISTS)];
        for cell in self.nearest_cells(&query) {
            let first = if cell == 0 { 0 } else { self.centroids.cell_ends[cell - 1] };
            let lists = first as u64..self.centroids.cell_ends[cell] as u64;
            let mut gather = Gather::new(&mut finalists, &[0]);
            // Each cell's blocks begin with its first list.
            gather.enter(lists.start, lists);
            self.kernel.scan(&self.cells[cell], &[&query], &mut gather);
        }
        let [finalists] = finalists;
        let lists: Vec<u32> = finalists.into_slots().collect();
        let dimensions = self.centroids.dimensions;
        let mut scores = Vec::with_capacity(lists.len());
        dot::score_each(lists.len(), row, &mut scores, |at| {
            Rows::F32(&self.centroids.fine[lists[at] as usize * dimensions..][..dimensions])
        });
        let mut best = Nearest { list: 0, cosine: f32::NEG_INFINITY };
        for (list, cosine) in lists.into_iter().zip(scores) {
            if cosine > best.cosine || (cosine == best.cosine && list < best.list) {
                best = Nearest { list, cosine };
            }
        }
        best
    }

    fn nearest_cells(&self, query: &Query) -> impl Iterator<Item = usize> {
        let count = self.cells.len();
        let mut nearest = [Candidates::new(CELLS)];
        if count > 1 {
            let mut gather = Gather::new(&mut nearest, &[0]);
            gather.enter(0, 0..count as u64);
            self.kernel.scan(&self.coarse, &[query], &mut gather);
        } else {
            nearest[0].push(0.0, 0);
        }
        let [nearest] = nearest;
        nearest.into_sorted().map(|(_, cell)| cell as usize)
    }
}

/// The largest factors of `vectors`.
pub fn largest_factors<'v>(coder: &Coder, vectors: impl Iterator<Item = &'v [f32]>) -> Factors {
    let mut rotated = vec![0.0; coordinates(coder.dimensions())];
    let mut code = vec![0; rotated.len() / 8];
    let encode = |vector: &[f32]| {
        coder.rotate(vector, &mut rotated);
        coder.encode(vector, &rotated, &mut code)
    };
    vectors.map(encode).fold(Factors::default(), Factors::larger)
}

/// Blocks of the codes of `vectors`, row-major.
pub fn code_all(coder: &Coder, vectors: &[f32]) -> Vec<u8> {
    let count = vectors.len() / coder.dimensions();
    let mut rotated = vec![0.0; coordinates(coder.dimensions())];
    let mut code = vec![0; rotated.len() / 8];
    let block_bytes = super::coder::row_bytes(coder.dimensions()) * BLOCK;
    let mut blocks = vec![0; count.div_ceil(BLOCK) * block_bytes];
    for (at, vector) in vectors.chunks_exact(coder.dimensions()).enumerate() {
        coder.rotate(vector, &mut rotated);
        let factors = coder.encode(vector, &rotated, &mut code);
        coder.put(&mut blocks[at / BLOCK * block_bytes..][..block_bytes], at % BLOCK, &code, factors);
    }
    blocks
}
