//! Centroids of lists: spherical k-means.
//!
//! Rows go to the centroid of the greatest cosine (Dhillon and Modha, *Concept Decompositions*, 2001). Looking for it
//! among all centroids would be too slow where there are many, so the centroids themselves lie in cells, and a row
//! meets those of the nearest cells only. Cells of rows, each with centroids of its own, would be quicker still, but
//! they cut through what belongs together: lists made so find a quarter less in the same time.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::assign::{Assigner, Nearest, TOGETHER};
use super::coder::{Coder, coordinates};
use crate::dot::{self, Panels};
use crate::matrix::{Block, Rows};
use crate::workers::map_workers;
use crate::{Interrupt, Matrix, MatrixSpec, OnProgress, Progress, Result};

/// Rounds of k-means: later ones move few rows.
const ROUNDS: usize = 6;
/// Lists that a row may go to after the full rounds, those nearest to its own: centroids move little.
const NEAR: usize = 32;
/// Rounds in which a row may go to any list.
const FULL_ROUNDS: usize = 2;
/// Rows of the sample for each list, while all of them are no more than `MAX_SAMPLE`.
const LIST_SAMPLE: u64 = 32;
/// Rows of the sample at most, unless that is too few for the lists.
const MAX_SAMPLE: u64 = 1 << 21;
/// The fewest rows of the sample for each list.
const MIN_LIST_SAMPLE: u64 = 8;
/// Up to this many centroids lie in one cell.
const ONE_CELL: usize = 4096;
/// Rounds of k-means over the centroids, into cells.
const CELL_ROUNDS: usize = 4;
/// Vectors that meet the centroids of cells at once.
const TILE: usize = 96;

/// The lists' centroids, row-major, all as long as a row is in the mean, and the cells that they are in.
#[derive(Debug, Clone)]
pub struct Centroids {
    pub dimensions: usize,
    /// One a cell.
    pub coarse: Vec<f32>,
    /// By cell, where its lists end.
    pub cell_ends: Vec<usize>,
    /// One a list, those of a cell together.
    pub fine: Vec<f32>,
}

impl Centroids {
    pub fn lists(&self) -> usize {
        self.fine.len() / self.dimensions
    }

    /// The lists of a cell.
    pub fn lists_of(&self, cell: usize) -> Range<usize> {
        let start = if cell == 0 { 0 } else { self.cell_ends[cell - 1] };
        start..self.cell_ends[cell]
    }

    /// Puts the centroids into cells, about the square root of their number, and tells which they were before.
    fn in_cells(
        fine: Vec<f32>,
        dimensions: usize,
        threads: usize,
        interrupt: &Interrupt,
    ) -> Result<(Self, Vec<usize>)> {
        let count = fine.len() / dimensions;
        let mut order: Vec<usize> = (0..count).collect();
        if count <= ONE_CELL {
            return Ok((Self { dimensions, coarse: Vec::new(), cell_ends: vec![count], fine }, order));
        }
        let cells = (count as f64).sqrt().round() as usize;
        let of = |at: usize| &fine[at * dimensions..][..dimensions];
        let mut coarse: Vec<f32> = (0..cells).flat_map(|cell| of(cell * count / cells).iter().copied()).collect();
        let mut nearest = Vec::new();
        for round in 0..=CELL_ROUNDS {
            interrupt.check()?;
            nearest = nearest_of(&fine, &coarse, dimensions, threads)?;
            if round < CELL_ROUNDS {
                coarse = means(&coarse, &nearest, dimensions, |at, out| out.copy_from_slice(of(at)));
            }
        }
        order.sort_by_key(|at| nearest[*at].list);
        let mut cell_ends = vec![0; cells];
        nearest.iter().for_each(|nearest| cell_ends[nearest.list as usize] += 1);
        for cell in 1..cells {
            cell_ends[cell] += cell_ends[cell - 1];
        }
        let fine = order.iter().flat_map(|at| of(*at).iter().copied()).collect();
        Ok((Self { dimensions, coarse, cell_ends, fine }, order))
    }
}

