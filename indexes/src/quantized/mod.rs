//! The compact index: one bit a coordinate in memory, and the stored rows only for the best few.
//!
//! Every row has a code of one bit a coordinate and two factors, from which its score is estimated without bias (see
//! `coder`). Codes are scanned in blocks of 64 by `kernel`; those of near rows lie together in lists, so that a search
//! need not scan all. The best estimates are scored from the matrix, with the same scores as exact search.

mod assign;
mod build;
mod candidates;
mod coder;
mod cold;
mod estimates;
mod file;
mod gather;
mod kernel;
mod limit;
mod rotation;
mod scan;
mod train;

use std::path::Path;
use std::sync::Arc;

pub use build::{QuantizedBuilder, ROWS_PER_LIST};
use cold::Cold;
use file::Codes;
pub use file::Shape as CodesShape;
use kernel::BLOCK;
pub use kernel::Kernel;
pub(crate) use limit::code_ns;
use scan::{Batch, Probing};

use crate::effort::{Calibration, Effort};
use crate::flat::refined_for;
use crate::measure::Work;
use crate::recall::CALIBRATED_HITS;
use crate::{Access, Error, Flat, Hit, Index, LiveRows, Matrix, Result, SearchParams, Vectors};

/// Queries that are searched together; their tables fit in the caches.
const BATCH: usize = 256;
/// Codes that are estimated while a row is fetched and scored.
const CODES_PER_CANDIDATE: u64 = 120;
/// Codes that are estimated while the lists for a query are looked for and gathered, on top of their centroids.
const CODES_PER_LOOK: u64 = 10_000;
/// The fewest rows that are scored.
const FEWEST_CANDIDATES: usize = 20;
/// When candidates are more than one of so many rows, exact search is as fast.
const EXACT_SHARE: u64 = 4;

/// Codes over the rows of a matrix.
#[derive(Debug)]
pub struct Quantized {
    codes: Codes,
    matrix: Arc<Matrix>,
    live: LiveRows,
    exact: Flat,
    /// What settings find, measured when the index was built.
    calibration: Vec<Calibration>,
    kernel: Kernel,
    /// Of the codes, and of the rows.
    cold_codes: Cold,
    cold_rows: Cold,
}

impl Quantized {
    /// Opens the codes of `matrix` at `path`. `calibration` tells which effort gives which recall; without it every
    /// recall takes all lists.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`], and [`Error::Incompatible`] for another format version or the codes of
    /// another matrix.
    pub fn open(path: &Path, matrix: Arc<Matrix>, calibration: Vec<Calibration>) -> Result<Self> {
        let live = LiveRows::all(matrix.rows());
        Self::open_live(path, matrix, live, calibration)
    }

    /// The same, to find the `live` rows of `matrix` alone.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_live(path: &Path, matrix: Arc<Matrix>, live: LiveRows, calibration: Vec<Calibration>) -> Result<Self> {
        let codes = Codes::open(path)?;
        let shape = codes.shape();
        if (shape.rows, shape.dimensions) != (matrix.rows(), matrix.dimensions()) {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: format!("the codes of {} rows of {} values", matrix.rows(), matrix.dimensions()),
                found: format!("{} rows of {} values", shape.rows, shape.dimensions),
                remedy: "keep the files of a generation together".into(),
            });
        }
        // Single rows are scored, here and there; the default would read far ahead for each.
        matrix.advise(Access::Random)?;
        let exact = Flat::of_live(Arc::clone(&matrix), live.clone());
        Ok(Self {
            codes,
            matrix,
            live,
            exact,
            calibration,
            kernel: Kernel::best(),
            cold_codes: Cold::default(),
            cold_rows: Cold::default(),
        })
    }

    /// Uses another kernel: all give the same hits.
    ///
    /// # Panics
    /// When this machine does not run it, see [`Kernel::available`].
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        assert!(Kernel::available().contains(&kernel), "a kernel that this machine runs, not {kernel:?}");
        self.kernel = kernel;
        self
    }

    /// Number of lists.
    pub fn lists(&self) -> usize {
        self.codes.lists()
    }

    /// The work of a search for one query, in codes that could be estimated meanwhile.
    pub(crate) fn work_of(&self, probes: usize, candidates: usize) -> u64 {
        let shape = self.codes.shape();
        // Each list touches a block more than it fills, and each row comes from memory.
        let list = shape.slots / shape.lists.max(1) + BLOCK as u64;
        let look = if probes < self.lists() { CODES_PER_LOOK + shape.lists } else { 0 };
        look + (probes as u64 * list).min(shape.slots) + candidates as u64 * CODES_PER_CANDIDATE
    }

    /// How many lists are looked at, and how many candidates are scored, for `params`; `None` is exact search.
    fn probing(&self, params: &SearchParams) -> Option<Probing> {
        let all = self.lists();
        let usual = candidates_for(params.top_k, self.dimensions());
        let (probes, candidates) = match params.effort {
            Effort::Exact => return None,
            // Beside all codes, more candidates cost little, and among more rows more are near.
            Effort::Exhaustive => (all, usual.saturating_mul(1 + magnitude(self.len()))),
            Effort::Lists { probes, candidates } => (probes.clamp(1, all.max(1)), candidates.max(params.top_k)),
            Effort::Candidates(least) => {
                let (probes, candidates) = self.setting(Effort::DEFAULT_RECALL, params.top_k)?;
                (probes, candidates.max(least))
            }
            Effort::Calibrated => self.setting(Effort::DEFAULT_RECALL, params.top_k)?,
            Effort::Recall(wanted) => self.setting(wanted, params.top_k)?,
        };
        (!self.is_exact_with(candidates)).then_some(Probing { probes, candidates })
    }

    /// Whether a search scores all rows because so many candidates would be no less work.
    pub(crate) fn is_exact_with(&self, candidates: usize) -> bool {
        candidates as u64 > self.len() / EXACT_SHARE
    }

    /// The lists and candidates that are the least work of those that were measured to reach the recall; all lists
    /// where nothing was measured; `None` where only exact search reaches it.
    fn setting(&self, recall: f64, top_k: usize) -> Option<(usize, usize)> {
        // No number of queries shows that nothing is ever missed.
        let enough = self.calibration.iter().find(|setting| setting.recall_10 >= recall && recall < 1.0);
        let usual = candidates_for(top_k, self.dimensions());
        let (probes, candidates) = match enough {
            // Measured for ten hits: others want candidates in the same measure.
            Some(setting) => {
                let measured = candidates_for(CALIBRATED_HITS, self.dimensions());
                (setting.probes, usual.saturating_mul(setting.candidates) / measured)
            }
            None if self.calibration.is_empty() && recall < 1.0 => (self.lists(), usual),
            None => return None,
        };
        Some((probes, candidates.max(FEWEST_CANDIDATES).max(top_k)))
    }
}

