//! From a corpus to a published index in one call, resumable at every step.
//!
//! Four stages, each leaving its result in the staging folder before the next begins: the text store, the vectors
//! (embedded or taken from files, durable after every shard), the graph with its measured recall, and the publication. A build that is killed goes
//! on where it stood when it is called again; nothing is visible before the last step.
//!
//! | question | module |
//! |---|---|
//! | how does an index get more passages, or fewer? | `append`, `delete` |
//! | how do indexes become one of a single shard, without a model? | `copy` |
//! | who may write beside the current generation? | `base` |
//! | how are the vectors of a shard written, and its graph or codes? | `vectors`, `graph`, `codes` |
//! | with which queries is recall measured? | `held_out` |
//! | how far is it, and whose work is it? | `state` |

mod append;
mod base;
mod codes;
mod copy;
mod delete;
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
    self as indexes, ElementType, FolderLock, Generation, IndexKind, Interrupt, Manifest, Progress, ShardFiles,
    Staging, VectorFile, Vectors, collect,
};
use serde::Serialize;

pub use append::{AppendOptions, append};
pub use base::Means;
pub use copy::{MergeOptions, compact, merge};
pub use delete::{DeleteOptions, delete};
pub use gate::Gate;
pub use import::Imported;
pub use machine::{available_disk, available_memory};
pub use pairing::Pairing;
pub use plan::Plan;
pub use provenance::{ModelRecord, Provenance};

use pairing::Pairs;
use state::{Contract, Material, State, Task, Wanted};

use crate::corpus::{Corpus, CorpusReader, CorpusStore, Format};
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
    /// Copying vectors; unit: passages.
    Copy,
    /// Building the graph: each row is added, then found; unit: rows of both.
    Graph,
    /// Coding for a quantized index: lists are trained, each row is coded, then written; unit: rows of all three.
    Codes,
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
    /// Passages of the generation before that are deleted in this one.
    pub deleted: u64,
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
    let mut staging = Staging::create_or_resume(FolderLock::acquire(&options.out)?)?;
    let contract = Contract::new(Task::Build, embedder.card(), embedder.fingerprint(), options.index.element_type);
    let contract = contract.with_vectors(&options.vectors)?;
    let wanted = Wanted { out: &options.out, contract, restart: options.restart };
    let mut state = State::resume(wanted, &mut staging)?;
    let run = Run { out: &options.out, index: &options.index, staging, shard: 1, mean: None, on_stage, interrupt };

    let corpus = state.store_corpus(&run, &options.material()?)?;
    let Written { embedder, embedded, taken, imported } =
        run.write_vectors(options, embedder, vectors, &corpus, &mut state)?;
    run.write_structures()?;
    let index = &options.index;
    let mut manifest = Manifest::new(index.kind, corpus.len(), embedder.dimensions(), index.element_type);
    run.measure(&mut manifest, |corpus| held_out::queries(&embedder, corpus, interrupt))?;
    let provenance = Provenance {
        corpus: corpus.summary().clone(),
        inputs: options.input_names(),
        model: ModelRecord::new(&options.model, &embedder),
        gate: state.gate,
        imported,
        truncated: state.truncated,
        settings: options.settings.clone(),
    };
    drop(corpus);
    let report = run.publish(manifest, provenance)?.report(embedded, 0, start);
    Ok(BuildReport { imported: taken, ..report })
}

impl BuildOptions {
    /// What the text store is written from.
    fn material(&self) -> Result<Material<'_>> {
        let open = || Ok(Box::new(CorpusReader::open(&self.corpus, self.format)?) as _);
        Ok(Material { inputs: state::inputs(&self.corpus)?, open: Box::new(open) })
    }

    fn input_names(&self) -> Vec<String> {
        names(&self.corpus)
    }
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
    out: &'a Path,
    index: &'a IndexOptions,
    staging: Staging,
    /// The shard that is written, from 1.
    shard: usize,
    /// The centre of an i8 matrix in the shards before, about which this one is coded, too, so that rows can be copied from
    /// one to another as they are.
    mean: Option<Vec<f32>>,
    on_stage: OnStage<'a>,
    interrupt: &'a Interrupt,
}

/// The vectors of a corpus, as they came to be.
struct Written {
    /// The model, with the graph for queries that did best.
    embedder: Embedder,
    /// Passages embedded by this call.
    embedded: u64,
    /// Vectors taken from files by this call.
    taken: u64,
    imported: Option<Imported>,
}