/// Rows that centroids are trained on, in memory: a matrix may be larger than that, and every round meets them.
struct Sample {
    /// Rows of eight bits.
    spec: MatrixSpec,
    /// [`TOGETHER`] rows each.
    blocks: Vec<Block>,
    rows: usize,
}

impl Sample {
    /// `count` rows of `matrix`, evenly spread; `done` is called with the rows that were read.
    fn of(
        matrix: &Matrix,
        count: u64,
        coder: &Coder,
        threads: usize,
        done: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<Self> {
        let dimensions = matrix.dimensions();
        let spec = coder.eight_bits();
        let row = |at: u64| (u128::from(at) * u128::from(matrix.rows()) / u128::from(count)) as u64;
        let claims = (count as usize).div_ceil(TOGETHER);
        let blocks = map_workers(
            threads,
            claims,
            claims,
            || vec![0.0; TOGETHER * dimensions],
            |vectors, claim| {
                let first = claim * TOGETHER;
                let found = (count as usize - first).min(TOGETHER);
                let vectors = &mut vectors[..found * dimensions];
                for (at, vector) in (first as u64..).zip(vectors.chunks_exact_mut(dimensions)) {
                    matrix.widen(row(at)..row(at) + 1, vector);
                }
                done(found)?;
                spec.encode(vectors, 0)
            },
        )?;
        Ok(Self { spec, blocks, rows: count as usize })
    }

    /// Writes the vector of a row.
    fn widen(&self, at: usize, out: &mut [f32]) {
        let block = self.blocks[at / TOGETHER].planes().coarse;
        Rows::i8_row(&self.spec.mean, block, at % TOGETHER).widen(out);
    }

    /// The vectors of a block.
    fn widen_block<'b>(&'b self, block: usize, buffer: &'b mut [f32]) -> &'b [f32] {
        Rows::I8 { mean: &self.spec.mean, rows: self.blocks[block].planes().coarse }.widened(buffer)
    }
}

/// Rows that `lists` of `rows` are trained on.
pub fn sample_rows(rows: u64, lists: u64) -> u64 {
    let most = MAX_SAMPLE.max(lists.saturating_mul(MIN_LIST_SAMPLE));
    lists.saturating_mul(LIST_SAMPLE).min(most).min(rows)
}

/// Trains `lists` centroids, or as many as there are rows, on rows of `matrix`, evenly spread. Progress counts rows of
/// the sample: when they are read, and once a round.
pub fn train(
    matrix: &Matrix,
    coder: &Coder,
    lists: usize,
    threads: usize,
    progress: OnProgress<'_>,
    interrupt: &Interrupt,
) -> Result<Centroids> {
    let dimensions = matrix.dimensions();
    let lists = lists.min(matrix.rows() as usize);
    let count = sample_rows(matrix.rows(), lists as u64);
    let all_done = AtomicUsize::new(0);
    let done = |rows| {
        interrupt.check()?;
        let done = all_done.fetch_add(rows, Ordering::Relaxed) + rows;
        progress(Progress { done: done as u64, total: Some(count * (ROUNDS as u64 + 1)) });
        Ok(())
    };
    let sample = Sample::of(matrix, count, coder, threads, done)?;
    let mut fine = vec![0.0; lists * dimensions];
    for (list, centroid) in fine.chunks_exact_mut(dimensions).enumerate() {
        sample.widen(list * sample.rows / lists, centroid);
    }
    // Rows that are not unit vectors are coded about a mean that is none: centroids far from it would all look alike.
    let length = fine.chunks_exact(dimensions).map(dot::norm).sum::<f64>() / lists.max(1) as f64;
    fine.chunks_exact_mut(dimensions).for_each(|centroid| set_length(centroid, length));
    let room = || (vec![0.0; TOGETHER * dimensions], vec![0.0; TOGETHER * coordinates(dimensions)]);
    let claims = sample.blocks.len();
    let mut nearest: Vec<Nearest> = Vec::new();
    for round in 0..ROUNDS {
        let (centroids, order) = Centroids::in_cells(fine, dimensions, threads, interrupt)?;
        let assigner = Assigner::new(&centroids, coder.clone())?;
        renumber(&mut nearest, &order);
        let near = if round < FULL_ROUNDS { Vec::new() } else { assigner.near_lists(NEAR, threads)? };
        let found = map_workers(threads, claims, claims, room, |(vectors, rotated), claim| {
            let vectors = sample.widen_block(claim, vectors);
            let found = if round < FULL_ROUNDS {
                assigner.nearest(vectors, coder.rotate_all(vectors, rotated))
            } else {
                let rows = vectors.chunks_exact(dimensions).zip(&nearest[claim * TOGETHER..]);
                rows.map(|(vector, before)| assigner.nearest_of(&near[before.list as usize], vector)).collect()
            };
            done(found.len())?;
            Ok(found)
        })?;
        nearest = found.concat();
        fine = means(&centroids.fine, &nearest, dimensions, |at, out| sample.widen(at, out));
    }
    Ok(Centroids::in_cells(fine, dimensions, threads, interrupt)?.0)
}

/// Calls lists by their places in `order`.
fn renumber(nearest: &mut [Nearest], order: &[usize]) {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(before, place)| places[*before] = place);
    nearest.iter_mut().for_each(|nearest| nearest.list = places[nearest.list as usize]);
}

