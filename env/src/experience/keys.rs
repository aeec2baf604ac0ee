//! How near is a question to a piece of experience? Titles, questions and queries become vectors in one and the same way.

use std::sync::Arc;

use hindsearch_indexes::Vectors;
use hindsearch_retriever::embed::{Embedder, InputKind};

use crate::{Error, Result};

/// Texts embedded at a time.
const WINDOW: usize = 1024;

type Embed = dyn Fn(&[&str]) -> Result<Vectors> + Send + Sync;

/// Texts to unit vectors, by a function or a model. A clone is the same.
#[derive(Clone)]
pub struct KeyEmbedder {
    identity: String,
    embed: Arc<Embed>,
}

impl KeyEmbedder {
    /// A function; `identity` changes whenever the vectors do.
    pub fn new(
        identity: impl Into<String>,
        embed: impl Fn(&[&str]) -> Result<Vectors> + Send + Sync + 'static,
    ) -> Self {
        Self { identity: identity.into(), embed: Arc::new(embed) }
    }

    /// A model. Both sides are embedded as it wants queries, so that equal texts have the cosine 1.
    pub fn of(embedder: Arc<Embedder>) -> Self {
        let graph = &embedder.fingerprint().queries.blake3;
        let identity = format!("{} {}", embedder.card().id, &graph[..graph.len().min(16)]);
        Self::new(identity, move |texts| {
            let mut values = Vec::with_capacity(texts.len() * embedder.dimensions());
            for window in texts.chunks(WINDOW) {
                values.extend_from_slice(embedder.embed(window, InputKind::Query)?.as_slice());
            }
            Ok(Vectors::new(embedder.dimensions(), values).map_err(hindsearch_retriever::Error::from)?)
        })
    }

    /// Which vectors these are. Thresholds hold for one identity alone.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The vectors of the texts, in their order, of length 1.
    ///
    /// # Errors
    /// Those of the model; [`Error::InvalidInput`] for vectors that have no direction, or fewer than texts.
    pub fn embed(&self, texts: &[&str]) -> Result<Vectors> {
        let vectors = (self.embed)(texts)?;
        let refuse = |expected: &str, found: String| {
            Err(Error::invalid(format!("vectors of `{}`", self.identity), expected, found))
        };
        if vectors.len() != texts.len() {
            return refuse("one a text", format!("{} for {} texts", vectors.len(), texts.len()));
        }
        let mut values = Vec::with_capacity(vectors.as_slice().len());
        for row in vectors.rows() {
            let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            if !norm.is_finite() || norm < 1e-12 {
                return refuse("a direction", format!("a vector of length {norm}"));
            }
            values.extend(row.iter().map(|&x| (f64::from(x) / norm) as f32));
        }
        Ok(Vectors::new(vectors.dimensions(), values).map_err(hindsearch_retriever::Error::from)?)
    }
}

/// The cosine of two unit vectors.
pub(super) fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}
