//! How much of the truth an approximate index finds.

use crate::quantized::candidates_for;
use crate::{Calibration, Effort, Error, Hit, Hnsw, Index, Quantized, Result, SearchParams, Sharded, Vectors};

/// Hits that lists are calibrated for.
pub(crate) const CALIBRATED_HITS: usize = 10;
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
pub struct ExpansionChoice {
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
    Ok(share_found(&truth, &approximate.search(queries, &SearchParams::top(top_k))?, top_k))
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
) -> Result<ExpansionChoice> {
    let params = SearchParams::top(target.top_k);
    let truth = exact.search(queries, &params)?;
    let mut measured = 0.0;
    for expansion_search in EXPANSIONS {
        graphs.set_expansion_search(expansion_search);
        measured = share_found(&truth, &graphs.search(queries, &params)?, target.top_k);
        if measured >= target.floor {
            return Ok(ExpansionChoice { expansion_search, recall: measured });
        }
    }
    Err(Error::RecallBelowFloor {
        top_k: target.top_k,
        measured,
        floor: target.floor,
        raise: "the graph's connectivity or its expansion_add".into(),
    })
}

/// Measures on `queries` what more and more lists find, each twice as many as before, up to all of them, and more and
/// more candidates; the settings in order of the work that they are.
///
/// # Errors
/// As [`Index::search`].
pub fn calibrate(exact: &dyn Index, codes: &Sharded<Quantized>, queries: &Vectors) -> Result<Vec<Calibration>> {
    let truth = exact.search(queries, &SearchParams::top(CALIBRATED_HITS))?;
    let largest = codes.parts().map(|(_, part)| part).max_by_key(|part| part.lists());
    let lists = largest.map_or(0, Quantized::lists);
    let usual = candidates_for(CALIBRATED_HITS, codes.dimensions());
    let mut settings = Vec::new();
    // Fewer candidates find less, and are much of the work where few lists are enough.
    let mut probes = 1;
    while probes <= lists {
        for candidates in [usual * 3 / 10, usual / 2, usual, usual * 3] {
            // What is found by exact search says nothing of lists.
            if largest.is_none_or(|codes| codes.is_exact_with(candidates)) {
                continue;
            }
            let effort = Effort::Lists { probes, candidates };
            let found = codes.search(queries, &SearchParams { effort, ..SearchParams::top(CALIBRATED_HITS) })?;
            let recall = |top_k| share_found(&truth, &found, top_k);
            let [recall_1, recall_3, recall_10] = [1, 3, CALIBRATED_HITS].map(recall);
            settings.push(Calibration { probes, candidates, recall_1, recall_3, recall_10 });
        }
        probes = if probes == lists { lists + 1 } else { (probes * 2).min(lists) };
    }
    let work = |setting: &Calibration| largest.map_or(0, |codes| codes.work_of(setting.probes, setting.candidates));
    settings.sort_by_key(work);
    Ok(settings)
}

/// The share of the first `top_k` hits of `truth` that are as good as found among the first `top_k` of `found`.
fn share_found(truth: &[Vec<Hit>], found: &[Vec<Hit>], top_k: usize) -> f64 {
    let (mut good, mut wanted) = (0, 0);
    for (truth, found) in truth.iter().zip(found) {
        let truth = &truth[..top_k.min(truth.len())];
        wanted += truth.len();
        if let Some(last) = truth.last() {
            good += found.iter().take(truth.len()).filter(|hit| hit.score >= last.score).count();
        }
    }
    if wanted == 0 { 1.0 } else { good as f64 / wanted as f64 }
}
