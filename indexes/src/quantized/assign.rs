//! Which list does a row belong to?
//!
//! The row is taken as a query against the codes of the centroids: those of the cells first, then those of the lists in
//! the nearest cells. Of the best few estimates, products with the centroids as they are stored decide.

use super::candidates::Candidates;
use super::coder::{Coder, Factors, Units, coordinates};
use super::gather::Gather;
use super::kernel::{BLOCK, Kernel, Query};
use super::train::Centroids;
use crate::Result;
use crate::dot;
use crate::matrix::{Block, Rows};
use crate::workers::map_workers;

/// Rows that are assigned together; their tables fit the second-level cache.
pub const TOGETHER: usize = 64;
/// Cells whose lists a row is held against.
const CELLS: usize = 16;
/// Lists whose products with the row decide.
const FINALISTS: usize = 10;

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
    /// The lists' centroids as searches compare them.
    stored: Block,
}

impl<'a> Assigner<'a> {
    /// Codes all centroids. The units of `coder` do not matter.
    pub fn new(centroids: &'a Centroids, mut coder: Coder) -> Result<Self> {
        let all = centroids.fine.chunks_exact(centroids.dimensions);
        let all = all.chain(centroids.coarse.chunks_exact(centroids.dimensions));
        coder.set_units(Units::covering(largest_factors(&coder, all)));
        let cells = (0..centroids.cell_ends.len()).map(|cell| {
            let lists = centroids.lists_of(cell);
            code_all(&coder, &centroids.fine[lists.start * centroids.dimensions..lists.end * centroids.dimensions])
        });
        let cells = cells.collect();
        let coarse = code_all(&coder, &centroids.coarse);
        let stored = coder.eight_bits().encode(&centroids.fine, 0)?;
        Ok(Self { centroids, coder, kernel: Kernel::best(), coarse, cells, stored })
    }

    pub fn centroids(&self) -> &'a Centroids {
        self.centroids
    }

    /// The lists' centroids as they are stored: rows of eight bits about the mean.
    pub fn stored(&self) -> &[u8] {
        self.stored.planes().coarse
    }

    /// The list of each of `rows`, row-major, whose rotated forms are `rotated`. Fastest with [`TOGETHER`] rows.
    pub fn nearest(&self, rows: &[f32], rotated: &[f32]) -> Vec<Nearest> {
        let rows = self.finalists(rotated, FINALISTS).zip(rows.chunks_exact(self.centroids.dimensions));
        rows.map(|(finalists, row)| self.nearest_of(&finalists, row)).collect()
    }

    /// For each list the `count` lists that are nearest to it by their codes; itself is one of them.
    pub fn near_lists(&self, count: usize, threads: usize) -> Result<Vec<Vec<u32>>> {
        let dimensions = self.centroids.dimensions;
        let all: Vec<&[f32]> = self.centroids.fine.chunks(TOGETHER * dimensions).collect();
        let room = || vec![0.0; TOGETHER * coordinates(dimensions)];
        let near = map_workers(threads, all.len(), all.len(), room, |rotated, at| {
            let finalists = self.finalists(self.coder.rotate_all(all[at], rotated), count);
            Ok(finalists
                .zip((at * TOGETHER) as u32..)
                .map(|(mut near, own)| {
                    if !near.contains(&own) {
                        near.push(own);
                    }
                    near
                })
                .collect::<Vec<_>>())
        })?;
        Ok(near.concat())
    }

    /// The `count` lists of the best estimates for each of the rows whose rotated forms are `rotated`.
    fn finalists(&self, rotated: &[f32], count: usize) -> impl Iterator<Item = Vec<u32>> + use<> {
        // What is the same for all centroids does not matter.
        let query = |rotated| Query::new(self.kernel, rotated, 0.0, 1.0, self.coder.units());
        let queries: Vec<Query> = rotated.chunks_exact(coordinates(self.centroids.dimensions)).map(query).collect();
        let mut finalists = vec![Candidates::new(count); queries.len()];
        for visits in self.visits(&queries).chunk_by(|a, b| a.0 == b.0) {
            let cell = visits[0].0 as usize;
            let lists = self.centroids.lists_of(cell);
            let numbers: Vec<usize> = visits.iter().map(|(_, query)| *query as usize).collect();
            let visitors: Vec<&Query> = numbers.iter().map(|number| &queries[*number]).collect();
            let mut gather = Gather::new(&mut finalists, &numbers);
            // Each cell's blocks begin with its first list.
            gather.enter(lists.start as u64, lists.start as u64..lists.end as u64);
            self.kernel.scan(&self.cells[cell], &visitors, &mut gather);
        }
        finalists.into_iter().map(|finalists| finalists.into_slots().collect())
    }

    /// Which row, by its number, meets the lists of which cell, by cell.
    fn visits(&self, queries: &[Query]) -> Vec<(u32, u32)> {
        let numbers: Vec<usize> = (0..queries.len()).collect();
        let mut nearest = vec![Candidates::new(CELLS); queries.len()];
        if self.cells.len() > 1 && !queries.is_empty() {
            let mut gather = Gather::new(&mut nearest, &numbers);
            gather.enter(0, 0..self.cells.len() as u64);
            self.kernel.scan(&self.coarse, &queries.iter().collect::<Vec<_>>(), &mut gather);
        } else {
            nearest.iter_mut().for_each(|nearest| nearest.push(0.0, 0));
        }
        let visits =
            nearest.into_iter().zip(0..).flat_map(|(cells, query)| cells.into_slots().map(move |cell| (cell, query)));
        let mut visits: Vec<(u32, u32)> = visits.collect();
        visits.sort_unstable();
        visits
    }

    /// The nearest of `lists` to `row`.
    pub fn nearest_of(&self, lists: &[u32], row: &[f32]) -> Nearest {
        let mut scores = Vec::with_capacity(lists.len());
        dot::score_each(lists.len(), row, &mut scores, |at| {
            Rows::i8_row(self.coder.mean(), self.stored(), lists[at] as usize)
        });
        let mut best = Nearest { list: 0, cosine: f32::NEG_INFINITY };
        for (list, cosine) in lists.iter().zip(scores) {
            if cosine > best.cosine || (cosine == best.cosine && *list < best.list) {
                best = Nearest { list: *list, cosine };
            }
        }
        best
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
