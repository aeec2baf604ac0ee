//! More passages for an index: a further shard in a new generation, beside the old ones as they are.

use std::path::PathBuf;
use std::time::Instant;

use hindsearch_indexes::{Deleted, Interrupt, Matrix};

use super::base::{Base, Means, Step};
use super::state::Task;
use super::{BuildOptions, BuildReport, OnStage, Plan, Provenance, held_out, refuse_own_output, vectors};
use crate::corpus::{Corpus, CorpusStore, Format, Source};
use crate::embed::ModelSource;
use crate::{Error, Result};

/// Which passages go into which index.
#[derive(Debug, Clone)]
pub struct AppendOptions {
    /// The index folder.
    pub index: PathBuf,
    /// Corpus files, read in this order as one corpus; a folder stands for its files by name.
    pub corpus: Vec<PathBuf>,
    /// Their format, where it should not be detected.
    pub format: Option<Format>,
    /// Delete passages of the index whose ids come again, instead of refusing them.
    pub replace: bool,
    /// By what means.
    pub means: Means,
}

/// Embeds the passages with the index's own model and publishes a generation that has them, too. Goes on where an earlier
/// call was stopped.
///
/// # Errors
/// [`Error::InvalidInput`] naming the first id that the index has already, unless it shall be replaced; otherwise as
/// [`build`](super::build()). The index is then as it was.
pub fn append(options: &AppendOptions, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    let (lock, base) = Base::lock(&options.index)?;
    let build = options.as_build(&base);
    refuse_own_output(&build)?;
    let (plan, embedder, _) =
        Plan::prepare(&build).map_err(|error| base.provenance.explain(&options.index, &build.model, error))?;
    base.provenance.check_passage_model(&options.index, &embedder)?;
    plan.check(&build)?;

    let task = Task::Append(base.generation.number());
    let step =
        Step { out: &options.index, index: &build.index, task, restart: options.means.restart, on_stage, interrupt };
    let (mut run, mut state) = base.stage(lock, step)?;
    if build.index.element_type.is_centred() {
        run.mean = Some(Matrix::open(&base.generation.path().join("vectors"))?.spec().mean.clone());
    }
    let material = build.material()?;
    let store = state.store_corpus(&run, &material)?;
    let mut manifest = base.next_manifest();
    manifest.add_shard(store.len());
    let mut deleted = base.deleted();
    let replaced = options.make_room(&base.corpus, &store, &mut deleted, || (material.open)())?;

    let embedded = vectors::embed_all(&run, &embedder, &store, &mut state)?;
    run.write_structures()?;
    let corpus = run.write_deleted(deleted.grown(manifest.rows), &mut manifest)?;
    run.measure(&mut manifest, |corpus| held_out::queries(&embedder, corpus, interrupt))?;
    let provenance = Provenance {
        corpus: corpus.summary().clone(),
        inputs: [&base.provenance.inputs[..], &build.input_names()].concat(),
        truncated: base.provenance.truncated + state.truncated,
        ..base.provenance
    };
    drop((corpus, store));
    Ok(run.publish(manifest, provenance)?.report(embedded, replaced, start))
}

impl AppendOptions {
    /// The build of the new shard.
    fn as_build(&self, base: &Base) -> BuildOptions {
        let record = &base.provenance.model;
        BuildOptions {
            corpus: self.corpus.clone(),
            format: self.format,
            vectors: Vec::new(),
            out: self.index.clone(),
            model: self.means.model.clone().unwrap_or_else(|| ModelSource::parse(&record.source)),
            embed: record.for_passages(self.means.embed.clone()),
            index: base.index_options(),
            restart: self.means.restart,
            settings: base.provenance.settings.clone(),
        }
    }

    /// Deletes, or refuses, passages of the index whose ids are among the new ones; gives their number.
    fn make_room<'a>(
        &self,
        old: &Corpus,
        new: &CorpusStore,
        deleted: &mut Deleted,
        read: impl Fn() -> Result<Box<dyn Source + 'a>>,
    ) -> Result<u64> {
        let mut replaced = 0;
        for (number, passage) in (0..).zip(new.scan(0)?) {
            let id = passage?.id;
            let Some(row) = old.row_of(&id)? else { continue };
            if self.replace {
                replaced += u64::from(deleted.insert(row));
                continue;
            }
            return Err(Error::InvalidInput {
                what: format!("id `{}`", id.escape_debug()),
                expected: "passages that the index does not have; with `--replace` they take the place of the old ones"
                    .into(),
                found: format!("{}, and row {row} of index `{}`", place(read, number), self.index.display()),
            });
        }
        Ok(replaced)
    }
}

/// Where a new passage is, for messages.
fn place<'a>(read: impl Fn() -> Result<Box<dyn Source + 'a>>, number: u64) -> String {
    let located = read().map(|mut source| {
        // Only what was read can be located.
        let _ = source.by_ref().take(number as usize + 1).count();
        source.locate(number)
    });
    located.unwrap_or_else(|_| format!("passage {}", number + 1))
}