/// How many times rows are ten times as many as the hundred thousand that candidates were counted for.
fn magnitude(rows: u64) -> usize {
    (rows / 100_000).checked_ilog10().unwrap_or(0) as usize
}

/// Dimensions with which ten candidates a hit are enough: the error of an estimate falls with the root of their number.
const WELL_CODED: usize = 768;
/// The most that fewer dimensions multiply the candidates by.
const MOST_MORE: usize = 8;

/// Candidates that are scored for `top_k` hits: a code of one bit confuses near-ties, which the rows tell apart. Fewer
/// hits than ten take as many as ten: among rows as near each other as those of a tight cluster the best is no easier
/// to find.
pub fn candidates_for(top_k: usize, dimensions: usize) -> usize {
    let top_k = top_k.max(CALIBRATED_HITS);
    let candidates = top_k.saturating_mul(10).min(300.max(top_k.saturating_mul(3)));
    let scaled = candidates.saturating_mul(WELL_CODED).div_ceil(dimensions.max(1));
    scaled.clamp(candidates, candidates.saturating_mul(MOST_MORE))
}

impl Index for Quantized {
    fn len(&self) -> u64 {
        self.live.count()
    }

    fn dimensions(&self) -> usize {
        self.matrix.dimensions()
    }

    /// Callers share nothing but the mapped bytes.
    fn max_concurrency(&self) -> usize {
        usize::MAX
    }

    fn search(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Hit>>> {
        let Some(probing) = self.probing(params).filter(|_| params.top_k > 0) else {
            return self.exact.search(queries, params);
        };
        queries.check(self.dimensions(), "query", 0)?;
        let mut hits = Vec::with_capacity(queries.len());
        for batch in queries.as_slice().chunks(BATCH * self.dimensions()) {
            hits.extend(Batch::new(self, batch, probing, params)?.run()?);
        }
        // Lists may hold too few.
        self.exact.complete(queries, &mut hits, params)?;
        Ok(hits)
    }

    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>> {
        self.exact.search_rows(queries, rows, top_k)
    }

    /// Codes of centroids and of the lists looked at, and the candidates' rows. Lists are taken to be equally long, and
    /// the queries of a batch to look at different ones.
    fn work(&self, params: &SearchParams, batch: usize) -> Option<Work> {
        let Some(probing) = self.probing(params) else { return self.exact.work(params, batch) };
        let (shape, batch) = (self.codes.shape(), batch.clamp(1, BATCH) as f64);
        let (slots, lists) = (shape.slots as f64, shape.lists as f64);
        let code = coder::row_bytes(shape.dimensions) as f64;
        let share = (probing.probes as f64 / lists.max(1.0)).min(1.0);
        let centroids = if share < 1.0 { lists } else { 0.0 };
        let read_once = (slots * (share * batch).min(1.0) + centroids) * code / batch;
        let (spec, refined) = (self.matrix.spec(), probing.candidates.min(refined_for(params.top_k)));
        let scored = probing.candidates * spec.coarse_bytes() + refined * spec.fine_bytes();
        let bytes = read_once + scored as f64;
        Some(Work { bytes, pairs: slots * share + centroids })
    }
}
