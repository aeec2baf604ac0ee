//! Rows and texts of indexes copied into one index of a single shard: compaction of one, the union of several.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hindsearch_indexes::{FolderLock, Interrupt, LiveRows, Manifest, Matrix, Shard, Staging};

use super::base::{Base, Means};
use super::plan::staged_bytes;
use super::state::{Contract, Material, State, Task, Wanted};
use super::vectors::Copied;
use super::{BuildReport, OnStage, Provenance, Published, Run, available_disk, vectors};
use crate::corpus::Copies;
use crate::{Error, Result};

/// Which indexes become one.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// The index folders; the passages of the new index are in this order. The first decides the kind of index.
    pub indexes: Vec<PathBuf>,
    /// The folder of the new index; an index in it gets a new generation.
    pub out: PathBuf,
    /// By what means.
    pub means: Means,
}

/// Publishes a generation of one shard without the deleted rows, or finds the current one to be such. No text is embedded;
/// rows are copied and numbered anew, and what lies beside the vectors is built again. Goes on where an earlier call was
/// stopped.
///
/// # Errors
/// [`Error::InvalidInput`] when all passages are deleted; a missing or damaged index, a lock held by another build, recall
/// below the floor. The index is then as it was.
pub fn compact(index: &Path, means: &Means, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    let (lock, base) = Base::lock(index)?;
    let manifest = base.generation.manifest();
    if manifest.shards().len() == 1 && manifest.deleted == 0 {
        let out = index.to_string_lossy().into_owned();
        return Ok(Published { out, generation: base.generation, provenance: base.provenance }.report(0, 0, start));
    }
    let to = Target { out: index, means, on_stage, interrupt };
    Ok(copy(lock, vec![(index.to_path_buf(), base)], &to)?.report(0, 0, start))
}

/// Publishes an index of the passages of several. No text is embedded. Goes on where an earlier call was stopped.
///
/// # Errors
/// [`Error::Incompatible`] for indexes of different models or element types, [`Error::InvalidInput`] for an id that two of
/// them have; otherwise as [`compact`].
pub fn merge(options: &MergeOptions, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    let open = |path: &PathBuf| Ok((path.clone(), Base::open(path)?));
    let sources = options.indexes.iter().map(open).collect::<Result<Vec<_>>>()?;
    let Some(((first_path, first), others)) = sources.split_first() else {
        return Err(Error::InvalidInput {
            what: "indexes".into(),
            expected: "at least one".into(),
            found: "none".into(),
        });
    };
    others.iter().try_for_each(|(path, other)| alike((first_path, first), (path, other)))?;
    let to = Target { out: &options.out, means: &options.means, on_stage, interrupt };
    Ok(copy(FolderLock::acquire(&options.out)?, sources, &to)?.report(0, 0, start))
}

/// Refuses indexes whose vectors cannot be compared.
fn alike((path, one): (&Path, &Base), (other_path, other): (&Path, &Base)) -> Result<()> {
    let contract = |base: &Base| {
        let (card, print) = (&base.provenance.model.card, &base.provenance.model.fingerprint);
        [
            ("model", card.id.clone()),
            ("element type", base.generation.manifest().element_type.to_string()),
            ("graph for passages", print.passages.blake3.to_string()),
            ("graph for queries", print.queries.blake3.to_string()),
            ("tokenizer", print.tokenizer.to_string()),
            ("pooling", format!("{:?}", card.pooling).to_lowercase()),
            ("normalisation", if card.normalize { "to length 1" } else { "none" }.to_owned()),
            ("most tokens", card.max_length.to_string()),
            ("query prefix", format!("`{}`", card.query_prefix)),
            ("passage prefix", format!("`{}`", card.passage_prefix)),
        ]
    };
    let pairs = contract(one).into_iter().zip(contract(other));
    let differing: Vec<_> = pairs.filter(|(one, other)| one != other).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let list = |all: Vec<&(&str, String)>| {
        all.into_iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    };
    Err(Error::Incompatible {
        what: format!("vectors of index `{}` beside those of `{}`", other_path.display(), path.display()),
        expected: list(differing.iter().map(|(one, _)| one).collect()),
        found: list(differing.iter().map(|(_, other)| other).collect()),
        remedy: "merge indexes that were built with the same model and settings, or build one from all corpora".into(),
    })
}

