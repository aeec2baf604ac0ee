//! The codes of a quantized index, with what lists and candidates of them were measured to find.

use hindsearch_indexes::{Effort, Manifest, Matrix, QuantizedBuilder, Recall, Sharded, Vectors, calibrate};

use super::{Run, Stage};
use crate::Result;

/// The k of the recall that the manifest tells.
const TOP_K: usize = 10;

/// Builds the `codes` of the shard that is written, over its staged vectors.
pub(super) fn write(run: &Run<'_>) -> Result<()> {
    let files = run.files();
    let matrix = Matrix::open(&files.path("vectors"))?;
    let shown = |progress| (run.on_stage)(Stage::Codes, progress);
    Ok(QuantizedBuilder::default().build(&matrix, &files.path("codes"), &shown, run.interrupt)?)
}

/// Measures settings on `queries`, and notes them in the manifest, with the recall of searches that ask for none.
pub(super) fn measure(run: &Run<'_>, queries: &Vectors, manifest: &mut Manifest) -> Result<()> {
    let exact = Sharded::open_flat(run.staging.path(), manifest)?;
    let codes = Sharded::open_codes(run.staging.path(), manifest)?;
    manifest.calibration = calibrate(&exact, &codes, queries)?;
    let enough = manifest.calibration.iter().find(|setting| setting.recall_10 >= Effort::DEFAULT_RECALL);
    // Where no lists are enough, searches are exact.
    let value = enough.map_or(1.0, |setting| setting.recall_10);
    manifest.recall = Some(Recall { top_k: TOP_K, value, queries: queries.len(), floor: run.index.recall_floor });
    Ok(())
}
