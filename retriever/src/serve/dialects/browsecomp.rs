//! The server of BrowseComp-Plus's Search-R1 client: only a query, and five documents.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, list, object};
use crate::Ranked;
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

/// As many as that server gives unless it is started otherwise.
const TOP_K: usize = 5;

pub(super) const DIALECT: Dialect = Dialect {
    name: "browsecomp",
    clients: "BrowseComp-Plus",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "The five best documents for a query",
        style: Style::FastApi,
        on_default: false,
        request,
        response,
        read,
    }],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let query = fields.query("query");
    fields.finish()?;
    let render = |rankings: Vec<Vec<Ranked>>| {
        let entry = |hit: Ranked| {
            let document = json!({ "title": hit.passage.display_title(), "text": hit.passage.text });
            json!({ "document": document, "docid": hit.passage.id, "score": hit.score })
        };
        Answer::Json(json!({ "result": rankings.into_iter().flatten().map(entry).collect::<Vec<_>>() }))
    };
    Ok(Work::Search { queries: vec![query], top_k: TOP_K, render: Box::new(render) })
}

fn request() -> Value {
    object(json!({ "query": { "type": "string" } }), &["query"])
}

fn response() -> Value {
    let document = object(json!({ "title": { "type": "string" }, "text": { "type": "string" } }), &["title", "text"]);
    list_of(object(
        json!({ "document": document, "docid": { "type": "string" }, "score": { "type": "number" } }),
        &["document", "docid", "score"],
    ))
}

fn list_of(entry: Value) -> Value {
    object(json!({ "result": list(entry) }), &["result"])
}
