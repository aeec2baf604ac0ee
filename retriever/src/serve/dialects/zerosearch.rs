//! ZeroSearch's local search: a bare list, whose `text` is all that the model sees, so it has the title, too.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, count, list, object};
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

pub(super) const DIALECT: Dialect = Dialect {
    name: "zerosearch",
    clients: "ZeroSearch",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for one query, as a bare list",
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
    let top_k = fields.count("top_k");
    fields.finish()?;
    let render = |rankings: Vec<Vec<crate::Ranked>>| {
        let hits = rankings.into_iter().flatten();
        let entry = |hit: crate::Ranked| json!({ "id": hit.passage.id, "text": hit.passage.contents(), "contents": hit.passage.contents(), "score": hit.score });
        Answer::Json(hits.map(entry).collect())
    };
    Ok(Work::Search { queries: vec![query], top_k: setup.wanted(top_k), render: Box::new(render) })
}

fn request() -> Value {
    object(json!({ "query": { "type": "string" }, "top_k": count("Documents") }), &["query"])
}

fn response() -> Value {
    let text = json!({ "type": "string" });
    let entry = json!({ "id": text, "text": text, "contents": text, "score": { "type": "number" } });
    list(object(entry, &["id", "text", "contents", "score"]))
}
