//! The index that is served now, and the next one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use crate::embed::InputKind;
use crate::serve::dialects::{URN, title_of};
use crate::serve::engine::{Model, TextEncoder};
use crate::serve::perform::passage;
use crate::serve::titles::Titles;
use crate::{Ranked, Result, Retriever};

/// One open generation and its model; requests keep the one that they began with.
pub struct Serving {
    retriever: Arc<Retriever>,
    model: Arc<Model>,
    files: Vec<FileMark>,
    titles: OnceLock<Titles>,
}

/// What a published file looked like when it was opened. Published files never change.
#[derive(Debug, PartialEq, Eq)]
struct FileMark {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileMark {
    fn of(path: PathBuf) -> Option<Self> {
        let facts = std::fs::metadata(&path).ok()?;
        Some(Self { path, bytes: facts.len(), modified: facts.modified().ok() })
    }
}

impl Serving {
    /// Serves `retriever` with its own model, and loads that for every thread.
    ///
    /// # Errors
    /// Those of loading a graph.
    pub fn new(retriever: Retriever, cached_queries: usize) -> Result<Self> {
        retriever.embedder().warm_up(InputKind::Query)?;
        let encoder: Arc<dyn TextEncoder> = Arc::clone(retriever.embedder()) as _;
        Ok(Self::with_encoder(retriever, encoder, cached_queries))
    }

    /// Serves `retriever` with queries embedded by `encoder`, which must give the vectors that the index's model gives.
    pub fn with_encoder(retriever: Retriever, encoder: Arc<dyn TextEncoder>, cached_queries: usize) -> Self {
        Self::over(retriever, Arc::new(Model::new(encoder, cached_queries)))
    }

    fn over(retriever: Retriever, model: Arc<Model>) -> Self {
        let folder = retriever.generation().path();
        let files = retriever.generation().manifest().files.iter();
        let files = files.filter_map(|file| FileMark::of(folder.join(&file.name)));
        Self { files: files.collect(), titles: OnceLock::new(), retriever: Arc::new(retriever), model }
    }

    /// The current generation of the index at `root`, where it is another than this one.
    ///
    /// # Errors
    /// As [`Retriever::open`].
    pub fn newer(&self, root: &Path, cached_queries: usize) -> Result<Option<Self>> {
        let Some(retriever) = self.retriever.newer(root)? else { return Ok(None) };
        if Arc::ptr_eq(retriever.embedder(), self.retriever.embedder()) {
            return Ok(Some(Self::over(retriever, Arc::clone(&self.model))));
        }
        Self::new(retriever, cached_queries).map(Some)
    }

    /// The first file that is no longer what was opened.
    pub fn changed_file(&self) -> Option<&Path> {
        let changed = self.files.iter().find(|mark| FileMark::of(mark.path.clone()).as_ref() != Some(mark));
        changed.map(|mark| mark.path.as_path())
    }

    /// The passages of the page at this address, in order. The first call reads all titles.
    ///
    /// # Errors
    /// A damaged passage.
    pub(super) fn page(&self, url: &str) -> Result<Option<Vec<Ranked>>> {
        let corpus = self.retriever.corpus();
        if let Some(id) = url.strip_prefix(URN) {
            return Ok(passage(self, id)?.map(|hit| vec![hit]));
        }
        let Some(title) = title_of(url) else { return Ok(None) };
        if self.titles.get().is_none() {
            // Two may read at once; the first to be done is kept.
            let _ = self.titles.set(Titles::read(corpus)?);
        }
        let Some(titles) = self.titles.get() else { return Ok(None) };
        let rows = titles.rows_of(&title, corpus)?.into_iter();
        let passages =
            rows.map(|row| Ok(Ranked { row, score: 0.0, passage: corpus.get(row)? })).collect::<Result<Vec<_>>>()?;
        Ok((!passages.is_empty()).then_some(passages))
    }

    /// The index and its corpus.
    pub fn retriever(&self) -> &Arc<Retriever> {
        &self.retriever
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}
