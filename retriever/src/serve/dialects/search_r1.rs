//! Search-R1's server, and the many that copied it. Without scores a ranking is a list of bare documents, for any number
//! of queries.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, count, list, object};
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

pub(super) const DIALECT: Dialect = Dialect {
    name: "search_r1",
    clients: "Search-R1, AutoRefine, StepSearch, verl, verl-tool, slime",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for each of many queries",
        style: Style::FastApi,
        on_default: false,
        request,
        response,
        read,
    }],
};

pub(super) fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    read_body(&incoming.json()?, setup)
}

pub(super) fn read_body(body: &Value, setup: &Setup) -> Result<Work, Fault> {
    let mut fields = Fields::of(body, setup.limits)?;
    let queries = fields.queries("queries");
    let top_k = fields.count("topk");
    let scores = fields.flag("return_scores", false);
    fields.finish()?;
    let documents = setup.documents;
    let render = move |rankings: Vec<_>| Answer::Json(json!({ "result": documents.rankings(&rankings, scores) }));
    Ok(Work::Search { queries, top_k: setup.wanted(top_k), render: Box::new(render) })
}

pub(super) fn request() -> Value {
    object(
        json!({
            "queries": { "type": "array", "items": { "type": "string" }, "maxItems": 4096 },
            "topk": count("Documents"),
            "return_scores": { "type": "boolean", "default": false },
        }),
        &["queries"],
    )
}

/// The schema of a document.
pub(super) fn document() -> Value {
    let text = json!({ "type": "string" });
    object(
        json!({ "id": text, "contents": text, "title": text, "text": text, "url": text }),
        &["id", "contents", "text"],
    )
}

/// The schema of a document with its score, or of a bare one.
pub(super) fn entry() -> Value {
    let scored = object(json!({ "document": document(), "score": { "type": "number" } }), &["document", "score"]);
    json!({ "anyOf": [scored, document()] })
}

fn response() -> Value {
    object(json!({ "result": list(list(entry())) }), &["result"])
}
