//! Where are the model's files? Finds the tokenizer and the graph of the wanted precision in a model folder laid out
//! as on the Hugging Face hub.

use std::path::{Path, PathBuf};

use super::graph::{self, GraphFacts, Precision};
use crate::{Error, Result};

/// The names that exporters give to graphs and the precision that each promises, best first. A name is only a hint:
/// what counts is the precision found inside.
pub(super) const GRAPH_NAMES: [(&str, Precision); 10] = [
    ("model.onnx", Precision::Fp32),
    ("model_fp16.onnx", Precision::Fp16),
    ("model_int8_static.onnx", Precision::Int8),
    ("model_int8.onnx", Precision::Int8),
    ("model_quantized.onnx", Precision::Int8),
    ("model_qint8_avx512_vnni.onnx", Precision::Int8),
    ("model_qint8_avx512.onnx", Precision::Int8),
    ("model_qint8_arm64.onnx", Precision::Int8),
    ("model_quint8_avx2.onnx", Precision::Int8),
    ("model_uint8.onnx", Precision::Int8),
];

/// The folders that hold graphs, below the model folder.
pub(super) const GRAPH_FOLDERS: [&str; 2] = ["onnx/", ""];

/// The names of [`GRAPH_NAMES`] with their folders, those that promise `wanted` first.
pub(super) fn graph_names(wanted: Option<Precision>) -> Vec<String> {
    let (first, rest): (Vec<_>, Vec<_>) =
        GRAPH_NAMES.iter().partition(|(_, hint)| wanted.is_none_or(|wanted| wanted == *hint));
    let names = first.into_iter().chain(rest).map(|(name, _)| name);
    names.flat_map(|name| GRAPH_FOLDERS.map(|folder| format!("{folder}{name}"))).collect()
}

/// A model folder with a tokenizer in it.
#[derive(Debug, Clone)]
pub struct ModelDir {
    path: PathBuf,
    tokenizer: PathBuf,
}

/// One graph of a model folder.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The file.
    pub path: PathBuf,
    /// The file as seen from the model folder: `onnx/model.onnx`.
    pub name: String,
    /// What is in it.
    pub facts: GraphFacts,
}

impl ModelDir {
    /// Checks that `path` is a model folder: a tokenizer and at least one graph under a known name.
    ///
    /// # Errors
    /// [`Error::NotFound`] or [`Error::File`] naming what was looked for and what is there instead.
    pub fn open(path: &Path) -> Result<Self> {
        let remedy = "give a model folder with `tokenizer.json` and `onnx/model.onnx`, or a hub id such as `intfloat/e5-base-v2`";
        if !path.exists() {
            return Err(Error::NotFound { what: format!("model folder `{}`", path.display()), remedy: remedy.into() });
        }
        let wrong = |found: String| {
            Error::File {
            path: path.into(),
            expected: "a model folder with `tokenizer.json` and an ONNX graph (`onnx/model.onnx`, `model.onnx`, `onnx/model_int8.onnx`, `onnx/model_quantized.onnx`, `onnx/model_fp16.onnx`)".into(),
            found,
            remedy: remedy.into(),
        }
        };
        if !path.is_dir() {
            return Err(wrong("a file".into()));
        }
        let tokenizer = ["tokenizer.json", "onnx/tokenizer.json"]
            .map(|name| path.join(name))
            .into_iter()
            .find(|file| file.is_file());
        let has_graph = graph_names(None).iter().any(|name| path.join(name).is_file());
        match (tokenizer, has_graph) {
            (Some(tokenizer), true) => Ok(Self { path: path.into(), tokenizer }),
            (Some(_), false) => Err(wrong(format!("`tokenizer.json` without a graph, among {}", contents(path)))),
            (None, true) => Err(wrong(format!("a graph without `tokenizer.json`, among {}", contents(path)))),
            (None, false) => Err(wrong(contents(path))),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file `tokenizer.json`.
    pub fn tokenizer(&self) -> &Path {
        &self.tokenizer
    }

    /// The graph with weights of `wanted` precision; without a wish the most precise one.
    ///
    /// # Errors
    /// [`Error::NotFound`] listing the graphs that are there; [`Error::File`] for a damaged one.
    pub fn graph(&self, wanted: Option<Precision>) -> Result<Graph> {
        let mut seen = Vec::new();
        for name in graph_names(wanted) {
            let path = self.path.join(&name);
            if !path.is_file() {
                continue;
            }
            let facts = graph::inspect(&path)?;
            if wanted.is_none_or(|wanted| wanted == facts.precision) {
                return Ok(Graph { path, name, facts });
            }
            seen.push(format!("`{name}` ({})", facts.precision));
        }
        Err(Error::NotFound {
            what: format!(
                "a graph of precision {} in `{}`",
                wanted.map_or("any".into(), |p| p.to_string()),
                self.path.display()
            ),
            remedy: format!(
                "there are {}; choose one of those, or add `onnx/{}`",
                seen.join(", "),
                GRAPH_NAMES.iter().find(|(_, p)| Some(*p) == wanted).map_or("model.onnx", |(name, _)| name)
            ),
        })
    }
}

/// What a folder holds, for messages.
fn contents(path: &Path) -> String {
    const SHOWN: usize = 8;
    let Ok(entries) = std::fs::read_dir(path) else { return "a folder that cannot be read".into() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| format!("`{}`", entry.file_name().to_string_lossy())).collect();
    names.sort();
    match names.len() {
        0 => "an empty folder".into(),
        1..=SHOWN => names.join(", "),
        more => format!("{} and {} more", names[..SHOWN].join(", "), more - SHOWN),
    }
}
