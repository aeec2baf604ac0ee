//! How much of the truth an approximate index finds.

use crate::{Error, Hit, Hnsw, Index, Result, SearchParams, Sharded, Vectors};

/// Values of `expansion_search` that [`choose_expansion`] tries.
const EXPANSIONS: [usize; 7] = [64, 96, 128, 192, 256, 384, 512];

/// The recall wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecallTarget {
    /// Hits compared for each query.
    pub top_k: usize,
    /// The lowest share of the exact hits that may be found, 0 to 1.
    pub floor: f64,
}

/// A setting and what it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Candidates kept while walking.
    pub expansion_search: usize,
    /// Share of the exact hits found with it.
    pub recall: f64,
}

/// The share of `exact`'s best `top_k` hits that `approximate` finds, over all `queries`: recall@k. A hit as good as
/// the last exact one counts, so that ties cost nothing. 1 when there is nothing to find.
///
/// `queries` should be held out: vectors that are not rows of the index.
///
/// # Errors
/// As [`Index::search`].
pub fn measure_recall(exact: &dyn Index, approximate: &dyn Index, queries: &Vectors, top_k: usize) -> Result<f64> {
    let truth = exact.search(queries, &SearchParams::top(top_k))?;
    Ok(share_found(&truth, &approximate.search(queries, &SearchParams::top(top_k))?))
}

/// Sets the graphs of all shards to the smallest expansion with which they reach the `target` together on `queries`, see
/// [`measure_recall`].
///
/// # Errors
/// [`Error::RecallBelowFloor`] when even the largest does not.
pub fn choose_expansion(
    exact: &dyn Index,
    graphs: &mut Sharded<Hnsw>,
    queries: &Vectors,
    target: RecallTarget,
) -> Result<Calibration> {
    let params = SearchParams::top(target.top_k);
    let truth = exact.search(queries, &params)?;
    let mut measured = 0.0;
    for expansion_search in EXPANSIONS {
        graphs.set_expansion_search(expansion_search);
        measured = share_found(&truth, &graphs.search(queries, &params)?);
        if measured >= target.floor {
            return Ok(Calibration { expansion_search, recall: measured });
        }
    }
    Err(Error::RecallBelowFloor {
        top_k: target.top_k,
        measured,
        floor: target.floor,
        raise: "the graph's connectivity or its expansion_add".into(),
    })
}

fn share_found(truth: &[Vec<Hit>], found: &[Vec<Hit>]) -> f64 {
    let wanted: usize = truth.iter().map(Vec::len).sum();
    let good = |(truth, found): (&Vec<Hit>, &Vec<Hit>)| {
        truth.last().map_or(0, |last| found.iter().take(truth.len()).filter(|hit| hit.score >= last.score).count())
    };
    let good: usize = truth.iter().zip(found).map(good).sum();
    if wanted == 0 { 1.0 } else { good as f64 / wanted as f64 }
}
