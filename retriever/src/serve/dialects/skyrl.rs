//! SkyRL-gym's server: one query, and a list with its one ranking.

use serde_json::{Value, json};

use super::search_r1::entry;
use super::{Answer, Dialect, Operation, Setup, Verb, Work, count, list, object};
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

pub(super) const DIALECT: Dialect = Dialect {
    name: "skyrl",
    clients: "SkyRL-gym",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for one query",
        style: Style::FastApi,
        on_default: false,
        request,
        response,
        read,
    }],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    read_body(&incoming.json()?, setup)
}

pub(super) fn read_body(body: &Value, setup: &Setup) -> Result<Work, Fault> {
    let mut fields = Fields::of(body, setup.limits)?;
    let query = fields.query("query");
    let top_k = fields.count("topk");
    let scores = fields.flag("return_scores", false);
    fields.finish()?;
    let documents = setup.documents;
    let render = move |rankings: Vec<_>| Answer::Json(json!({ "result": documents.rankings(&rankings, scores) }));
    Ok(Work::Search { queries: vec![query], top_k: setup.wanted(top_k), render: Box::new(render) })
}

pub(super) fn request() -> Value {
    object(
        json!({
            "query": { "type": "string" },
            "topk": count("Documents"),
            "return_scores": { "type": "boolean", "default": false },
        }),
        &["query"],
    )
}

fn response() -> Value {
    let one = json!({ "type": "array", "items": list(entry()), "minItems": 1, "maxItems": 1 });
    object(json!({ "result": one }), &["result"])
}
