//! From a corpus to a published index in one call, resumable at every step.
//!
//! Four stages, each leaving its result in the staging folder before the next begins: the text store, the vectors
//! (embedded or taken from files, durable after every shard), the graph with its measured recall, and the publication. A build that is killed goes
//! on where it stood when it is called again; nothing is visible before the last step.

mod gate;
mod graph;
mod held_out;
mod import;
mod machine;
mod pairing;
mod plan;
mod provenance;
mod state;
mod vectors;

use std::path::{Path, PathBuf};
use std::time::Instant;

use hindsearch_indexes::{
    self as indexes, ElementType, FolderLock, IndexKind, Interrupt, Manifest, Progress, Staging, VectorFile, collect,
};
use serde::Serialize;

pub use gate::Gate;
pub use import::Imported;
pub use machine::{available_disk, available_memory};
pub use pairing::Pairing;
pub use plan::Plan;
pub use provenance::{ModelRecord, Provenance};

use pairing::Pairs;
use state::State;

use crate::corpus::{CorpusStore, Format};
use crate::embed::{EmbedOptions, Embedder, ModelSource, Precision};
use crate::{Error, Result};

/// What to build, from what, to where.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Corpus files, read in this order as one corpus; a folder stands for its files by name.
    pub corpus: Vec<PathBuf>,
    /// Their format, where it should not be detected.
    pub format: Option<Format>,
    /// Files with the passages' vectors, in corpus order, in place of embedding: see [`VectorFile`].
    pub vectors: Vec<PathBuf>,
    /// The index folder; an index in it gets a new generation.
    pub out: PathBuf,
    /// The model.
    pub model: ModelSource,
    /// How to run it.
    pub embed: EmbedOptions,
    /// The kind of index.
    pub index: IndexOptions,
    /// Discard an unfinished build of another corpus, model or element type in the index folder.
    pub restart: bool,
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
    /// Embedding, or taking vectors from files; unit: passages.
    Vectors,
    /// Building the graph: each row is added, then found; unit: rows of both.
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
    pub out: String,
    /// Number of the published generation.
    pub generation: u64,
    /// The manifest as published.
    pub manifest: Manifest,
    /// What it was built from; the manifest holds it too.
    #[serde(skip)]
    pub provenance: Provenance,
    /// Passages embedded by this call; the rest was done by an earlier one.
    pub embedded: u64,
    /// Vectors taken from files by this call.
    pub imported: u64,
    /// Seconds that this call took.
    pub seconds: f64,
}

/// Builds and publishes an index.
///
/// # Errors
/// Unusable input, a shortfall found by the plan, a lock held by another build, an unfinished build of something else, a
/// model or disk that fails, recall below the floor. The folder then holds what it held before, and the work done so far
/// for the next call.
pub fn build(options: &BuildOptions, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    refuse_own_output(options)?;
    let (plan, embedder, vectors) = Plan::prepare(options)?;
    plan.check(options)?;
    let staging = Staging::create_or_resume(FolderLock::acquire(&options.out)?)?;
    let state = State::resume(options, &embedder, &staging)?;
    let run = Run { options, staging, on_stage, interrupt };
    run.finish(state, embedder, vectors, start)
}

/// An index inside a folder that is read as corpus would become part of the corpus.
fn refuse_own_output(options: &BuildOptions) -> Result<()> {
    let absolute = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_default();
    let out = absolute(&options.out);
    match options.corpus.iter().find(|path| path.is_dir() && out.starts_with(absolute(path))) {
        None => Ok(()),
        Some(folder) => Err(Error::InvalidInput {
            what: format!("output `{}`", options.out.display()),
            expected: "a folder outside the corpus".into(),
            found: format!("one in `{}`, whose files are all read", folder.display()),
        }),
    }
}

/// What all stages share.
struct Run<'a> {
    options: &'a BuildOptions,
    staging: Staging,
    on_stage: OnStage<'a>,
    interrupt: &'a Interrupt,
}

impl Run<'_> {
    fn finish(
        self,
        mut state: State,
        embedder: Embedder,
        file: Option<VectorFile>,
        start: Instant,
    ) -> Result<BuildReport> {
        let index = &self.options.index;
        let corpus = state.store_corpus(&self)?;
        let (mut embedded, mut taken) = (0, 0);
        let (embedder, pairing) = match &file {
            Some(file) => {
                let (options, interrupt) = (self.options, self.interrupt);
                let pairing = Pairs { options, file, embedder: &embedder, interrupt }.check(&corpus)?;
                taken = import::copy_all(&self, file, &embedder, &mut state)?;
                (embedder, Some(pairing))
            }
            None => {
                let embedder = self.pass_gate(embedder, &corpus, &mut state)?;
                embedded = vectors::embed_all(&self, &embedder, &corpus, &mut state)?;
                (embedder, None)
            }
        };
        let imported = file.zip(pairing).map(|(file, pairing)| Imported {
            files: names(&self.options.vectors),
            format: file.format(),
            values: state.values,
            pairing,
        });
        let mut manifest = Manifest::new(index.kind, corpus.len(), embedder.dimensions(), index.element_type);
        // A graph of an earlier attempt may be another one, or half of one.
        for name in ["graph", "graph.tmp"] {
            remove(&self.staging.path().join(name))?;
        }
        if index.kind == IndexKind::Hnsw {
            graph::build(&self, &graph::queries(&embedder, &corpus, self.interrupt)?, &mut manifest)?;
        }
        let provenance = Provenance {
            corpus: corpus.summary().clone(),
            inputs: names(&self.options.corpus),
            model: ModelRecord::new(&self.options.model, &embedder),
            gate: state.gate,
            imported,
            truncated: state.truncated,
            settings: self.options.settings.clone(),
        };
        provenance.put(&mut manifest);
        drop(corpus);
        let on_hashed = |progress| (self.on_stage)(Stage::Publish, progress);
        let generation = self.staging.publish(manifest, &on_hashed, self.interrupt)?;
        // One generation back is kept for readers that are about to open it. Another build that has begun meanwhile
        // will collect in its turn.
        match collect(&self.options.out, 1) {
            Ok(_) | Err(indexes::Error::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(BuildReport {
            out: self.options.out.to_string_lossy().into_owned(),
            generation: generation.number(),
            manifest: generation.manifest().clone(),
            provenance,
            embedded,
            imported: taken,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Measures an int8 graph for passages against the fp32 graph beside it, where there is one, and opens the model
    /// with the graph for queries that did better, unless the caller chose one.
    fn pass_gate(&self, embedder: Embedder, corpus: &CorpusStore, state: &mut State) -> Result<Embedder> {
        let (source, options) = (&self.options.model, &self.options.embed);
        let int8 = embedder.fingerprint().passages.precision == Precision::Int8;
        if !int8 || !gate::can_measure(source, options)? {
            return Ok(embedder);
        }
        if state.gate.is_none() {
            state.gate = Some(gate::measure(source, options, corpus, self.interrupt)?);
            state.save(&self.staging)?;
        }
        let better = state.gate.as_ref().map(|gate| gate.query_precision);
        if better == Some(embedder.fingerprint().queries.precision) {
            return Ok(embedder);
        }
        Embedder::open(source, EmbedOptions { query_precision: better, ..options.clone() })
    }
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
