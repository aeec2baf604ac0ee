//! Exact search: every row is scored that is not deleted.
//!
//! A batch of queries meets each tile of rows while it is in the cache, so a pass over the file serves all of them;
//! threads share out the rows. Fast kernels find the rows that could matter, and those get the canonical score. Of rows in
//! two planes kernels read the first alone; what the second could add to it is bounded, row by row.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dot::{self, Panels};
use crate::measure::Work;
use crate::select::{Selection, TopK};
use crate::workers::run_workers;
use crate::{ElementType, Error, Hit, Index, LiveRows, Matrix, Result, SearchParams, Vectors};

/// Queries that meet a tile together; their panels fit in the second-level cache.
const BATCH: usize = 256;
/// From this many queries on the panels are faster, although they score at least 16.
const MIN_PANEL_QUERIES: usize = 8;
/// Bytes of a widened tile of rows: it stays in the second-level cache beside the panels.
const TILE_BYTES: usize = 144 << 10;
/// Rows that a worker takes at once.
const CLAIM_ROWS: u64 = 2048;
/// Multiplications below which a further thread costs more than it saves.
const MIN_WORK: u64 = 1 << 22;

/// The exact index: the matrix itself.
#[derive(Debug)]
pub struct Flat {
    matrix: Arc<Matrix>,
    live: LiveRows,
}

impl Flat {
    /// Searches `matrix`.
    pub fn new(matrix: Arc<Matrix>) -> Self {
        let live = LiveRows::all(matrix.rows());
        Self { matrix, live }
    }

    /// Searches the `live` rows of `matrix` alone.
    pub fn of_live(matrix: Arc<Matrix>, live: LiveRows) -> Self {
        Self { matrix, live }
    }

    /// The rows.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Those that can be found.
    pub fn live(&self) -> &LiveRows {
        &self.live
    }

    /// Searches exactly for each query that an approximate index has found too few `hits` for: rather slow than short.
    pub(crate) fn complete(&self, queries: &Vectors, hits: &mut [Vec<Hit>], params: &SearchParams) -> Result<()> {
        let wanted = usize::try_from(self.len()).unwrap_or(usize::MAX).min(params.top_k);
        for (query, hits) in queries.rows().zip(hits).filter(|(_, hits)| hits.len() < wanted) {
            let query = Vectors::new(self.dimensions(), query.to_vec())?;
            *hits = self.search(&query, params)?.pop().unwrap_or_default();
        }
        Ok(())
    }

    /// The best of `rows`, none of which is deleted, for one query. Of rows in two planes the second is read for at most
    /// `refined` of them, those that are best by the first; with as many as there are rows the hits are exact.
    pub(crate) fn best_of(&self, query: &[f32], rows: &[u64], top_k: usize, refined: usize) -> Result<Vec<Hit>> {
        let norm = dot::norm(query);
        let slack = dot::slack(query.len(), norm * self.matrix.sum_bound());
        let mut picked = self.matrix.pick(rows)?;
        let mut scores = Vec::with_capacity(rows.len());
        dot::score_each(rows.len(), query, &mut scores, |at| picked.stored(at));
        // By place in `rows`.
        let mut order: Vec<(f32, usize)> = scores.into_iter().zip(0..).collect();
        let better = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if self.matrix.element_type() == ElementType::I16 {
            if refined < order.len() {
                order.select_nth_unstable_by(refined, better);
                order.truncate(refined);
            }
            let reach = dot::reach(query.len(), norm);
            for (score, at) in &mut order {
                *score += picked.stored(*at).fine_scale(0).unwrap_or(0.0) * reach;
            }
        }
        order.sort_unstable_by(better);
        let mut best = TopK::new(top_k.min(rows.len()).max(1));
        let mut vector = vec![0.0; query.len()];
        for (score, at) in order {
            // Those that follow are not better; what is no number has to be found out.
            if score < best.threshold() - slack {
                break;
            }
            let row = rows[at];
            picked.widen(at, &mut vector)?;
            let score = dot::canonical(&vector, query);
            if !score.is_finite() {
                return Err(self.matrix.damaged(row));
            }
            best.offer(Hit { row, score });
        }
        let mut hits = best.into_hits();
        hits.truncate(top_k);
        Ok(hits)
    }
}

