//! `/retrieve` of the default listener: the dialects that their bodies tell apart.

use serde_json::{Value, json};

use super::{Operation, Setup, Verb, Work, gem, rerank, rllm, search_r1, skyrl};
use crate::serve::fault::{Code, Fault, Style};
use crate::serve::incoming::Incoming;

/// Names a dialect that the body does not tell.
pub(in crate::serve) const HEADER: &str = "x-retrieval-dialect";

pub(in crate::serve) const UNION: Operation = Operation {
    verb: Verb::Post,
    path: "/retrieve",
    summary: "Ranked documents in the dialect that the body is in, or that the header `X-Retrieval-Dialect` names",
    style: Style::FastApi,
    on_default: true,
    request,
    response,
    read,
};

/// The names of the dialects that have this route.
pub(in crate::serve) fn on_retrieve() -> Vec<&'static str> {
    let with = super::DIALECTS.iter().filter(|dialect| dialect.operations.iter().any(|op| op.path == UNION.path));
    with.map(|dialect| dialect.name).collect()
}

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    if let Some(name) = incoming.headers.get(HEADER) {
        let name = name.to_str().unwrap_or_default().to_ascii_lowercase();
        let known =
            super::dialect(&name).and_then(|dialect| dialect.operations.iter().find(|op| op.path == UNION.path));
        let unknown = || {
            let names = on_retrieve();
            Fault::new(
                Code::InvalidInput,
                format!("header `{HEADER}`: expected one of {}, found {name:?}", names.join(", ")),
            )
        };
        return (known.ok_or_else(unknown)?.read)(incoming, setup);
    }
    if incoming.is_msgpack() {
        return gem::read(incoming, setup);
    }
    let body = incoming.json()?;
    let has = |name: &str| body.get(name).is_some();
    match () {
        () if has("queries") && (has("topk_retrieval") || has("topk_rerank")) => rerank::read_body(&body, setup),
        () if has("queries") => search_r1::read_body(&body, setup),
        () if has("query") && !has("topk") && !has("return_scores") && (has("top_k") || has("k")) => {
            rllm::read_body(&body, setup)
        }
        () if has("query") => skyrl::read_body(&body, setup),
        () => search_r1::read_body(&body, setup),
    }
}

fn request() -> Value {
    json!({ "anyOf": [search_r1::request(), skyrl::request(), rllm::request(), rerank::request()] })
}

/// As the header may name any of them, so may the answer be of any.
fn response() -> Value {
    let all = super::DIALECTS.iter().flat_map(|dialect| dialect.operations).filter(|op| op.path == UNION.path);
    json!({ "anyOf": all.map(|op| (op.response)()).collect::<Vec<_>>() })
}
