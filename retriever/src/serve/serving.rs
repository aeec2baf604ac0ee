//! The index that is served now, and the next one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::embed::InputKind;
use crate::serve::dialects::{URN, title_of};
use crate::serve::engine::{Model, TextEncoder};
use crate::serve::titles::Titles;
use crate::threads::lock;
use crate::{Result, Retriever};

/// One open generation and its model; requests keep the one that they began with.
pub struct Serving {
    retriever: Arc<Retriever>,
    model: Arc<Model>,
    files: Vec<FileMark>,
    titles: Mutex<Option<Arc<Titles>>>,
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
        Self { files: files.collect(), titles: Mutex::default(), retriever: Arc::new(retriever), model }
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

    /// The rows of the page at this address, in order; none where there is no such page. The first call reads all titles.
    ///
    /// # Errors
    /// A damaged passage.
    pub(super) fn page_rows(&self, url: &str) -> Result<Vec<u64>> {
        let corpus = self.retriever.corpus();
        if let Some(id) = url.strip_prefix(URN) {
            return Ok(corpus.row_of(id)?.into_iter().collect());
        }
        let Some(title) = title_of(url) else { return Ok(Vec::new()) };
        // One reads, the others wait for it.
        let mut titles = lock(&self.titles);
        let titles = match &mut *titles {
            Some(titles) => Arc::clone(titles),
            missing => Arc::clone(missing.insert(Arc::new(Titles::read(corpus)?))),
        };
        titles.rows_of(&title, corpus)
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
