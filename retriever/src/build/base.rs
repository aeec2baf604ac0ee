//! The current generation of an index that is about to change, and the right to write beside it.

use std::path::Path;

use hindsearch_indexes::{Deleted, Depth, FolderLock, Generation, Interrupt, Manifest, Staging, Vectors};

use super::state::{Contract, State, Task, Wanted};
use super::{IndexOptions, OnStage, Provenance, Run, held_out};
use crate::Result;
use crate::corpus::Corpus;
use crate::embed::{EmbedOptions, ModelSource};

/// How an index is changed.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// Where the index's model is, where that has changed. An approximate index asks it even where no passage is embedded, to
    /// measure recall anew.
    pub model: Option<ModelSource>,
    /// How to run it.
    pub embed: EmbedOptions,
    /// Discard unfinished work of another kind in the index folder.
    pub restart: bool,
}

/// An open generation with its texts.
pub(super) struct Base {
    pub generation: Generation,
    pub provenance: Provenance,
    pub corpus: Corpus,
}

impl Base {
    /// Opens the current generation of the index at `root`.
    ///
    /// # Errors
    /// A missing or damaged index.
    pub fn open(root: &Path) -> Result<Self> {
        let generation = Generation::open_current(root)?;
        generation.verify(Depth::Structure, &|_| (), &Interrupt::new())?;
        let (provenance, corpus) = (Provenance::of(&generation)?, Corpus::open(&generation)?);
        corpus.verify_ids(&Interrupt::new())?;
        Ok(Self { generation, provenance, corpus })
    }

    /// The same, while nobody else can publish another one.
    ///
    /// # Errors
    /// A missing or damaged index; a lock held by another build.
    pub fn lock(root: &Path) -> Result<(FolderLock, Self)> {
        // Looked for before the lock as well, which would make the folder.
        Generation::open_current(root)?;
        let lock = FolderLock::acquire(root)?;
        Ok((lock, Self::open(root)?))
    }

    /// The kind of this index and its parameters.
    pub fn index_options(&self) -> IndexOptions {
        let manifest = self.generation.manifest();
        let graph = manifest.graph.as_ref();
        IndexOptions {
            kind: manifest.kind,
            element_type: manifest.element_type,
            recall_floor: manifest.recall.as_ref().map_or(0.0, |recall| recall.floor),
            connectivity: graph.map_or(0, |graph| graph.connectivity),
            expansion_add: graph.map_or(0, |graph| graph.expansion_add),
        }
    }

    /// The manifest of a generation that begins as this one is.
    pub fn next_manifest(&self) -> Manifest {
        Manifest { files: Vec::new(), ..self.generation.manifest().clone() }
    }

    /// Held-out queries for the corpus as it will be, embedded by the model of the index at `root`.
    ///
    /// # Errors
    /// A model that is not there, or another one; interrupted.
    pub fn queries(&self, root: &Path, means: &Means, corpus: &Corpus, interrupt: &Interrupt) -> Result<Vectors> {
        let model = self.provenance.open_model(root, means.model.clone(), means.embed.clone())?;
        held_out::queries(&model, corpus, interrupt)
    }

    /// The deleted rows, for more to be added.
    pub fn deleted(&self) -> Deleted {
        let none = || Deleted::none(self.generation.manifest().rows);
        self.corpus.deleted().map_or_else(none, |deleted| Deleted::clone(deleted))
    }

    /// Goes on with, or begins, a next generation that has all shards of this one.
    ///
    /// # Errors
    /// As [`State::resume`]; a file that cannot be taken over.
    pub fn stage<'a>(&self, lock: FolderLock, step: Step<'a>) -> Result<(Run<'a>, State)> {
        let Step { out, index, task, restart, on_stage, interrupt } = step;
        let mut staging = Staging::create_or_resume(lock)?;
        let model = &self.provenance.model;
        let contract = Contract::new(task, &model.card, &model.fingerprint, index.element_type);
        let state = State::resume(Wanted { out, contract, restart }, &mut staging)?;
        staging.carry(&self.generation, |name| name != Deleted::FILE)?;
        let shard = self.generation.manifest().shards().len() + 1;
        Ok((Run { out, index, staging, shard, mean: None, on_stage, interrupt }, state))
    }
}

/// A change to an index.
pub(super) struct Step<'a> {
    /// The index folder.
    pub out: &'a Path,
    pub index: &'a IndexOptions,
    pub task: Task,
    /// Discard unfinished work of another kind.
    pub restart: bool,
    pub on_stage: OnStage<'a>,
    pub interrupt: &'a Interrupt,
}

impl Run<'_> {
    /// Writes down which rows are deleted, and gives the corpus that is left.
    pub(super) fn write_deleted(&self, deleted: Deleted, manifest: &mut Manifest) -> Result<Corpus> {
        let path = self.staging.path().join(Deleted::FILE);
        super::remove(&path)?;
        manifest.deleted = deleted.count();
        if manifest.deleted > 0 {
            std::fs::write(&path, deleted.encode()).map_err(crate::Error::io("write", &path))?;
        }
        Corpus::open_in(self.staging.path(), manifest)
    }
}
