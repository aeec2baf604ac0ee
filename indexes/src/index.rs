//! What all indexes promise.

use serde::{Deserialize, Serialize};

use crate::measure::Work;
use crate::workers::cores;
use crate::{Effort, Generation, HnswOptions, IndexKind, Result, Sharded, Vectors};

/// A row found, with the inner product of its stored vector and the query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The row, counted from 0.
    pub row: u64,
    /// The inner product; for unit vectors the cosine, in -1..=1.
    pub score: f32,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchParams {
    /// Hits wanted for each query.
    pub top_k: usize,
    /// Threads for this call; 0 is all cores. The answer does not depend on it.
    pub threads: usize,
    /// How much an approximate index looks at.
    pub effort: Effort,
}

impl SearchParams {
    /// `top_k` hits a query, all cores.
    pub fn top(top_k: usize) -> Self {
        Self { top_k, threads: 0, effort: Effort::default() }
    }
}

/// Rows that can be searched by inner product.
///
/// For each query an index gives exactly min(`top_k`, [`len`](Self::len)) hits, highest score first, equal scores by
/// row. A score is the same number whichever index, batch and thread count gave it.
///
/// Rows keep their numbers when others are deleted, so a row may be `len` or more.
pub trait Index: Send + Sync {
    /// Number of rows that can be found: those that are deleted do not count.
    fn len(&self) -> u64;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values in a row, and so in a query.
    fn dimensions(&self) -> usize;

    /// How many callers are served at once; more of them wait for each other.
    fn max_concurrency(&self) -> usize;

    /// The best rows of each query.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) when a query has the wrong dimensions, a value that is not
    /// finite, or no usable length (see [`Vectors::check`]).
    fn search(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Hit>>>;

    /// The best among `rows` alone, for each query; all of them are scored, so the answer is exact.
    ///
    /// # Errors
    /// As [`search`](Self::search), and for a row that the index does not have, or no longer.
    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>>;

    /// What answering a query in a batch of `batch` takes, for measurements; `None` where it is not counted.
    fn work(&self, _params: &SearchParams, _batch: usize) -> Option<Work> {
        None
    }
}

/// Opens the index of a generation, of the kind that its manifest says. `effort` is for searches that do not ask for
/// another: [`Effort::Calibrated`] is what the manifest says.
///
/// The caller has checked the generation's structure ([`Generation::verify`] with
/// [`Depth::Structure`](crate::Depth::Structure)): a graph with damaged bytes must not be walked.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), [`Error::Corrupt`](crate::Error::Corrupt) or
/// [`Error::Incompatible`](crate::Error::Incompatible) for files that are not what the manifest says.
pub fn open_index(generation: &Generation, effort: Effort) -> Result<Box<dyn Index>> {
    let (folder, manifest) = (generation.path(), generation.manifest());
    Ok(match (manifest.kind, &manifest.graph) {
        (IndexKind::Quantized, _) => Box::new(Sharded::open_codes(folder, manifest)?.with_effort(effort)),
        (IndexKind::Hnsw, Some(params)) => {
            let expansion_search = if let Effort::Candidates(least) = effort { least } else { params.expansion_search };
            let options = HnswOptions { expansion_search, max_concurrency: cores() };
            Box::new(Sharded::open_graphs(folder, manifest, options)?.with_effort(effort))
        }
        _ => Box::new(Sharded::open_flat(folder, manifest)?),
    })
}
