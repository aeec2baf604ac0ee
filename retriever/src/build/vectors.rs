//! Embeds every passage of a corpus, durably, shard after shard.

use hindsearch_indexes::{ElementType, Interrupt, MatrixSpec, MatrixWriter, Progress, Staging};

use super::{OnStage, Stage, State, held_out};
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};
use crate::{Passage, Result};

/// Passages between two checkpoints: the most that a kill costs.
const SHARD: u64 = 1024;
/// Passages whose mean centres an i8 matrix.
const MEAN_SAMPLE: usize = 512;

/// Everything that embedding a corpus needs.
pub(super) struct Job<'a> {
    pub embedder: &'a Embedder,
    pub corpus: &'a CorpusStore,
    pub element_type: ElementType,
    pub staging: &'a Staging,
    pub state: &'a mut State,
    pub on_stage: OnStage<'a>,
    pub interrupt: &'a Interrupt,
}

/// What this call did; earlier calls' work is not counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Embedded {
    pub passages: u64,
    pub truncated: u64,
}
