//! From a corpus to a published index in one call, resumable at every step.
//!
//! Four stages, each leaving its result in the staging folder before the next begins: the text store, the vectors
//! (durable after every shard), the graph with its measured recall, and the publication. A build that is killed goes
//! on where it stood when it is called again with the same corpus, model and element type; nothing is visible before
//! the last step.

mod gate;
mod held_out;
mod machine;
mod plan;
mod provenance;
mod vectors;

use std::path::PathBuf;
use std::time::Instant;

use hindsearch_indexes::{
    self as indexes, ElementType, Flat, Graph, GraphParams, IndexKind, IndexLock, Interrupt, Manifest, Matrix, Progress,
    Staging,
};
use serde::{Deserialize, Serialize};

pub use gate::{Gate, TOLERANCE as GATE_TOLERANCE};
pub use machine::{available_disk, available_memory};
pub use plan::Plan;
pub use provenance::{ModelRecord, Provenance};

use crate::corpus::{CorpusReader, CorpusStore, CorpusSummary, Format};
use crate::embed::{EmbedOptions, Embedder, InputKind, ModelSource, Precision};
use crate::{Error, Result};

/// Held-out queries that recall is measured with.
const RECALL_QUERIES: usize = 256;
/// The k of the measured recall.
const RECALL_TOP_K: usize = 10;

/// What to build, from what, to where.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Corpus files, read in this order as one corpus.
    pub corpus: Vec<PathBuf>,
    /// Their format, where it should not be detected.
    pub format: Option<Format>,
    /// The index folder; an index in it gets a new generation.
    pub out: PathBuf,
    /// The model.
    pub model: ModelSource,
    /// How to run it.
    pub embed: EmbedOptions,
    /// The kind of index.
    pub index: IndexOptions,
    /// The resolved settings, for the manifest.
    pub settings: serde_json::Value,
}

/// The kind of index and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexOptions {
    /// Exact or approximate.
    pub kind: IndexKind,
    /// How a stored value is coded.
    pub element_type: ElementType,
    /// Recall@10 below which an approximate index is refused.
    pub recall_floor: f64,
    /// Links a node (M), for HNSW.
    pub connectivity: usize,
    /// Candidates kept while adding, for HNSW.
    pub expansion_add: usize,
}

/// A step of the build, for progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the corpus into the text store; unit: bytes of input.
    Corpus,
    /// Embedding; unit: passages.
    Vectors,
    /// Building the graph; unit: passages.
    Graph,
    /// Hashing and publishing; unit: bytes.
    Publish,
}

/// Receives progress of each stage.
pub type OnStage<'a> = &'a (dyn Fn(Stage, Progress) + Sync);

/// What was built.
#[derive(Debug, Clone, Serialize)]
pub struct BuildReport {
    /// The index folder.
    pub out: PathBuf,
    /// Number of the published generation.
    pub generation: u64,
    /// The manifest as published.
    pub manifest: Manifest,
    /// Passages embedded by this call; the rest was done by an earlier one.
    pub embedded: u64,
    /// Texts cut to the model's length by this call.
    pub truncated: u64,
    /// Seconds that this call took.
    pub seconds: f64,
}

/// What a resumed build must agree on with the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Contract {
    inputs: Vec<(PathBuf, u64, Option<u64>)>,
    format: Option<Format>,
    model: ModelRecord,
    element_type: ElementType,
}

/// How far a build is: kept in the staging folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    contract: Contract,
    corpus: Option<CorpusSummary>,
    gate: Option<Gate>,
    /// Rows of vectors that are durable.
    rows: u64,
}

