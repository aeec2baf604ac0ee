//! The graph of an approximate index, accepted only with the recall that was measured.

use hindsearch_indexes::{
    ExpansionChoice, GraphParams, HnswBuilder, HnswOptions, Manifest, Matrix, Recall, RecallTarget, Sharded, Vectors,
    choose_expansion,
};

use super::{IndexOptions, Run, Stage, remove};
use crate::Result;

/// The k of the measured recall.
const TOP_K: usize = 10;
/// Searches at once while recall is measured: no fewer than a machine has cores.
const CONTEXTS: usize = 64;

/// Builds the `graph` of the shard that is written, over its staged vectors.
pub(super) fn write(run: &Run<'_>) -> Result<()> {
    let files = run.files();
    // One of an earlier attempt may be another one, or half of one.
    for name in [files.path("graph"), files.path("graph").with_added_extension("tmp")] {
        remove(&name)?;
    }
    let matrix = Matrix::open(&files.path("vectors"))?;
    let (connectivity, expansion_add) = (run.index.connectivity, run.index.expansion_add);
    let shown = |progress| (run.on_stage)(Stage::Graph, progress);
    HnswBuilder { connectivity, expansion_add, threads: 0 }.build(
        &matrix,
        &files.path("graph"),
        &shown,
        run.interrupt,
    )?;
    Ok(())
}

/// Finds the smallest expansion with which the graphs of all shards reach the floor on `queries`, and notes it, with the
/// recall, in the manifest.
pub(super) fn measure(run: &Run<'_>, queries: &Vectors, manifest: &mut Manifest) -> Result<()> {
    let IndexOptions { connectivity, expansion_add, recall_floor: floor, .. } = *run.index;
    let how = HnswOptions { expansion_search: expansion_add, max_concurrency: CONTEXTS };
    let exact = Sharded::open_flat(run.staging.path(), manifest)?;
    let mut graphs = Sharded::open_graphs(run.staging.path(), manifest, how)?;
    let target = RecallTarget { top_k: TOP_K, floor };
    let ExpansionChoice { expansion_search, recall: value } = choose_expansion(&exact, &mut graphs, queries, target)?;
    manifest.graph = Some(GraphParams { connectivity, expansion_add, expansion_search });
    manifest.recall = Some(Recall { top_k: TOP_K, value, queries: queries.len(), floor });
    Ok(())
}
