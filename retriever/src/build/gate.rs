//! The gate that an int8 graph must pass before its vectors go into an index.
//!
//! Rounding moves neighbours about: a cosine of 0.99 to the fp32 vector can still change one hit in ten. What counts is
//! whether passages are found, so the gate embeds a sample of the corpus with both graphs, asks for each sampled
//! passage with a sentence of its own, and compares the mean reciprocal rank.

use hindsearch_indexes::{Interrupt, Vectors};
use serde::{Deserialize, Serialize};

use super::held_out;
use crate::corpus::CorpusStore;
use crate::embed::{EmbedOptions, Embedder, HubSettings, InputKind, ModelSource, Precision};
use crate::{Error, Result};

const PASSAGES: usize = 1024;
const QUERIES: usize = 256;
const DEPTH: usize = 10;
/// The most that the mean reciprocal rank may fall below that of fp32.
const TOLERANCE: f64 = 0.02;
/// The least share of fp32's first ten hits that must be found. A sample is easier than a corpus, so the rank of the one
/// right passage can stay while everything around it moves.
const OVERLAP_FLOOR: f64 = 0.8;

/// What the gate measured, over one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Passages in the sample.
    pub passages: usize,
    /// Queries asked.
    pub queries: usize,
    /// MRR@10 with fp32 on both sides.
    pub mrr_fp32: f64,
    /// MRR@10 with fp32 queries over int8 passages.
    pub mrr_fp32_queries: f64,
    /// MRR@10 with int8 on both sides.
    pub mrr_int8_queries: f64,
    /// Share of fp32's first ten hits that the pair in use finds too.
    pub overlap: f64,
    /// The graph that queries use: the one that the caller chose, or the better of the two.
    pub query_precision: Precision,
}

/// Passages that the gate embeds, with each of both graphs, before it accepts int8; fp32 takes about three times as long.
pub fn work(rows: u64) -> u64 {
    rows.min(PASSAGES as u64) * 4
}

/// Whether the model has an fp32 graph to be measured against.
///
/// # Errors
/// Those of finding the model.
pub fn can_measure(source: &ModelSource, options: &EmbedOptions) -> Result<bool> {
    let hub = options.hub.clone().unwrap_or_else(HubSettings::from_env);
    match source.locate(&hub, &[])?.graph(Some(Precision::Fp32)) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        // A graph that is there and damaged must not switch the gate off.
        Err(error) => Err(error),
    }
}

/// Measures the int8 graph of `source` against its fp32 graph on `corpus`.
///
/// # Errors
/// [`Error::Incompatible`] when int8 loses too much; whatever the models refuse.
pub fn measure(
    source: &ModelSource,
    options: &EmbedOptions,
    corpus: &CorpusStore,
    interrupt: &Interrupt,
) -> Result<Gate> {
    let rows: Vec<u64> = held_out::rows(corpus.len(), PASSAGES).collect();
    let passages = rows.iter().map(|&row| corpus.get(row)).collect::<Result<Vec<_>>>()?;
    let asked: Vec<usize> = held_out::rows(passages.len() as u64, QUERIES).map(|at| at as usize).collect();
    let queries: Vec<String> = asked.iter().map(|&at| held_out::query_of(&passages[at]).to_owned()).collect();
    let contents: Vec<String> = passages.iter().map(|passage| passage.contents().into_owned()).collect();
    let both = |precision| -> Result<(Vectors, Vectors)> {
        let options =
            EmbedOptions { query_precision: Some(precision), passage_precision: Some(precision), ..options.clone() };
        let embedder = Embedder::open(source, options)?;
        let queries = embedder.submit(queries.clone(), InputKind::Query).wait_unless(interrupt)?;
        let passages = embedder.submit(contents.clone(), InputKind::Passage).wait_unless(interrupt)?;
        Ok((queries.vectors, passages.vectors))
    };
    let (fp32_queries, fp32_passages) = both(Precision::Fp32)?;
    let (int8_queries, int8_passages) = both(Precision::Int8)?;
    let truth = rank(&fp32_queries, &fp32_passages);
    let mixed = rank(&fp32_queries, &int8_passages);
    let rounded = rank(&int8_queries, &int8_passages);
    let (mrr_fp32, mrr_mixed, mrr_rounded) = (mrr(&truth, &asked), mrr(&mixed, &asked), mrr(&rounded, &asked));
    let better = if mrr_rounded >= mrr_mixed { Precision::Int8 } else { Precision::Fp32 };
    let query_precision = options.query_precision.unwrap_or(better);
    let (chosen, found) =
        if query_precision == Precision::Int8 { (&rounded, mrr_rounded) } else { (&mixed, mrr_mixed) };
    let shared =
        |(a, b): (&Vec<usize>, &Vec<usize>)| a.iter().filter(|at| b.contains(at)).count() as f64 / a.len() as f64;
    let gate = Gate {
        passages: passages.len(),
        queries: queries.len(),
        mrr_fp32,
        mrr_fp32_queries: mrr_mixed,
        mrr_int8_queries: mrr_rounded,
        overlap: truth.iter().zip(chosen).map(shared).sum::<f64>() / truth.len().max(1) as f64,
        query_precision,
    };
    if found < mrr_fp32 - TOLERANCE || gate.overlap < OVERLAP_FLOOR {
        return Err(Error::Incompatible {
            what: format!("the int8 graph of `{source}`"),
            expected: format!(
                "a mean reciprocal rank of at least {:.3} (fp32 less {TOLERANCE}), and {OVERLAP_FLOOR} of fp32's hits",
                mrr_fp32 - TOLERANCE
            ),
            found: format!("{found:.3} and {:.3} on {} passages of this corpus", gate.overlap, passages.len()),
            remedy: "build with the fp32 graph (`--set model.passage_precision=fp32`), or quantise the model again"
                .into(),
        });
    }
    Ok(gate)
}

/// The first ten rows for each query, by inner product.
fn rank(queries: &Vectors, passages: &Vectors) -> Vec<Vec<usize>> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    queries
        .rows()
        .map(|query| {
            let mut scored: Vec<(f32, usize)> = passages.rows().map(|p| dot(query, p)).zip(0..).collect();
            scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            scored.into_iter().take(DEPTH).map(|(_, at)| at).collect()
        })
        .collect()
}

fn mrr(rankings: &[Vec<usize>], gold: &[usize]) -> f64 {
    let reciprocal = |(ranking, gold): (&Vec<usize>, &usize)| {
        ranking.iter().position(|at| at == gold).map_or(0.0, |at| 1.0 / (at + 1) as f64)
    };
    rankings.iter().zip(gold).map(reciprocal).sum::<f64>() / gold.len().max(1) as f64
}