impl Run<'_> {
    /// Writes the vectors of the corpus: those in `file`, where there is one, or of the model's making.
    fn write_vectors(
        &self,
        options: &BuildOptions,
        embedder: Embedder,
        file: Option<VectorFile>,
        corpus: &CorpusStore,
        state: &mut State,
    ) -> Result<Written> {
        let Some(file) = file else {
            let embedder = pass_gate(self, options, embedder, corpus, state)?;
            let embedded = vectors::embed_all(self, &embedder, corpus, state)?;
            return Ok(Written { embedder, embedded, taken: 0, imported: None });
        };
        let pairing = Pairs { options, file: &file, embedder: &embedder, interrupt: self.interrupt }.check(corpus)?;
        let taken = import::copy_all(self, &file, &embedder, state)?;
        let files = names(&options.vectors);
        let imported = Some(Imported { files, format: file.format(), values: state.values, pairing });
        Ok(Written { embedder, embedded: 0, taken, imported })
    }

    /// The files of the shard that is written.
    fn files(&self) -> ShardFiles<'_> {
        ShardFiles { folder: self.staging.path(), number: self.shard }
    }

    /// Writes what the kind of index needs beside the vectors of a shard.
    fn write_structures(&self) -> Result<()> {
        match self.index.kind {
            IndexKind::Flat => Ok(()),
            IndexKind::Hnsw => graph::write(self),
            IndexKind::Quantized => codes::write(self),
        }
    }

    /// Measures an approximate index, all shards of it, and notes in the `manifest` what came of it. `queries` makes held-out
    /// queries for the corpus as it will be.
    fn measure(&self, manifest: &mut Manifest, queries: impl FnOnce(&Corpus) -> Result<Vectors>) -> Result<()> {
        if self.index.kind == IndexKind::Flat {
            return Ok(());
        }
        let queries = queries(&Corpus::open_in(self.staging.path(), manifest)?)?;
        match self.index.kind {
            IndexKind::Flat => Ok(()),
            IndexKind::Hnsw => graph::measure(self, &queries, manifest),
            IndexKind::Quantized => codes::measure(self, &queries, manifest),
        }
    }

    /// Makes what is staged the current generation.
    fn publish(self, mut manifest: Manifest, provenance: Provenance) -> Result<Published> {
        provenance.put(&mut manifest);
        let on_hashed = |progress| (self.on_stage)(Stage::Publish, progress);
        let generation = self.staging.publish(manifest, &on_hashed, self.interrupt)?;
        // One generation back is kept for readers that are about to open it. Another build that has begun meanwhile
        // will collect in its turn.
        match collect(self.out, 1) {
            Ok(_) | Err(indexes::Error::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Published { out: self.out.to_string_lossy().into_owned(), generation, provenance })
    }
}

/// A new generation.
struct Published {
    out: String,
    generation: Generation,
    provenance: Provenance,
}

impl Published {
    /// What was done since `start`.
    fn report(self, embedded: u64, deleted: u64, start: Instant) -> BuildReport {
        BuildReport {
            out: self.out,
            generation: self.generation.number(),
            manifest: self.generation.manifest().clone(),
            provenance: self.provenance,
            embedded,
            imported: 0,
            deleted,
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// Measures an int8 graph for passages against the fp32 graph beside it, where there is one, and opens the model
/// with the graph for queries that did better, unless the caller chose one.
fn pass_gate(
    run: &Run<'_>,
    options: &BuildOptions,
    embedder: Embedder,
    corpus: &CorpusStore,
    state: &mut State,
) -> Result<Embedder> {
    let (source, options) = (&options.model, &options.embed);
    let int8 = embedder.fingerprint().passages.precision == Precision::Int8;
    if !int8 || !gate::can_measure(source, options)? {
        return Ok(embedder);
    }
    if state.gate.is_none() {
        state.gate = Some(gate::measure(source, options, corpus, run.interrupt)?);
        state.save(&run.staging)?;
    }
    let better = state.gate.as_ref().map(|gate| gate.query_precision);
    if better == Some(embedder.fingerprint().queries.precision) {
        return Ok(embedder);
    }
    Embedder::open(source, EmbedOptions { query_precision: better, ..options.clone() })
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
