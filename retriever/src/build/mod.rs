//! From a corpus to a published index in one call, resumable at every step.
//!
//! Four stages, each leaving its result in the staging folder before the next begins: the text store, the vectors
//! (durable after every shard), the graph with its measured recall, and the publication. A build that is killed goes
//! on where it stood when it is called again with the same corpus, model and element type; nothing is visible before
//! the last step.

mod gate;
mod graph;
mod held_out;
mod machine;
mod plan;
mod provenance;
mod vectors;

use std::path::{Path, PathBuf};
use std::time::Instant;

use hindsearch_indexes::{ElementType, IndexKind, IndexLock, Interrupt, Manifest, Progress, Staging, collect};
use serde::{Deserialize, Serialize};

pub use gate::{Gate, TOLERANCE as GATE_TOLERANCE};
pub use machine::{available_disk, available_memory};
pub use plan::Plan;
pub use provenance::{ModelRecord, Provenance};

use crate::corpus::{CorpusReader, CorpusStore, CorpusSummary, Format};
use crate::embed::{EmbedOptions, Embedder, ModelSource, Precision};
use crate::{Error, Result};

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

impl IndexOptions {
    /// Bytes of an HNSW graph for each row, on disk and in memory while it is built: an i8 code, and links of 4 bytes
    /// (twice M on the lowest layer).
    fn graph_bytes_per_row(&self, dimensions: usize) -> u64 {
        (dimensions + self.connectivity * 2 * 4 + 64) as u64
    }
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
    /// What it was built from; the manifest holds it too.
    #[serde(skip)]
    pub provenance: Provenance,
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
    format: Option<String>,
    model: ModelRecord,
    element_type: ElementType,
}

/// How far a build is: kept in the staging folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    contract: Contract,
    corpus: Option<CorpusSummary>,
    gate: Option<Gate>,
    /// The centre of an i8 matrix.
    mean: Option<Vec<f32>>,
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
    let staging = Staging::create_or_resume(IndexLock::acquire(&options.out)?)?;
    let mut state = resume(options, &embedder, &staging)?;

    let corpus = store_corpus(options, &mut state, &staging, on_stage, interrupt)?;
    let embedder = pass_gate(options, embedder, &corpus, &mut state, &staging, interrupt)?;
    let job = vectors::Job {
        embedder: &embedder,
        corpus: &corpus,
        element_type: options.index.element_type,
        staging: &staging,
        state: &mut state,
        on_stage,
        interrupt,
    };
    let embedded = job.run()?;
    let truncated = embedder.stats().truncated;
    let mut manifest =
        Manifest::new(options.index.kind, corpus.len(), embedder.dimensions(), options.index.element_type);
    if options.index.kind == IndexKind::Hnsw {
        let queries = graph::queries(&embedder, &corpus, interrupt)?;
        let shown = |progress| on_stage(Stage::Graph, progress);
        graph::build(&options.index, staging.path(), &queries, &mut manifest, &shown, interrupt)?;
    } else {
        forget_graph(&staging.path().join("graph"))?;
    }
    let provenance = Provenance {
        corpus: corpus.summary().clone(),
        inputs: options.corpus.clone(),
        model: ModelRecord::new(&options.model, &embedder),
        gate: state.gate,
        settings: options.settings.clone(),
    };
    provenance.put(&mut manifest);
    drop(corpus);
    let generation = staging.publish(manifest, &|progress| on_stage(Stage::Publish, progress), interrupt)?;
    // One generation back is kept for readers that are about to open it.
    collect(&options.out, 1)?;
    Ok(BuildReport {
        out: options.out.clone(),
        generation: generation.number(),
        manifest: generation.manifest().clone(),
        provenance,
        embedded,
        truncated,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// The state to go on from: the stored one where it belongs to the same build, else a fresh one.
fn resume(options: &BuildOptions, embedder: &Embedder, staging: &Staging) -> Result<State> {
    let contract = Contract {
        inputs: options.corpus.iter().map(|path| identity(path)).collect::<Result<_>>()?,
        format: options.format.map(|format| format.to_string()),
        model: ModelRecord::new(&options.model, embedder),
        element_type: options.index.element_type,
    };
    let stored: Option<State> = staging.read_state()?.and_then(|state| serde_json::from_value(state).ok());
    if let Some(state) = stored.filter(|state| state.contract == contract) {
        return Ok(state);
    }
    staging.restart()?;
    let state = State { contract, corpus: None, gate: None, mean: None, rows: 0 };
    state.save(staging)?;
    Ok(state)
}

impl State {
    fn save(&self, staging: &Staging) -> Result<()> {
        let value = serde_json::to_value(self).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        Ok(staging.write_state(&value)?)
    }
}

/// Path, length and time of change (seconds since the epoch) of an input.
fn identity(path: &Path) -> Result<(PathBuf, u64, Option<u64>)> {
    let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let changed = data.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).map(|d| d.as_secs());
    Ok((path.to_path_buf(), data.len(), changed))
}

fn store_corpus(
    options: &BuildOptions,
    state: &mut State,
    staging: &Staging,
    on_stage: OnStage<'_>,
    interrupt: &Interrupt,
) -> Result<CorpusStore> {
    if state.corpus.is_none() {
        let mut reader = CorpusReader::open(&options.corpus, options.format)?;
        let shown = |progress| on_stage(Stage::Corpus, progress);
        state.corpus = Some(CorpusStore::write(&mut reader, staging.path(), &shown, interrupt)?);
        state.save(staging)?;
    }
    CorpusStore::open(staging.path())
}

/// Removes the graph of an earlier attempt that asked for one.
fn forget_graph(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Measures an int8 graph for passages against the fp32 graph beside it, where there is one, and opens the model with
/// the graph for queries that did better, unless the caller chose one.
fn pass_gate(
    options: &BuildOptions,
    embedder: Embedder,
    corpus: &CorpusStore,
    state: &mut State,
    staging: &Staging,
    interrupt: &Interrupt,
) -> Result<Embedder> {
    let int8 = embedder.fingerprint().passages.precision == Precision::Int8;
    if !int8 || !gate::can_measure(&options.model, &options.embed)? {
        return Ok(embedder);
    }
    if state.gate.is_none() {
        state.gate = Some(gate::measure(&options.model, &options.embed, corpus, interrupt)?);
        state.save(staging)?;
    }
    let better = state.gate.as_ref().map(|gate| gate.query_precision);
    if options.embed.query_precision.is_some() || better == Some(embedder.fingerprint().queries.precision) {
        return Ok(embedder);
    }
    Embedder::open(&options.model, EmbedOptions { query_precision: better, ..options.embed.clone() })
}
