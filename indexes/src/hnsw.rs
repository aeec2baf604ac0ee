//! Approximate search by a graph of near neighbours (HNSW), through the library usearch behind a wall.
//!
//! The library trusts its bytes, loses vectors when threads add at once, fails when more callers come than it has
//! contexts, and takes NaN. So the file is verified before it is opened, the builder proves that every row is found,
//! callers wait for a context, and nothing but checked vectors passes. The graph only nominates: hits are scored
//! from the matrix, with the same scores as exact search.

#![allow(unsafe_code)]

mod build;
mod codes;
mod copies;
mod footer;
mod permits;
mod rows;

use std::path::Path;
use std::sync::Arc;

use usearch::{IndexOptions, MetricKind, ScalarKind};

use crate::flat::refined_for;
use crate::workers::map_workers;
use crate::{Access, Effort, Error, Flat, Hit, Index, LiveRows, MappedFile, Matrix, Result, SearchParams, Vectors};

pub use build::{HnswBuilder, HnswSummary};
use footer::Footer;
use permits::Permits;

/// The fewest candidates that the graph nominates for a query.
const MIN_CANDIDATES: usize = 64;
/// Candidates for each hit wanted: codes of eight bits confuse near-ties, which the stored rows tell apart.
const CANDIDATES_PER_HIT: usize = 4;
/// When candidates are this share of the rows or more, exact search is as fast.
const EXACT_SHARE: u64 = 8;

/// How to open a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    /// Candidates kept while walking (`ef`): more find more and take longer. One for all searches of the handle.
    pub expansion_search: usize,
    /// Searches that run at once, each with a context of its own; further ones wait.
    pub max_concurrency: usize,
}

/// A graph over the rows of a matrix.
pub struct Hnsw {
    // Declared before `map`, so that the library lets go of the bytes before they are unmapped.
    graph: usearch::Index,
    map: MappedFile,
    footer: Footer,
    matrix: Arc<Matrix>,
    live: LiveRows,
    exact: Flat,
    options: HnswOptions,
    permits: Permits,
}

impl Hnsw {
    /// Opens the graph of `matrix` at `path`.
    ///
    /// The caller must have verified the hash of the file, all of it, since it was published: the library follows
    /// the links in it unchecked, and damaged ones end the process.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`], and [`Error::Incompatible`] for another format version or the graph of
    /// another matrix.
    pub fn open(path: &Path, matrix: Arc<Matrix>, options: HnswOptions) -> Result<Self> {
        let live = LiveRows::all(matrix.rows());
        Self::open_live(path, matrix, live, options)
    }