impl Index for Flat {
    fn len(&self) -> u64 {
        self.live.count()
    }

    fn dimensions(&self) -> usize {
        self.matrix.dimensions()
    }

    /// Callers share nothing but the mapped rows.
    fn max_concurrency(&self) -> usize {
        usize::MAX
    }

    fn search(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Hit>>> {
        queries.check(self.dimensions(), "query", 0)?;
        let top_k = usize::try_from(self.len()).unwrap_or(usize::MAX).min(params.top_k);
        if top_k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let mut hits = Vec::with_capacity(queries.len());
        for batch in queries.as_slice().chunks(BATCH * self.dimensions()) {
            hits.extend(Scan::new(self, batch, top_k).run(params.threads)?);
        }
        Ok(hits)
    }

    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>> {
        queries.check(self.dimensions(), "query", 0)?;
        if let Some(row) = rows.iter().find(|row| !self.live.contains(**row)) {
            return Err(no_row(*row, self.live.rows()));
        }
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows.dedup();
        queries.rows().map(|query| self.best_of(query, &rows, top_k, rows.len())).collect()
    }

    /// Every row, read once for each pass; of rows in two planes the first.
    fn work(&self, _params: &SearchParams, batch: usize) -> Option<Work> {
        let bytes = self.matrix.scanned_bytes() as f64;
        Some(Work { bytes: bytes / batch.clamp(1, BATCH) as f64, pairs: self.len() as f64 })
    }
}

/// Rows of which an approximate index reads the second plane for `top_k` hits: what is among the best is so by the first
/// plane already, or nearly.
pub(crate) fn refined_for(top_k: usize) -> usize {
    top_k.saturating_mul(4).max(16)
}

/// The refusal of a row that is asked for by its number.
pub(crate) fn no_row(row: u64, rows: u64) -> Error {
    let deleted = if row < rows { ", which is deleted" } else { "" };
    Error::InvalidInput {
        what: "rows".into(),
        expected: format!("rows below {rows} that are not deleted"),
        found: format!("{row}{deleted}"),
    }
}

/// One pass over all rows for one batch of queries.
struct Scan<'a> {
    matrix: &'a Matrix,
    live: &'a LiveRows,
    /// Row-major.
    queries: &'a [f32],
    kernel: Kernel,
    /// By query, how far a kernel's score may be from the canonical one.
    slack: Vec<f32>,
    /// By query, how far the canonical score may be above that of the first plane, for a scale of 1; empty where rows
    /// have one plane.
    reach: Vec<f32>,
    top_k: usize,
    /// The first row that no worker has taken.
    next: AtomicU64,
}

/// How rows are scored.
enum Kernel {
    /// From the stored bytes, at the speed of memory.
    Few,
    /// From widened rows, several of them and several queries at once.
    Many(Panels),
}

impl<'a> Scan<'a> {
    fn new(index: &'a Flat, queries: &'a [f32], top_k: usize) -> Self {
        let Flat { matrix, live } = index;
        let dimensions = matrix.dimensions();
        let bound = matrix.sum_bound();
        let norms: Vec<f64> = queries.chunks_exact(dimensions).map(dot::norm).collect();
        let slack: Vec<f32> = norms.iter().map(|norm| dot::slack(dimensions, norm * bound)).collect();
        let reach = match matrix.element_type() {
            ElementType::I16 => norms.iter().map(|norm| dot::reach(dimensions, *norm)).collect(),
            _ => Vec::new(),
        };
        let kernel = match slack.len() {
            ..MIN_PANEL_QUERIES => Kernel::Few,
            _ => Kernel::Many(Panels::new(dimensions, queries)),
        };
        Self { matrix, live, queries, kernel, slack, reach, top_k, next: AtomicU64::new(0) }
    }

