//! The protocols of other servers, so that their clients need no change.
//!
//! A dialect is two pure functions: what a request asks for, and how the passages found are written down. Those with a
//! body that tells them apart share the default listener; each is also at `/dialect/NAME/...`, by the header
//! `X-Retrieval-Dialect`, and on a port of its own.
//!
//! | dialect | whose clients |
//! |---|---|
//! | `search_r1` | Search-R1, AutoRefine, StepSearch, verl, verl-tool; slime and ASearcher without scores |
//! | `skyrl` | SkyRL-gym |
//! | `gem` | GEM, ROLL |
//! | `rllm`, `rllm_documents` | rLLM, now and before |
//! | `zerosearch` | ZeroSearch |
//! | `asearcher` | ASearcher |
//! | `browsecomp` | BrowseComp-Plus |
//! | `research` | ReSearch, ReCall, FlashRAG's server |
//! | `r1_searcher` | R1-Searcher |
//! | `rerank` | Search-R1's servers that rerank |
//! | `pyserini` | Pyserini |

mod asearcher;
mod browsecomp;
mod document;
mod gem;
mod pyserini;
mod r1_searcher;
mod rerank;
mod research;
mod rllm;
mod search_r1;
mod skyrl;
mod union;
mod zerosearch;

use serde_json::Value;

use super::fault::{Fault, Style};
use super::incoming::Incoming;
use super::options::Limits;
use crate::Ranked;
pub(super) use document::{Documents, URN, title_of};
pub(super) use union::{HEADER, UNION, on_retrieve};

/// All dialects: the router, the description of the interface and the tests go by this table.
pub const DIALECTS: [&Dialect; 12] = [
    &search_r1::DIALECT,
    &skyrl::DIALECT,
    &gem::DIALECT,
    &rllm::DIALECT,
    &rllm::DOCUMENTS,
    &zerosearch::DIALECT,
    &asearcher::DIALECT,
    &browsecomp::DIALECT,
    &research::DIALECT,
    &r1_searcher::DIALECT,
    &rerank::DIALECT,
    &pyserini::DIALECT,
];

/// The dialect of this name.
pub fn dialect(name: &str) -> Option<&'static Dialect> {
    DIALECTS.into_iter().find(|dialect| dialect.name == name)
}

/// A protocol.
#[derive(Debug)]
pub struct Dialect {
    /// As in `--listen 6002=zerosearch`.
    pub name: &'static str,
    /// Whose clients speak it.
    pub clients: &'static str,
    /// Its routes.
    pub operations: &'static [Operation],
}

/// A route of a dialect.
#[derive(Debug)]
pub struct Operation {
    /// Its method.
    pub verb: Verb,
    /// Its path, as axum writes it.
    pub path: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// How it words errors.
    pub style: Style,
    /// Whether the default listener has it at this path. `/retrieve` goes by the body there.
    pub on_default: bool,
    /// The schema of the body, or of the parameters for GET.
    pub request: fn() -> Value,
    /// The schema of the answer.
    pub response: fn() -> Value,
    /// What a request asks for.
    pub(super) read: fn(&Incoming, &Setup) -> Result<Work, Fault>,
}

/// The methods that dialects use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET.
    Get,
    /// POST.
    Post,
}

/// What a dialect must know of the server.
pub(super) struct Setup<'a> {
    /// Passages for a request that names no number.
    pub top_k: usize,
    pub limits: &'a Limits,
    /// How passages become documents.
    pub documents: Documents,
}

impl Setup<'_> {
    /// 0 and nothing both mean the server's number, in the Search-R1 family.
    fn wanted(&self, top_k: Option<usize>) -> usize {
        top_k.filter(|top_k| *top_k > 0).unwrap_or(self.top_k)
    }
}

/// By address, the passages of the page that is there.
pub(super) type Pages = Vec<Option<Vec<Ranked>>>;

/// Writes down what was found.
pub(super) type Render<T> = Box<dyn FnOnce(T) -> Answer + Send>;

/// What a request asks for.
pub(super) enum Work {
    /// Passages for queries.
    Search { queries: Vec<String>, top_k: usize, render: Render<Vec<Vec<Ranked>>> },
    /// Whole pages, by address.
    Pages { urls: Vec<String>, render: Render<Pages> },
    /// Scores of texts for queries: each query with its own texts.
    Rerank { queries: Vec<String>, texts: Vec<Vec<String>>, render: Render<Vec<Vec<f32>>> },
    /// The passage of an id.
    Passage { id: String, render: Box<dyn FnOnce(Option<Ranked>) -> Result<Answer, Fault> + Send> },
    /// Nothing.
    Done(Answer),
}

/// An answer's body.
pub(super) enum Answer {
    Json(Value),
    Msgpack(Value),
}

/// A schema of an object with these properties, of which `required` must be there.
fn object(properties: Value, required: &[&str]) -> Value {
    serde_json::json!({ "type": "object", "properties": properties, "required": required })
}

/// A schema of a list.
fn list(items: Value) -> Value {
    serde_json::json!({ "type": "array", "items": items })
}

/// A schema of a number of passages that may be left out.
fn count(name: &str) -> Value {
    serde_json::json!({
        "type": ["integer", "null"], "minimum": 0, "maximum": Limits::default().top_k,
        "description": format!("{name} wanted; null and 0 take the server's number"),
    })
}
