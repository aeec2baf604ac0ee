//! What all indexes promise.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::measure::Work;
use crate::workers::cores;
use crate::{ElementType, Error, Flat, Generation, Hnsw, HnswOptions, Matrix, Result, Vectors};

/// A row found, with the inner product of its stored vector and the query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The row, counted from 0.
    pub row: u64,
    /// The inner product; for unit vectors the cosine, in -1..=1.
    pub score: f32,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchParams {
    /// Hits wanted for each query.
    pub top_k: usize,
    /// Threads for this call; 0 is all cores. The answer does not depend on it.
    pub threads: usize,
    /// The fewest candidates that an approximate index looks at for a query; it may look at more. Exact ones see all.
    pub effort: usize,
}

impl SearchParams {
    /// `top_k` hits a query, all cores.
    pub fn top(top_k: usize) -> Self {
        Self { top_k, threads: 0, effort: 0 }
    }
}

/// Rows that can be searched by inner product.
///
/// For each query an index gives exactly min(`top_k`, [`len`](Self::len)) hits, highest score first, equal scores by
/// row. A score is the same number whichever index, batch and thread count gave it.
pub trait Index: Send + Sync {
    /// Number of rows.
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
    /// As [`search`](Self::search), and for a row that the index does not have.
    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>>;

    /// What answering a query in a batch of `batch` takes, for measurements; `None` where it is not counted.
    fn work(&self, _params: &SearchParams, _batch: usize) -> Option<Work> {
        None
    }
}

/// Opens the index of a generation: exact or approximate, as its manifest says. `expansion_search` is for a graph
/// that should be walked with more or less effort than the manifest says.
///
/// The caller has checked the generation's structure ([`Generation::verify`] with
/// [`Depth::Structure`](crate::Depth::Structure)): a graph with damaged bytes must not be walked.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), [`Error::Corrupt`](crate::Error::Corrupt) or
/// [`Error::Incompatible`](crate::Error::Incompatible) for files that are not what the manifest says.
pub fn open_index(generation: &Generation, expansion_search: Option<usize>) -> Result<Box<dyn Index>> {
    let path = generation.path().join("vectors");
    let matrix = Arc::new(Matrix::open(&path)?);
    let manifest = generation.manifest();
    let claimed = (manifest.rows, manifest.dimensions, manifest.element_type);
    let found = (matrix.rows(), matrix.dimensions(), matrix.element_type());
    if claimed != found {
        let shape =
            |(rows, dimensions, kind): (u64, usize, ElementType)| format!("{rows} rows of {dimensions} values, {kind}");
        return Err(Error::Corrupt { path, expected: shape(claimed), found: shape(found) });
    }
    match &generation.manifest().graph {
        None => Ok(Box::new(Flat::new(matrix))),
        Some(params) => {
            let options = HnswOptions {
                expansion_search: expansion_search.unwrap_or(params.expansion_search),
                max_concurrency: cores(),
            };
            Ok(Box::new(Hnsw::open(&generation.path().join("graph"), matrix, options)?))
        }
    }
}