/// Builds and publishes an index.
///
/// # Errors
/// Unusable input, a shortfall found by the plan, a lock held by another build, a model or disk that fails, recall
/// below the floor. The folder then holds what it held before, and the work done so far for the next call.
pub fn build(options: &BuildOptions, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    let embedder = Embedder::open(&options.model, options.embed.clone())?;
    Plan::new(options, &embedder)?.check(options)?;
    let lock = IndexLock::acquire(&options.out)?;
    let mut staging = Staging::create_or_resume(lock)?;
    let mut state = resume(options, &embedder, &mut staging)?;

    let corpus = store_corpus(options, &mut state, &staging, on_stage, interrupt)?;
    let embedder = pass_gate(options, embedder, &corpus, &mut state, &staging, interrupt)?;
    let embedded = vectors::embed_all(vectors::Job {
        embedder: &embedder,
        corpus: &corpus,
        element_type: options.index.element_type,
        staging: &staging,
        state: &mut state,
        on_stage,
        interrupt,
    })?;
    let mut manifest = Manifest::new(IndexKind::Flat, corpus.len(), embedder.card().dimensions, options.index.element_type);
    if options.index.kind == IndexKind::Hnsw {
        build_graph(options, &embedder, &corpus, &staging, &mut manifest, on_stage, interrupt)?;
    } else {
        staging.remove("graph")?;
    }
    let provenance = Provenance {
        corpus: state.corpus.clone().ok_or_else(|| unreachable_state("a corpus summary"))?,
        inputs: options.corpus.clone(),
        model: record(options, &embedder),
        gate: state.gate.clone(),
        settings: options.settings.clone(),
    };
    provenance.put(&mut manifest);
    drop(corpus);
    let generation = staging.publish(manifest, &|progress| on_stage(Stage::Publish, progress), interrupt)?;
    indexes::collect(&options.out, 1)?;
    Ok(BuildReport {
        out: options.out.clone(),
        generation: generation.number(),
        manifest: generation.manifest().clone(),
        embedded: embedded.passages,
        truncated: embedded.truncated,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// The state to go on from: the stored one where it belongs to the same build, else a fresh one.
fn resume(options: &BuildOptions, embedder: &Embedder, staging: &mut Staging) -> Result<State> {
    let contract = Contract {
        inputs: options.corpus.iter().map(|path| identity(path)).collect::<Result<_>>()?,
        format: options.format,
        model: record(options, embedder),
        element_type: options.index.element_type,
    };
    let stored: Option<State> = staging.read_state()?.and_then(|state| serde_json::from_value(state).ok());
    match stored.filter(|state| state.contract == contract) {
        Some(state) => Ok(state),
        None => {
            staging.clear()?;
            let state = State { contract, corpus: None, gate: None, rows: 0 };
            state.save(staging)?;
            Ok(state)
        }
    }
}

impl State {
    fn save(&self, staging: &Staging) -> Result<()> {
        let value = serde_json::to_value(self).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        Ok(staging.write_state(&value)?)
    }
}

/// Path, length and time of change (seconds since the epoch) of an input.
fn identity(path: &PathBuf) -> Result<(PathBuf, u64, Option<u64>)> {
    let data = fs_err::metadata(path).map_err(Error::io("read", path))?;
    let changed = data.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).map(|d| d.as_secs());
    Ok((path.clone(), data.len(), changed))
}

fn record(options: &BuildOptions, embedder: &Embedder) -> ModelRecord {
    ModelRecord {
        source: options.model.clone(),
        card: embedder.card().clone(),
        query: embedder.query_fingerprint().clone(),
        passage: embedder.passage_fingerprint().clone(),
    }
}

fn store_corpus(
    options: &BuildOptions,
    state: &mut State,
    staging: &Staging,
    on_stage: OnStage<'_>,
    interrupt: &Interrupt,
) -> Result<CorpusStore> {
    if state.corpus.is_none() {
        let reader = CorpusReader::open(&options.corpus, options.format)?;
        let on_progress = |progress| on_stage(Stage::Corpus, progress);
        state.corpus = Some(CorpusStore::write(reader, staging.path(), &on_progress, interrupt)?);
        state.save(staging)?;
    }
    CorpusStore::open(staging.path())
}
