//! The graph of an approximate index, accepted only with the recall that was measured.

use std::sync::Arc;

use hindsearch_indexes::{Interrupt, Manifest, Matrix, OnProgress, Staging};

use super::{IndexOptions, held_out};
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};
use crate::{Error, Result};

/// Held-out queries that recall is measured with.
const QUERIES: usize = 256;
/// The k of the measured recall.
const TOP_K: usize = 10;

/// What a graph is built from.
pub(super) struct Inputs<'a> {
    pub embedder: &'a Embedder,
    pub corpus: &'a CorpusStore,
    pub staging: &'a Staging,
}

pub(super) fn build(
    _options: &IndexOptions,
    _inputs: &Inputs<'_>,
    _manifest: &mut Manifest,
    _on_progress: OnProgress<'_>,
    _interrupt: &Interrupt,
) -> Result<()> {
    Err(Error::InvalidInput { what: "index".into(), expected: "flat".into(), found: "hnsw".into() })
}
