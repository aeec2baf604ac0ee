//! Corpus, embedder and index put together: queries in, ranked passages out.

use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{Depth, Effort, Generation, Hit, Index, Interrupt, SearchParams, Vectors, open_index};

use crate::build::Provenance;
use crate::corpus::Corpus;
use crate::embed::{EmbedOptions, Embedder, InputKind, ModelSource};
use crate::{Passage, Result};

/// A passage at its place in a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The passage's row in the corpus.
    pub row: u64,
    /// Inner product of unit vectors: the cosine.
    pub score: f32,
    /// The passage.
    pub passage: Passage,
}

/// Texts to ranked passages, wherever the index is: the only thing that a caller in need of passages has to know.
///
/// Each query gets exactly min(`top_k`, passages in the corpus) passages, best first, in the order of the queries.
pub trait Retrieve: Send + Sync {
    /// The best `top_k` passages for each query.
    ///
    /// # Errors
    /// What keeps the implementation from an answer; there are no partial ones.
    fn retrieve(&self, queries: &[String], top_k: usize) -> Result<Vec<Vec<Ranked>>>;

    /// The passage of this id, where passages are at hand; nothing from what only searches.
    ///
    /// # Errors
    /// Those of reading it.
    fn passage(&self, _id: &str) -> Result<Option<Passage>> {
        Ok(None)
    }
}

/// How to open an index.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The model; where it is not given, the one that the index was built with is looked for.
    pub model: Option<ModelSource>,
    /// How to run it.
    pub embed: EmbedOptions,
    /// How much an approximate index looks at in searches that do not say it themselves.
    pub effort: Effort,
}

/// An open index with its corpus and its model.
pub struct Retriever {
    generation: Generation,
    provenance: Provenance,
    corpus: Corpus,
    index: Box<dyn Index>,
    embedder: Arc<Embedder>,
    effort: Effort,
}

impl Retriever {
    /// Opens the current generation of the index at `root`.
    ///
    /// # Errors
    /// [`Error::Index`] for a missing or damaged index; [`Error::Incompatible`] when the model's graph, tokenizer,
    /// prefixes, pooling or dimensions differ from those that the index was built with.
    pub fn open(root: &Path, options: OpenOptions) -> Result<Self> {
        let generation = Generation::open_current(root)?;
        let provenance = Provenance::of(&generation)?;
        let embedder = provenance.open_model(root, options.model, options.embed)?;
        Self::assemble(generation, provenance, Arc::new(embedder), options.effort)
    }

    /// The current generation of the index at `root`, where it is another than this one; with this one's model, where it
    /// wants the same.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn newer(&self, root: &Path) -> Result<Option<Self>> {
        let generation = Generation::open_current(root)?;
        if generation.number() == self.generation.number() && generation.path() == self.generation.path() {
            return Ok(None);
        }
        let provenance = Provenance::of(&generation)?;
        if provenance.model == self.provenance.model {
            let model = Arc::clone(&self.embedder);
            return Self::assemble(generation, provenance, model, self.effort).map(Some);
        }
        let options = OpenOptions { effort: self.effort, ..OpenOptions::default() };
        Self::open(root, options).map(Some)
    }

    fn assemble(
        generation: Generation,
        provenance: Provenance,
        embedder: Arc<Embedder>,
        effort: Effort,
    ) -> Result<Self> {
        // Only bytes that are known to be right may reach the graph's unchecked code.
        generation.verify(Depth::Structure, &|_| (), &Interrupt::new())?;
        let corpus = Corpus::open(&generation)?;
        let index = open_index(&generation, effort)?;
        Ok(Self { generation, provenance, corpus, index, embedder, effort })
    }

    /// The best `top_k` passages for each query, best first; fewer only where the corpus is smaller.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the model fails; [`Error::Index`] when the search does.
    pub fn retrieve_texts(&self, queries: &[&str], params: &SearchParams) -> Result<Vec<Vec<Ranked>>> {
        let vectors = self.embedder.embed(queries, InputKind::Query)?;
        self.retrieve_vectors(&vectors, params)
    }

    /// The same for queries that are embedded already.
    ///
    /// # Errors
    /// [`Error::Index`] for vectors of another length or with NaN, and when the search fails.
    pub fn retrieve_vectors(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Ranked>>> {
        let found = self.index.search(queries, params)?;
        found.into_iter().map(|hits| hits.into_iter().map(|hit| self.ranked(hit)).collect()).collect()
    }

    /// A hit with its passage.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the passage's bytes are damaged.
    pub fn ranked(&self, hit: Hit) -> Result<Ranked> {
        Ok(Ranked { row: hit.row, score: hit.score, passage: self.corpus.get(hit.row)? })
    }

    /// The passages.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// The vectors' side.
    pub fn index(&self) -> &dyn Index {
        &*self.index
    }

    /// The model.
    pub fn embedder(&self) -> &Arc<Embedder> {
        &self.embedder
    }

    /// The open generation.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// What the index was built from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }
}

/// On all cores.
impl Retrieve for Retriever {
    fn retrieve(&self, queries: &[String], top_k: usize) -> Result<Vec<Vec<Ranked>>> {
        let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
        self.retrieve_texts(&texts, &SearchParams::top(top_k))
    }

    fn passage(&self, id: &str) -> Result<Option<Passage>> {
        self.corpus.row_of(id)?.map(|row| self.corpus.get(row)).transpose()
    }
}
