//! What an index was built from, kept in its manifest: the corpus, the model and the settings.

use std::path::Path;

use hindsearch_indexes::{Generation, Manifest};
use serde::{Deserialize, Serialize};

use crate::corpus::CorpusSummary;
use crate::embed::{CardOverrides, EmbedOptions, Embedder, Fingerprint, ModelCard, ModelSource, Precision};
use crate::{Error, Result};

/// Where a passage, a vector and a score come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The corpus.
    pub corpus: CorpusSummary,
    /// The input files, in order.
    pub inputs: Vec<String>,
    /// The model.
    pub model: ModelRecord,
    /// What the build measured before it accepted an int8 graph for passages; nothing where the model has no fp32 graph to
    /// measure against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<super::Gate>,
    /// Where the vectors come from, if not from the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<super::Imported>,
    /// Passages that were longer than the model takes: their ends are not in their vectors.
    pub truncated: u64,
    /// The resolved settings.
    pub settings: serde_json::Value,
}

/// The model as the index knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Where it was found: `default`, an absolute folder, or a hub id.
    pub source: String,
    /// How texts are prepared and pooled.
    pub card: ModelCard,
    /// The tokenizer, the graphs and the runtime.
    pub fingerprint: Fingerprint,
}

impl ModelRecord {
    /// What `embedder`, opened from `source`, is.
    pub fn new(source: &ModelSource, embedder: &Embedder) -> Self {
        Self {
            source: source.absolute().to_string(),
            card: embedder.card().clone(),
            fingerprint: embedder.fingerprint().clone(),
        }
    }

    /// Options that open the same model for queries alone; what `wishes` asks for wins.
    pub fn for_queries(&self, wishes: EmbedOptions) -> EmbedOptions {
        let precision = wishes.query_precision.unwrap_or(self.fingerprint.queries.precision);
        // Only queries are embedded, so the passages' graph need not be loaded.
        self.with_precisions(wishes, precision, precision)
    }

    /// Options that open the same model for passages as well, to embed more of them as the others were.
    pub fn for_passages(&self, wishes: EmbedOptions) -> EmbedOptions {
        let Fingerprint { queries, passages, backend, .. } = &self.fingerprint;
        self.with_precisions(EmbedOptions { backend: *backend, ..wishes }, queries.precision, passages.precision)
    }

    fn with_precisions(&self, wishes: EmbedOptions, queries: Precision, passages: Precision) -> EmbedOptions {
        let (card, asked) = (&self.card, wishes.card);
        EmbedOptions {
            query_precision: Some(queries),
            passage_precision: Some(passages),
            card: CardOverrides {
                id: asked.id.or_else(|| Some(card.id.clone())),
                pooling: asked.pooling.or(Some(card.pooling)),
                normalize: asked.normalize.or(Some(card.normalize)),
                query_prefix: asked.query_prefix.or_else(|| Some(card.query_prefix.clone())),
                passage_prefix: asked.passage_prefix.or_else(|| Some(card.passage_prefix.clone())),
                max_length: asked.max_length.or(Some(card.max_length)),
            },
            ..wishes
        }
    }
}

const KEY: &str = "provenance";

impl Provenance {
    /// Reads it from a generation's manifest.
    ///
    /// # Errors
    /// [`Error::Incompatible`] when the manifest has none or one of another form, as when the index was written by
    /// another program over the index crate.
    pub fn of(generation: &Generation) -> Result<Self> {
        let value = generation.manifest().attributes.get(KEY).cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|error| Error::Incompatible {
            what: format!("`{}`", generation.path().join("manifest.json").display()),
            expected: "a description of corpus and model".into(),
            found: error.to_string(),
            remedy: "build the index again with `hindsearch build`".into(),
        })
    }

    /// Opens the index's model, at `source` where that is given: for queries alone.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there, [`Error::Incompatible`] where another is.
    pub fn open_model(&self, root: &Path, source: Option<ModelSource>, wishes: EmbedOptions) -> Result<Embedder> {
        let source = source.unwrap_or_else(|| ModelSource::parse(&self.model.source));
        let embedder = Embedder::open(&source, self.model.for_queries(wishes))
            .map_err(|error| self.explain(root, &source, error))?;
        self.check_model(root, &embedder)?;
        Ok(embedder)
    }

    /// Said of a model alone, nobody would know why that one was looked for.
    pub(super) fn explain(&self, root: &Path, source: &ModelSource, error: Error) -> Error {
        match error {
            Error::NotFound { .. } => Error::NotFound {
                what: format!(
                    "the model of index `{}`, {} in `{source}`: {error};",
                    root.display(),
                    self.model.card.id
                ),
                remedy: "it must be the one that the index was built with: name its folder with `--model`".into(),
            },
            other => other,
        }
    }

    /// Writes it into a manifest.
    pub fn put(&self, manifest: &mut Manifest) {
        let value = serde_json::to_value(self).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        manifest.attributes.insert(KEY.into(), value);
    }

    /// Refuses a model whose vectors cannot be compared with those of the index.
    ///
    /// # Errors
    /// [`Error::Incompatible`] with both fingerprints.
    pub fn check_model(&self, root: &Path, embedder: &Embedder) -> Result<()> {
        let differs = |what: &str, expected: String, found: String| self.differs(root, what, expected, found);
        let (card, other) = (&self.model.card, embedder.card());
        differs("dimensions", card.dimensions.to_string(), other.dimensions.to_string())?;
        differs("normalisation", card.normalize.to_string(), other.normalize.to_string())?;
        differs("pooling", format!("{:?}", card.pooling), format!("{:?}", other.pooling))?;
        differs("query prefix", format!("{:?}", card.query_prefix), format!("{:?}", other.query_prefix))?;
        differs("passage prefix", format!("{:?}", card.passage_prefix), format!("{:?}", other.passage_prefix))?;
        let (built, found) = (&self.model.fingerprint, embedder.fingerprint());
        differs("tokenizer", built.tokenizer.clone(), found.tokenizer.clone())?;
        differs("query graph", built.queries.blake3.clone(), found.queries.blake3.clone())
    }

    /// Refuses a model that would make other vectors of passages than the index has.
    ///
    /// # Errors
    /// [`Error::Incompatible`] with both fingerprints.
    pub fn check_passage_model(&self, root: &Path, embedder: &Embedder) -> Result<()> {
        self.check_model(root, embedder)?;
        let (card, other) = (&self.model.card, embedder.card());
        self.differs(root, "tokens", card.max_length.to_string(), other.max_length.to_string())?;
        let (built, found) = (&self.model.fingerprint, embedder.fingerprint());
        self.differs(root, "passage graph", built.passages.blake3.clone(), found.passages.blake3.clone())
    }

    fn differs(&self, root: &Path, what: &str, expected: String, found: String) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Error::Incompatible {
            what: format!(
                "{what} of the model for index `{}`, which was built with {}",
                root.display(),
                self.model.card.id
            ),
            expected,
            found,
            remedy: "name the model that the index was built with (`--model`), or build the index again".into(),
        })
    }
}
