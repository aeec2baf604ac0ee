//! The graph of an approximate index, accepted only with the recall that was measured.

use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{
    Flat, GraphParams, Hnsw, HnswBuilder, HnswOptions, Interrupt, Manifest, Matrix, OnProgress, Recall, RecallTarget,
    Vectors, choose_expansion,
};

use super::{IndexOptions, held_out};
use crate::Result;
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};

/// Held-out queries that recall is measured with.
const QUERIES: usize = 256;
/// The k of the measured recall.
const TOP_K: usize = 10;

/// Builds `graph` over the vectors in `folder`, finds the smallest expansion with which it reaches the floor on
/// `queries`, and notes both in the manifest.
pub(super) fn build(
    options: &IndexOptions,
    folder: &Path,
    queries: &Vectors,
    manifest: &mut Manifest,
    on_progress: OnProgress<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let matrix = Arc::new(Matrix::open(&folder.join("vectors"))?);
    let path = folder.join("graph");
    let IndexOptions { connectivity, expansion_add, recall_floor: floor, .. } = *options;
    HnswBuilder { connectivity, expansion_add, threads: 0 }.build(&matrix, &path, on_progress, interrupt)?;
    let how = HnswOptions { expansion_search: expansion_add, max_concurrency: 64 };
    let mut graph = Hnsw::open(&path, Arc::clone(&matrix), how)?;
    let target = RecallTarget { top_k: TOP_K, floor };
    let calibration = choose_expansion(&Flat::new(matrix), &mut graph, queries, target)?;
    let expansion_search = calibration.expansion_search;
    manifest.graph = Some(GraphParams { connectivity, expansion_add, expansion_search, scale: None });
    manifest.recall = Some(Recall { top_k: TOP_K, value: calibration.recall, queries: queries.len(), floor });
    Ok(())
}

/// Vectors of sentences from passages spread over the corpus.
pub(super) fn queries(embedder: &Embedder, corpus: &CorpusStore, interrupt: &Interrupt) -> Result<Vectors> {
    let passages = held_out::rows(corpus.len(), QUERIES).map(|row| corpus.get(row));
    let texts = passages.map(|passage| Ok(held_out::query_of(&passage?).to_owned())).collect::<Result<_>>()?;
    Ok(embedder.submit(texts, InputKind::Query).wait_unless(interrupt)?.vectors)
}