/// The means of vectors by their nearest centroid, as long as `centroids` are; `fetch` gives a vector. A centroid that
/// is nearest to none takes one of the vectors that fit worst where they are.
fn means(centroids: &[f32], nearest: &[Nearest], dimensions: usize, fetch: impl Fn(usize, &mut [f32])) -> Vec<f32> {
    let length = centroids.chunks_exact(dimensions).next().map_or(0.0, dot::norm);
    let mut sums = vec![0f32; centroids.len()];
    let mut counts = vec![0usize; centroids.len() / dimensions];
    let mut vector = vec![0.0; dimensions];
    for (at, nearest) in nearest.iter().enumerate() {
        fetch(at, &mut vector);
        let sum = &mut sums[nearest.list as usize * dimensions..][..dimensions];
        sum.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x);
        counts[nearest.list as usize] += 1;
    }
    let mut worst: Vec<usize> = Vec::new();
    if counts.contains(&0) {
        worst = (0..nearest.len()).collect();
        worst.sort_by(|a, b| nearest[*b].cosine.total_cmp(&nearest[*a].cosine).then(b.cmp(a)));
    }
    for (sum, count) in sums.chunks_exact_mut(dimensions).zip(&counts) {
        if *count == 0
            && let Some(at) = worst.pop()
        {
            fetch(at, sum);
        }
        set_length(sum, length);
    }
    sums
}

/// The nearest of `centroids` for each of `vectors`, both row-major.
fn nearest_of(vectors: &[f32], centroids: &[f32], dimensions: usize, threads: usize) -> Result<Vec<Nearest>> {
    let panels = Panels::new(dimensions, centroids);
    let count = centroids.len() / dimensions;
    let tiles: Vec<&[f32]> = vectors.chunks(TILE * dimensions).collect();
    let room = || vec![0.0; TILE * panels.width()];
    let nearest = map_workers(threads, tiles.len(), tiles.len(), room, |scores, tile| {
        let scores = &mut scores[..tiles[tile].len() / dimensions * panels.width()];
        panels.score(tiles[tile], scores);
        Ok(scores.chunks_exact(panels.width()).map(|scores| best_of(&scores[..count])).collect::<Vec<_>>())
    })?;
    Ok(nearest.concat())
}

fn best_of(scores: &[f32]) -> Nearest {
    let mut best = Nearest { list: 0, cosine: f32::NEG_INFINITY };
    for (list, cosine) in (0..).zip(scores) {
        if *cosine > best.cosine {
            best = Nearest { list, cosine: *cosine };
        }
    }
    best
}

fn set_length(vector: &mut [f32], length: f64) {
    let norm = dot::norm(vector);
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) * (length / norm)) as f32);
    }
}
