//! Which bits made these vectors? Saved with an index, so that a changed model is noticed.

use std::fmt;
use std::path::Path;

use hindsearch_indexes::{Access, MappedFile};
use serde::{Deserialize, Serialize};

use super::card::InputKind;
use super::graph::Precision;
use super::model_dir::Graph;
use crate::Result;

/// The runtime that executes a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// ONNX Runtime, a shared library loaded at start.
    #[default]
    Onnx,
    /// rten, in pure Rust; needs the feature `rten`.
    Rten,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Onnx => "onnx",
            Self::Rten => "rten",
        })
    }
}

/// The files, the runtime and the processor behind an embedder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// BLAKE3 of `tokenizer.json`, in hex.
    pub tokenizer: String,
    /// The runtime.
    pub backend: Backend,
    /// The graph that embeds passages.
    pub passages: GraphFingerprint,
    /// The graph that embeds queries.
    pub queries: GraphFingerprint,
}

/// One graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFingerprint {
    /// The file as seen from the model folder: `onnx/model.onnx`.
    pub file: String,
    /// How it keeps its weights.
    pub precision: Precision,
    /// BLAKE3 of the file, and of the weight files beside it in the order of their names, in hex.
    pub blake3: String,
    /// The class of the processor, where results depend on it: integer products are rounded differently with and
    /// without instructions for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

impl Fingerprint {
    /// The graph that embeds texts of this kind.
    pub fn graph(&self, kind: InputKind) -> &GraphFingerprint {
        match kind {
            InputKind::Query => &self.queries,
            InputKind::Passage => &self.passages,
        }
    }
}

impl GraphFingerprint {
    pub(super) fn of(graph: &Graph) -> Result<Self> {
        let files = std::iter::once(&graph.path).chain(&graph.facts.external);
        Ok(Self {
            file: graph.name.clone(),
            precision: graph.facts.precision,
            blake3: hash(files.map(|path| path.as_path()))?,
            processor: graph.facts.integer_products.then(processor_class),
        })
    }
}

/// BLAKE3 of the files one after the other, in hex.
pub(super) fn hash<'a>(files: impl Iterator<Item = &'a Path>) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for path in files {
        hasher.update(MappedFile::open(path, Access::Sequential)?.as_ref());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The architecture, and `vnni` or `dotprod` where the processor multiplies 8-bit integers directly.
pub fn processor_class() -> String {
    #[cfg(target_arch = "x86_64")]
    let (direct, name) = (is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni"), "vnni");
    #[cfg(target_arch = "aarch64")]
    let (direct, name) = (std::arch::is_aarch64_feature_detected!("dotprod"), "dotprod");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let (direct, name) = (false, "");
    if direct { format!("{}+{name}", std::env::consts::ARCH) } else { std::env::consts::ARCH.to_owned() }
}
