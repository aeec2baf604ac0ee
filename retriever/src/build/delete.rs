//! Fewer passages in an index: a new generation with the same files, and a list of the rows that are no longer found.

use std::path::PathBuf;
use std::time::Instant;

use hindsearch_indexes::Interrupt;

use super::base::{Base, Means, Step};
use super::state::Task;
use super::{BuildReport, OnStage, Provenance};
use crate::{Error, Result};

/// Which passages leave which index.
#[derive(Debug, Clone)]
pub struct DeleteOptions {
    /// The index folder.
    pub index: PathBuf,
    /// Their ids.
    pub ids: Vec<String>,
    /// By what means.
    pub means: Means,
}

/// Publishes a generation without these passages. Their bytes stay in the files until the index is compacted.
///
/// # Errors
/// [`Error::NotFound`] naming the first id that the index does not have; a missing or damaged index, a lock held by another
/// build, recall below the floor. The index is then as it was.
pub fn delete(options: &DeleteOptions, on_stage: OnStage<'_>, interrupt: &Interrupt) -> Result<BuildReport> {
    let start = Instant::now();
    let (lock, base) = Base::lock(&options.index)?;
    let mut deleted = base.deleted();
    for id in &options.ids {
        let Some(row) = base.corpus.row_of(id)? else {
            return Err(Error::NotFound {
                what: format!("passage `{}` in index `{}`", id.escape_debug(), options.index.display()),
                remedy: "nothing was deleted; leave out ids that the index does not have".into(),
            });
        };
        // False for an id that is given twice.
        deleted.insert(row);
    }
    let (index, task) = (base.index_options(), Task::Delete(base.generation.number()));
    let step = Step { out: &options.index, index: &index, task, restart: options.means.restart, on_stage, interrupt };
    let (run, _) = base.stage(lock, step)?;
    let mut manifest = base.next_manifest();
    let corpus = run.write_deleted(deleted, &mut manifest)?;
    run.measure(&mut manifest, |corpus| base.queries(&options.index, &options.means, corpus, interrupt))?;
    let gone = manifest.deleted - base.generation.manifest().deleted;
    let provenance = Provenance { corpus: corpus.summary().clone(), ..base.provenance };
    drop(corpus);
    Ok(run.publish(manifest, provenance)?.report(0, gone, start))
}