    /// Scores a kernel gives a row: one a query, and perhaps padding.
    fn width(&self) -> usize {
        match &self.kernel {
            Kernel::Many(panels) => panels.width(),
            _ => self.slack.len(),
        }
    }

    fn query(&self, query: usize) -> &[f32] {
        &self.queries[query * self.matrix.dimensions()..][..self.matrix.dimensions()]
    }

    fn run(&self, threads: usize) -> Result<Vec<Vec<Hit>>> {
        let work = self.matrix.rows().saturating_mul(self.queries.len() as u64);
        let useful = usize::try_from(work / MIN_WORK).unwrap_or(usize::MAX).max(1);
        let mut parts = run_workers(threads, useful, || self.work())?.into_iter();
        let mut best = parts.next().unwrap_or_default();
        for part in parts {
            for (best, part) in best.iter_mut().zip(part) {
                best.merge(part);
            }
        }
        Ok(best.into_iter().map(TopK::into_hits).collect())
    }

    /// Scans rows until none are left, and returns the best found for each query.
    fn work(&self) -> Result<Vec<TopK>> {
        let tile_rows = (TILE_BYTES / (self.matrix.dimensions() * size_of::<f32>())).max(1).next_multiple_of(6);
        let mut worker = Worker::new(self, tile_rows);
        loop {
            let start = self.next.fetch_add(CLAIM_ROWS, Ordering::Relaxed);
            if start >= self.matrix.rows() {
                return Ok(worker.selection.into_best());
            }
            let end = (start + CLAIM_ROWS).min(self.matrix.rows());
            for run in self.matrix.runs(start..end) {
                for tile in run.clone().step_by(tile_rows) {
                    worker.scan(tile..(tile + tile_rows as u64).min(run.end))?;
                }
            }
        }
    }
}

/// What one thread knows.
struct Worker<'a> {
    scan: &'a Scan<'a>,
    selection: Selection<'a>,
    /// Widened rows.
    tile: Vec<f32>,
    /// One widened row.
    row: Vec<f32>,
    /// By row, a score for each query.
    scores: Vec<f32>,
}

impl<'a> Worker<'a> {
    fn new(scan: &'a Scan<'a>, tile_rows: usize) -> Self {
        Self {
            scan,
            selection: Selection::new(scan.top_k, &scan.slack),
            tile: match scan.kernel {
                Kernel::Few => Vec::new(),
                Kernel::Many(_) => vec![0.0; tile_rows * scan.matrix.dimensions()],
            },
            row: vec![0.0; scan.matrix.dimensions()],
            scores: vec![0.0; tile_rows * scan.width()],
        }
    }

    fn scan(&mut self, rows: Range<u64>) -> Result<()> {
        let Scan { matrix, live, queries, kernel, reach, .. } = self.scan;
        let count = (rows.end - rows.start) as usize;
        let stored = matrix.stored(rows.clone());
        let scores = &mut self.scores[..count * self.scan.width()];
        match kernel {
            Kernel::Few => dot::score_rows(stored, queries, matrix.dimensions(), scores),
            Kernel::Many(panels) => panels.score(stored.coarse().widened(&mut self.tile), scores),
        }
        for (at, (row, scores)) in rows.zip(scores.chunks_exact_mut(self.scan.width())).enumerate() {
            if !live.contains(row) {
                continue;
            }
            // What may be among the best by both planes, must be so by the bound of its score.
            if let Some(scale) = stored.fine_scale(at) {
                scores.iter_mut().zip(reach).for_each(|(score, reach)| *score += scale * reach);
            }
            let canonical = |query| {
                matrix.widen(row..row + 1, &mut self.row);
                dot::canonical(&self.row, self.scan.query(query))
            };
            if !self.selection.consider(row, scores, canonical) {
                return Err(matrix.damaged(row));
            }
        }
        Ok(())
    }
}
