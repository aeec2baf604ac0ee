//! The server of ReSearch and ReCall, from FlashRAG: here 0 documents means none.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, list, object};
use crate::Ranked;
use crate::serve::fault::{Code, Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

/// Documents for a request that names no number.
const TOP_N: usize = 10;

pub(super) const DIALECT: Dialect = Dialect {
    name: "research",
    clients: "ReSearch, ReCall, FlashRAG",
    operations: &[
        Operation {
            verb: Verb::Post,
            path: "/search",
            summary: "Ranked documents for one query",
            style: Style::FastApi,
            on_default: true,
            request: request_one,
            response: response_one,
            read: read_one,
        },
        Operation {
            verb: Verb::Post,
            path: "/batch_search",
            summary: "Ranked documents for each of many queries",
            style: Style::FastApi,
            on_default: true,
            request: request_many,
            response: response_many,
            read: read_many,
        },
    ],
};

fn read_one(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let query = fields.query("query");
    let (top_k, scored) = options(&mut fields);
    fields.finish()?;
    if query.trim().is_empty() {
        return Err(Fault::new(Code::Malformed, "Query content cannot be empty"));
    }
    let render = move |mut rankings: Vec<Vec<Ranked>>| {
        let hits = rankings.pop().unwrap_or_default();
        Answer::Json(if scored { json!([documents(&hits), scores(&hits)]) } else { documents(&hits) })
    };
    Ok(Work::Search { queries: vec![query], top_k, render: Box::new(render) })
}

fn read_many(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let queries = fields.queries("query");
    let (top_k, scored) = options(&mut fields);
    fields.finish()?;
    let render = move |rankings: Vec<Vec<Ranked>>| {
        let all: Value = rankings.iter().map(|hits| documents(hits)).collect();
        let numbers = || rankings.iter().map(|hits| scores(hits)).collect::<Value>();
        Answer::Json(if scored { json!([all, numbers()]) } else { all })
    };
    Ok(Work::Search { queries, top_k, render: Box::new(render) })
}

fn options(fields: &mut Fields) -> (usize, bool) {
    (fields.count("top_n").unwrap_or(TOP_N), fields.flag("return_score", false))
}

fn documents(hits: &[Ranked]) -> Value {
    hits.iter().map(|hit| json!({ "id": hit.passage.id, "contents": hit.passage.contents() })).collect()
}

fn scores(hits: &[Ranked]) -> Value {
    hits.iter().map(|hit| json!(hit.score)).collect()
}

fn request(query: Value) -> Value {
    let top_n = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": 1000, "default": TOP_N });
    object(
        json!({ "query": query, "top_n": top_n, "return_score": { "type": "boolean", "default": false } }),
        &["query"],
    )
}

fn request_one() -> Value {
    request(json!({ "type": "string", "pattern": r"\S", "description": "Not blank" }))
}

fn request_many() -> Value {
    request(json!({ "type": "array", "items": { "type": "string" }, "maxItems": 4096 }))
}

fn document() -> Value {
    object(json!({ "id": { "type": "string" }, "contents": { "type": "string" } }), &["id", "contents"])
}

/// Documents, or a pair of documents and scores.
fn response(documents: Value, scores: Value) -> Value {
    let pair = json!({ "type": "array", "items": { "anyOf": [documents, scores] }, "minItems": 2, "maxItems": 2 });
    json!({ "anyOf": [documents, pair] })
}

fn response_one() -> Value {
    response(list(document()), list(json!({ "type": "number" })))
}

fn response_many() -> Value {
    response(list(list(document())), list(list(json!({ "type": "number" }))))
}