/// Where copies go, and how.
struct Target<'a> {
    out: &'a Path,
    means: &'a Means,
    on_stage: OnStage<'a>,
    interrupt: &'a Interrupt,
}

/// Copies all passages of the sources, of which there is at least one, and publishes them.
fn copy(lock: FolderLock, sources: Vec<(PathBuf, Base)>, to: &Target<'_>) -> Result<Published> {
    let (first_path, first) = &sources[0];
    let rows: u64 = sources.iter().map(|(_, source)| source.corpus.len()).sum();
    if rows == 0 {
        return Err(Error::InvalidInput {
            what: format!("index `{}`", first_path.display()),
            expected: "at least one passage to keep".into(),
            found: "none: all are deleted".into(),
        });
    }
    check_disk(&sources, to.out)?;
    let index = first.index_options();
    let mut staging = Staging::create_or_resume(lock)?;
    let named = |(path, source): &(PathBuf, Base)| (absolute(path), source.generation.number());
    let task = Task::Copy(sources.iter().map(named).collect());
    let model = &first.provenance.model;
    let contract = Contract::new(task, &model.card, &model.fingerprint, index.element_type);
    let mut state = State::resume(Wanted { out: to.out, contract, restart: to.means.restart }, &mut staging)?;
    let (on_stage, interrupt) = (to.on_stage, to.interrupt);
    let run = Run { out: to.out, index: &index, staging, shard: 1, mean: None, on_stage, interrupt };

    let texts = || sources.iter().map(|(path, source)| (path.clone(), &source.corpus));
    let open = || Ok(Box::new(Copies::new(texts())) as _);
    let store = state.store_corpus(&run, &Material { inputs: Vec::new(), open: Box::new(open) })?;
    let copied = sources.iter().map(|(_, source)| copied(source)).collect::<Result<Vec<_>>>()?;
    vectors::copy_all(&run, &copied.into_iter().flatten().collect::<Vec<_>>(), &mut state)?;
    run.write_structures()?;
    let dimensions = first.generation.manifest().dimensions;
    let mut manifest = Manifest::new(index.kind, store.len(), dimensions, index.element_type);
    run.measure(&mut manifest, |corpus| first.queries(first_path, to.means, corpus, interrupt))?;
    let all = || sources.iter().map(|(_, source)| &source.provenance);
    let provenance = Provenance {
        corpus: store.summary().clone(),
        inputs: all().flat_map(|provenance| provenance.inputs.iter().cloned()).collect(),
        truncated: all().map(|provenance| provenance.truncated).sum(),
        ..first.provenance.clone()
    };
    drop(store);
    run.publish(manifest, provenance)
}

/// The rows of an index that are not deleted, in order.
fn copied(source: &Base) -> Result<Vec<Copied>> {
    let (folder, manifest) = (source.generation.path(), source.generation.manifest());
    let part = |shard: Shard| {
        let matrix = Arc::new(Matrix::open(&shard.files(folder).path("vectors"))?);
        Ok(Copied { matrix, runs: runs(&LiveRows::of(shard, source.corpus.deleted())) })
    };
    manifest.shards().into_iter().map(part).collect()
}

/// Rows without gaps between them.
fn runs(live: &LiveRows) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    if live.is_whole() {
        runs.push(0..live.rows());
        return runs;
    }
    for row in (0..live.rows()).filter(|row| live.contains(*row)) {
        match runs.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    runs
}

/// Refuses to start what the disk cannot hold.
fn check_disk(sources: &[(PathBuf, Base)], out: &Path) -> Result<()> {
    let files = sources.iter().flat_map(|(_, source)| &source.generation.manifest().files);
    let needed = files.map(|file| file.length).sum::<u64>().saturating_sub(staged_bytes(out));
    match available_disk(out) {
        Some(free) if free < needed => Err(Error::Unavailable {
            what: format!("disk of `{}`", out.display()),
            found: format!("copying needs up to {needed} bytes, {free} are free"),
            remedy: "free some space".into(),
        }),
        _ => Ok(()),
    }
}

fn absolute(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()).to_string_lossy().into_owned()
}