    /// The same, to find the `live` rows of `matrix` alone. The graph still has the others and walks over them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_live(path: &Path, matrix: Arc<Matrix>, live: LiveRows, options: HnswOptions) -> Result<Self> {
        // Opening walks over all nodes in order; searching jumps.
        let map = MappedFile::open(path, Access::Sequential)?;
        let footer = Footer::decode(path, map.as_ref())?;
        if (footer.rows, footer.codes.dimensions()) != (matrix.rows(), matrix.dimensions()) {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: format!("a graph of {} rows of {} values", matrix.rows(), matrix.dimensions()),
                found: format!("{} rows of {} values", footer.rows, footer.codes.dimensions()),
                remedy: "keep the files of a generation together".into(),
            });
        }
        let graph = new_graph(&footer, options.expansion_search.max(1))?;
        let options = HnswOptions { max_concurrency: options.max_concurrency.max(1), ..options };
        // SAFETY: the bytes are mapped read-only and live as long as `map`, which this struct keeps and drops after
        // the graph. They are what the builder wrote, as the caller has verified.
        unsafe { graph.view_from_buffer(&map.as_ref()[..footer.graph_length]) }.map_err(failed("open its file"))?;
        let nodes = footer.rows.saturating_sub(footer.copies.len() as u64);
        let found = (graph.size() as u64, graph.dimensions(), graph.connectivity(), graph.scalar_kind());
        let expected = (nodes, footer.codes.dimensions(), footer.connectivity, ScalarKind::I8);
        if found != expected {
            return Err(Error::Corrupt {
                path: path.into(),
                expected: format!("a graph of (nodes, dimensions, connectivity, codes) {expected:?}"),
                found: format!("{found:?}"),
            });
        }
        reserve(&graph, graph.size(), options.max_concurrency)?;
        map.advise(Access::Random)?;
        // Single rows are scored, here and there; the default would read far ahead for each.
        matrix.advise(Access::Random)?;
        let exact = Flat::of_live(Arc::clone(&matrix), live.clone());
        let permits = Permits::new(options.max_concurrency);
        Ok(Self { graph, map, footer, matrix, live, exact, options, permits })
    }

    /// Sets how many candidates later searches keep, see [`HnswOptions::expansion_search`].
    pub fn set_expansion_search(&mut self, expansion_search: usize) {
        // Exclusive access: the library reads this value in every search, without a lock.
        self.options.expansion_search = expansion_search.max(1);
        self.graph.change_expansion_search(self.options.expansion_search);
    }

    /// The settings in use.
    pub fn options(&self) -> HnswOptions {
        self.options
    }

    /// Links of a node, see [`HnswBuilder::connectivity`].
    pub fn connectivity(&self) -> usize {
        self.footer.connectivity
    }

    /// The best of what the graph nominates for `query`.
    fn search_one(&self, query: &[f32], top_k: usize, candidates: usize) -> Result<Vec<Hit>> {
        let mut code = vec![0; query.len()];
        self.footer.codes.encode(query, &mut code);
        let nodes = {
            let _permit = self.permits.acquire();
            // A node that stands for others is worth naming as long as one of them can be found.
            let stands =
                |node| self.live.contains(node) || self.footer.copies.of(node).any(|row| self.live.contains(row));
            let found = match self.live.is_whole() {
                true => self.graph.search(&code, candidates),
                false => self.graph.filtered_search(&code, candidates, stands),
            };
            found.map_err(failed("search"))?.keys
        };
        let copies = nodes.iter().flat_map(|node| self.footer.copies.of(*node));
        let mut rows: Vec<u64> = nodes.iter().copied().chain(copies).collect();
        rows.sort_unstable();
        rows.dedup();
        if let Some(row) = rows.iter().find(|row| **row >= self.matrix.rows()) {
            return Err(Error::Corrupt {
                path: self.map.path().into(),
                expected: format!("keys below {}", self.matrix.rows()),
                found: row.to_string(),
            });
        }
        rows.retain(|row| self.live.contains(*row));
        self.exact.best_of(query, &rows, top_k, refined_for(top_k))
    }
}

impl Index for Hnsw {
    fn len(&self) -> u64 {
        self.live.count()
    }

    fn dimensions(&self) -> usize {
        self.matrix.dimensions()
    }

    fn max_concurrency(&self) -> usize {
        self.options.max_concurrency
    }

    /// The rows are searched exactly where the graph would have to name an eighth of them.
    ///
    /// # Errors
    /// As all indexes.
    fn search(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Hit>>> {
        queries.check(self.dimensions(), "query", 0)?;
        let least = if let Effort::Candidates(least) = params.effort { least } else { 0 };
        let candidates = params.top_k.saturating_mul(CANDIDATES_PER_HIT).max(MIN_CANDIDATES).max(least);
        let exact = matches!(params.effort, Effort::Exact | Effort::Exhaustive);
        if exact || params.top_k == 0 || candidates as u64 >= self.len() / EXACT_SHARE {
            return self.exact.search(queries, params);
        }
        let rows: Vec<&[f32]> = queries.rows().collect();
        let one = |(): &mut (), number: usize| self.search_one(rows[number], params.top_k, candidates);
        let mut hits = map_workers(params.threads, rows.len(), rows.len(), || (), one)?;
        // A walk may end early.
        self.exact.complete(queries, &mut hits, params)?;
        Ok(hits)
    }

    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>> {
        self.exact.search_rows(queries, rows, top_k)
    }
}

/// A library index without nodes, for the shape that `footer` gives.
fn new_graph(footer: &Footer, expansion_search: usize) -> Result<usearch::Index> {
    usearch::Index::new(&IndexOptions {
        dimensions: footer.codes.dimensions(),
        metric: MetricKind::L2sq,
        quantization: ScalarKind::I8,
        connectivity: footer.connectivity,
        expansion_add: footer.expansion_add,
        expansion_search,
        multi: false,
    })
    .map_err(failed("start"))
}

/// Makes room for `capacity` nodes and `contexts` callers at once. Lack of memory shows in the first call after it.
fn reserve(graph: &usearch::Index, capacity: usize, contexts: usize) -> Result<()> {
    graph.reserve_capacity_and_threads(capacity, contexts).map_err(failed("reserve memory"))
}

fn failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Graph { action, message: error.to_string() }
}
