//! One batch of queries through the codes: which lists, which rows of them, which of these are best.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Quantized;
use super::candidates::Candidates;
use super::coder::coordinates;
use super::gather::Gather;
use super::kernel::{BLOCK, Query};
use crate::dot;
use crate::flat::refined_for;
use crate::workers::{in_order, map_workers, run_workers};
use crate::{Hit, Result, SearchParams};

/// Blocks that all queries meet while they are in the cache.
pub const TILE_BLOCKS: usize = 32;
/// Tiles that are asked for at a time, where the file is not in memory: 3 MB of 768 values.
const TILES_AHEAD: usize = 16;
/// Visits of a query to a block below which a further thread costs more than it saves.
const MIN_VISITS: usize = 2048;
/// Visits of queries to lists that a worker takes at once.
const CLAIM_VISITS: usize = 256;
/// Queries that a thread codes before a further one pays.
const CODED_AT_LEAST: usize = 16;
/// Queries whose candidates a thread scores before a further one pays.
const MIN_QUERIES: usize = 8;
/// Lists whose centroids are scored for each one that is looked at: the codes of centroids confuse near ones, too.
const CENTROIDS_PER_PROBE: usize = 2;

/// How much is looked at for each query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// Lists.
    pub probes: usize,
    /// Rows that are scored.
    pub candidates: usize,
}

/// What a scan of all slots is for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    slots: u64,
    /// The best that are kept for each query.
    kept: usize,
    /// Whether the slots are those of rows, which may be deleted, and not of centroids.
    rows: bool,
}

/// Queries that are searched together.
pub struct Batch<'a> {
    index: &'a Quantized,
    /// Row-major.
    queries: &'a [f32],
    coded: Vec<Query>,
    probing: Probing,
    top_k: usize,
    threads: usize,
}

impl<'a> Batch<'a> {
    pub fn new(index: &'a Quantized, queries: &'a [f32], probing: Probing, params: &SearchParams) -> Result<Self> {
        let dimensions = index.matrix.dimensions();
        let count = queries.len() / dimensions;
        let room = || vec![0.0; coordinates(dimensions)];
        let coded = map_workers(params.threads, count.div_ceil(CODED_AT_LEAST), count, room, |rotated, number| {
            let query = &queries[number * dimensions..][..dimensions];
            Ok(index.codes.coder().query(index.kernel, query, rotated))
        })?;
        Ok(Self { index, queries, coded, probing, top_k: params.top_k, threads: params.threads })
    }

    pub fn run(&self) -> Result<Vec<Vec<Hit>>> {
        let lists = self.index.lists();
        let cold = (&self.index.cold_codes, &self.index.cold_rows);
        let best = if self.probing.probes >= lists {
            let wanted = Wanted { slots: self.index.codes.shape().slots, kept: self.probing.candidates, rows: true };
            self.scan_all(wanted, |blocks| self.index.codes.blocks(blocks))?
        } else {
            self.scan_lists(&self.visits()?)?
        };
        cold.0.end_of_batch();
        let hits = self.score(best);
        cold.1.end_of_batch();
        hits
    }

