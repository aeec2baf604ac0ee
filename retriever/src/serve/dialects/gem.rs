//! The server of GEM and ROLL: MessagePack in and out, which the client's headers do not say.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, list, object};
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

pub(super) const DIALECT: Dialect = Dialect {
    name: "gem",
    clients: "GEM, ROLL",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for one query, in MessagePack",
        style: Style::Msgpack,
        on_default: false,
        request: super::skyrl::request,
        response,
        read,
    }],
};

pub(super) fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.msgpack()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let query = fields.query("query");
    let top_k = fields.count("topk");
    let scores = fields.flag("return_scores", false);
    fields.finish()?;
    let documents = setup.documents;
    let render = move |rankings: Vec<Vec<_>>| {
        let ranking = rankings.into_iter().flatten();
        let entry = |hit| json!({ "document": documents.of(&hit), "score": scores.then_some(hit.score) });
        Answer::Msgpack(json!({ "result": ranking.map(entry).collect::<Vec<_>>() }))
    };
    Ok(Work::Search { queries: vec![query], top_k: setup.wanted(top_k), render: Box::new(render) })
}

fn response() -> Value {
    let score = json!({ "type": ["number", "null"] });
    let entry = object(json!({ "document": super::search_r1::document(), "score": score }), &["document", "score"]);
    object(json!({ "result": list(entry) }), &["result"])
}
