//! rLLM's deep-research server, and the one of its older example, which speaks a small union itself.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, count, list, object};
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

const METHOD: &str = "dense";
/// Documents for a request that names no number, in the current one.
const TOP_K: usize = 10;

pub(super) const DIALECT: Dialect = Dialect {
    name: "rllm",
    clients: "rLLM",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for one query, each with its content",
        style: Style::FastApi,
        on_default: false,
        request,
        response,
        read,
    }],
};

pub(super) const DOCUMENTS: Dialect = Dialect {
    name: "rllm_documents",
    clients: "rLLM's older example",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/retrieve",
        summary: "Ranked documents for one query or for many",
        style: Style::FastApi,
        on_default: false,
        request: request_documents,
        response: response_documents,
        read: read_documents,
    }],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    read_body(&incoming.json()?, setup)
}

pub(super) fn read_body(body: &Value, setup: &Setup) -> Result<Work, Fault> {
    let mut fields = Fields::of(body, setup.limits)?;
    let query = fields.query("query");
    let top_k = fields.count("top_k");
    let wins = fields.count("k");
    fields.finish()?;
    let (documents, shown) = (setup.documents, query.clone());
    let render = move |rankings: Vec<Vec<_>>| {
        let hits = rankings.into_iter().flatten().zip(1..);
        let result =
            |(hit, rank)| json!({ "id": format!("doc_{rank}"), "content": documents.of(&hit), "score": hit.score });
        let results: Vec<Value> = hits.map(result).collect();
        Answer::Json(json!({ "query": shown, "method": METHOD, "num_results": results.len(), "results": results }))
    };
    Ok(Work::Search {
        queries: vec![query],
        top_k: wins.or(top_k).filter(|k| *k > 0).unwrap_or(TOP_K),
        render: Box::new(render),
    })
}

/// What is missing is told with status 200 there, and so it is here.
fn read_documents(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let told = |message: &str| Ok(Work::Done(Answer::Json(json!({ "error": message }))));
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let many = fields.has("queries");
    let queries = match (many, fields.has("query")) {
        (true, _) => fields.queries("queries"),
        (false, true) => vec![fields.query("query")],
        (false, false) => return told("Missing 'query' or 'queries' in request"),
    };
    let wanted = ["topk", "top_k", "k"].map(|name| fields.count(name));
    fields.finish()?;
    if queries.is_empty() {
        return told("'queries' list cannot be empty");
    }
    let (documents, shown) = (setup.documents, queries[0].clone());
    let render = move |rankings: Vec<Vec<_>>| {
        if many {
            let result = documents.rankings(&rankings, true);
            return Answer::Json(json!({ "method": METHOD, "batch_size": rankings.len(), "result": result }));
        }
        let hits: Vec<_> = rankings.into_iter().flatten().collect();
        let results = documents.ranking(&hits, true);
        Answer::Json(json!({ "query": shown, "method": METHOD, "num_results": hits.len(), "results": results }))
    };
    let top_k = wanted.into_iter().flatten().find(|wanted| *wanted > 0);
    Ok(Work::Search { queries, top_k: setup.wanted(top_k), render: Box::new(render) })
}

pub(super) fn request() -> Value {
    let fields =
        json!({ "query": { "type": "string" }, "top_k": count("Documents"), "k": count("Beats `top_k`: documents") });
    object(fields, &["query"])
}

fn response() -> Value {
    let result = object(
        json!({ "id": { "type": "string" }, "content": super::search_r1::document(), "score": { "type": "number" } }),
        &["id", "content", "score"],
    );
    let fields = json!({
        "query": { "type": "string" }, "method": { "type": "string" }, "results": list(result), "num_results": { "type": "integer" },
    });
    object(fields, &["query", "method", "results", "num_results"])
}

fn request_documents() -> Value {
    let fields = json!({
        "query": { "type": "string" }, "queries": list(json!({ "type": "string" })),
        "topk": count("Documents"), "top_k": count("Documents"), "k": count("Documents"),
    });
    object(fields, &[])
}

fn response_documents() -> Value {
    let entries = list(super::search_r1::entry());
    let fields = json!({
        "query": { "type": "string" }, "method": { "type": "string" }, "results": entries, "num_results": { "type": "integer" },
        "batch_size": { "type": "integer" }, "result": list(entries), "error": { "type": "string" },
    });
    object(fields, &[])
}