    /// The best of all slots for each query; `blocks` gives their codes.
    fn scan_all<'b>(&self, wanted: Wanted, blocks: impl Fn(Range<u64>) -> &'b [u8] + Sync) -> Result<Vec<Candidates>> {
        let Wanted { slots, kept, rows } = wanted;
        let count = slots.div_ceil(BLOCK as u64) as usize;
        let tiles = count.div_ceil(TILE_BLOCKS);
        let useful = (count * self.coded.len() / MIN_VISITS).clamp(1, tiles.max(1));
        let (all, next) = ((0..self.coded.len()).collect::<Vec<_>>(), AtomicUsize::new(0));
        let parts = run_workers(self.threads, useful, || {
            let mut best = self.no_candidates(kept);
            while let tile = next.fetch_add(1, Ordering::Relaxed)
                && tile < tiles
            {
                let first = tile * TILE_BLOCKS;
                let codes = blocks(first as u64..(first + TILE_BLOCKS).min(count) as u64);
                if rows {
                    self.ask_ahead(tile, tiles, count);
                }
                self.index.cold_codes.watch(|| {
                    self.scan(codes, (first * BLOCK) as u64, 0..slots, &all, rows, &mut best);
                });
            }
            Ok(best)
        })?;
        Ok(merged(parts))
    }

    /// Asks for the tiles that come next but few, some at a time, where the file is not in memory.
    fn ask_ahead(&self, tile: usize, tiles: usize, count: usize) {
        if tile.is_multiple_of(TILES_AHEAD) {
            let from = if tile == 0 { 0 } else { tile + TILES_AHEAD };
            let blocks = |tile: usize| (tile.min(tiles) * TILE_BLOCKS).min(count) as u64;
            let (codes, ahead) = (&self.index.codes, blocks(from)..blocks(tile + 2 * TILES_AHEAD));
            self.index.cold_codes.ask(codes.file(), [codes.place(ahead)]);
        }
    }

    /// Runs the codes of some blocks, the first of which begins with slot `first`, past the queries with these numbers.
    /// Of `rows`, those that are deleted are passed over.
    fn scan(
        &self,
        codes: &[u8],
        first: u64,
        valid: Range<u64>,
        queries: &[usize],
        rows: bool,
        best: &mut [Candidates],
    ) {
        let Quantized { live, codes: all, .. } = self.index;
        // A row that is not there is found out when it is scored.
        let is_live = |slot| all.row(slot).map_or(true, |row| live.contains(row));
        let is_live: Option<&dyn Fn(u32) -> bool> = (rows && !live.is_whole()).then_some(&is_live);
        let mut gather = Gather::new(best, queries).of_live(is_live);
        gather.enter(first, valid);
        let queries: Vec<&Query> = queries.iter().map(|query| &self.coded[*query]).collect();
        self.index.kernel.scan(codes, &queries, &mut gather);
    }

    fn no_candidates(&self, kept: usize) -> Vec<Candidates> {
        vec![Candidates::new(kept); self.coded.len()]
    }

    /// Which query goes to which list, by list.
    fn visits(&self) -> Result<Vec<(u32, u32)>> {
        let (codes, probes) = (&self.index.codes, self.probing.probes);
        let (centroids, block) = (codes.centroids(), codes.shape().block_bytes());
        let wanted = Wanted { slots: self.index.lists() as u64, kept: probes * CENTROIDS_PER_PROBE, rows: false };
        let nearest =
            self.scan_all(wanted, |blocks| &centroids[blocks.start as usize * block..blocks.end as usize * block])?;
        let parts = self.for_each(nearest, |number, lists, query| {
            let lists: Vec<u32> = lists.into_slots().collect();
            let mut scores = Vec::new();
            dot::score_each(lists.len(), query, &mut scores, |at| codes.centroid(lists[at] as usize));
            let mut best = Candidates::new(probes);
            scores.iter().zip(lists).for_each(|(score, list)| best.push(*score, list));
            Ok(best.into_slots().map(|list| (list, number as u32)).collect::<Vec<_>>())
        })?;
        let mut visits = parts.concat();
        visits.sort_unstable();
        Ok(visits)
    }

    fn scan_lists(&self, visits: &[(u32, u32)]) -> Result<Vec<Candidates>> {
        let lists: Vec<&[(u32, u32)]> = visits.chunk_by(|a, b| a.0 == b.0).collect();
        let (codes, cold) = (&self.index.codes, &self.index.cold_codes);
        cold.ask(codes.file(), lists.iter().map(|visits| codes.place(self.blocks_of(visits[0].0))));
        let claim = (CLAIM_VISITS * lists.len() / visits.len().max(1)).max(1);
        let next = AtomicUsize::new(0);
        let useful = (visits.len() * 3 / MIN_VISITS).max(1);
        let parts = run_workers(self.threads, useful, || {
            let mut best = self.no_candidates(self.probing.candidates);
            let mut queries = Vec::new();
            loop {
                let first = next.fetch_add(claim, Ordering::Relaxed);
                let Some(lists) = lists.get(first..(first + claim).min(lists.len())).filter(|l| !l.is_empty()) else {
                    return Ok(best);
                };
                cold.watch(|| {
                    for visits in lists {
                        let (valid, blocks) = (codes.list(visits[0].0 as usize), self.blocks_of(visits[0].0));
                        queries.clear();
                        queries.extend(visits.iter().map(|(_, query)| *query as usize));
                        let start = blocks.start * BLOCK as u64;
                        self.scan(codes.blocks(blocks), start, valid, &queries, true, &mut best);
                    }
                });
            }
        })?;
        Ok(merged(parts))
    }

    /// The blocks that hold a list; the first and the last may hold others, too.
    fn blocks_of(&self, list: u32) -> Range<u64> {
        let slots = self.index.codes.list(list as usize);
        slots.start / BLOCK as u64..slots.end.div_ceil(BLOCK as u64)
    }

    /// The best hits among the candidates of each query.
    fn score(&self, best: Vec<Candidates>) -> Result<Vec<Vec<Hit>>> {
        let Quantized { codes, matrix, cold_rows, exact, .. } = self.index;
        let rows = self.for_each(best, |_, candidates, _| {
            let rows = candidates.into_slots().map(|slot| codes.row(slot));
            let mut rows = rows.collect::<Result<Vec<u64>>>()?;
            rows.sort_unstable();
            rows.dedup();
            Ok(rows)
        })?;
        if cold_rows.is_cold() {
            // Of all queries together, so that the disk sees one sorted batch.
            let mut all = rows.concat();
            all.sort_unstable();
            cold_rows.ask(matrix.file(), all.into_iter().map(|row| matrix.place(row)));
        }
        self.for_each(rows, |_, rows, query| {
            cold_rows.watch(|| exact.best_of(query, &rows, self.top_k, refined_for(self.top_k)))
        })
    }

    /// What `work` makes of what there is for each query, in order.
    fn for_each<C: Send, T: Send>(
        &self,
        all: Vec<C>,
        work: impl Fn(usize, C, &[f32]) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let dimensions = self.index.matrix.dimensions();
        let useful = all.len() / MIN_QUERIES + 1;
        let waiting = Mutex::new(all.into_iter().enumerate());
        let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let parts = run_workers(self.threads, useful, || {
            let mut done = Vec::new();
            while let Some((number, candidates)) = take() {
                let query = &self.queries[number * dimensions..][..dimensions];
                done.push((number, work(number, candidates, query)?));
            }
            Ok(done)
        })?;
        Ok(in_order(parts))
    }
}

/// The candidates of all workers together.
fn merged(parts: Vec<Vec<Candidates>>) -> Vec<Candidates> {
    let mut parts = parts.into_iter();
    let mut best = parts.next().unwrap_or_default();
    for part in parts {
        best.iter_mut().zip(part).for_each(|(best, part)| best.merge(part));
    }
    best
}
