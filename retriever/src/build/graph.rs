//! The graph of an approximate index, accepted only with the recall that was measured.

use std::sync::Arc;

use hindsearch_indexes::{
    Flat, GraphParams, Hnsw, HnswBuilder, HnswOptions, Interrupt, Manifest, Matrix, Recall, RecallTarget, Vectors,
    choose_expansion,
};

use super::{Run, Stage, held_out};
use crate::Result;
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};

/// Held-out queries that recall is measured with.
const QUERIES: usize = 256;
/// The k of the measured recall.
const TOP_K: usize = 10;
/// Searches at once while recall is measured: no fewer than a machine has cores.
const CONTEXTS: usize = 64;

/// Builds `graph` over the staged vectors, finds the smallest expansion with which it reaches the floor on `queries`,
/// and notes both in the manifest.
pub(super) fn build(run: &Run<'_>, queries: &Vectors, manifest: &mut Manifest) -> Result<()> {
    let matrix = Arc::new(Matrix::open(&run.staging.path().join("vectors"))?);
    let path = run.staging.path().join("graph");
    let (connectivity, expansion_add) = (run.options.index.connectivity, run.options.index.expansion_add);
    let shown = |progress| (run.on_stage)(Stage::Graph, progress);
    HnswBuilder { connectivity, expansion_add, threads: 0 }.build(&matrix, &path, &shown, run.interrupt)?;

    let how = HnswOptions { expansion_search: expansion_add, max_concurrency: CONTEXTS };
    let mut graph = Hnsw::open(&path, Arc::clone(&matrix), how)?;
    let floor = run.options.index.recall_floor;
    let target = RecallTarget { top_k: TOP_K, floor };
    let calibration = choose_expansion(&Flat::new(matrix), &mut graph, queries, target)?;
    let expansion_search = calibration.expansion_search;
    manifest.graph = Some(GraphParams { connectivity, expansion_add, expansion_search });
    manifest.recall = Some(Recall { top_k: TOP_K, value: calibration.recall, queries: queries.len(), floor });
    Ok(())
}

/// Vectors of sentences from passages spread over the corpus.
pub(super) fn queries(embedder: &Embedder, corpus: &CorpusStore, interrupt: &Interrupt) -> Result<Vectors> {
    let passages = held_out::rows(corpus.len(), QUERIES).map(|row| corpus.get(row));
    let texts = passages.map(|passage| Ok(held_out::query_of(&passage?).to_owned())).collect::<Result<_>>()?;
    Ok(embedder.submit(texts, InputKind::Query).wait_unless(interrupt)?.vectors)
}
