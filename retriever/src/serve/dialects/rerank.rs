//! Search-R1's servers that rerank: documents as text. The score is the cosine of query and document by the index's model.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, count, list, object};
use crate::Ranked;
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

/// Documents for a request that names no number.
const TOP_K: usize = 3;

pub(super) const DIALECT: Dialect = Dialect {
    name: "rerank",
    clients: "Search-R1's servers that rerank",
    operations: &[
        Operation {
            verb: Verb::Post,
            path: "/retrieve",
            summary: "Retrieve more, keep the best: documents as text",
            style: Style::FastApi,
            on_default: false,
            request,
            response,
            read,
        },
        Operation {
            verb: Verb::Post,
            path: "/rerank",
            summary: "Order the documents of each query",
            style: Style::FastApi,
            on_default: true,
            request: request_rerank,
            response,
            read: read_rerank,
        },
    ],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    read_body(&incoming.json()?, setup)
}

pub(super) fn read_body(body: &Value, setup: &Setup) -> Result<Work, Fault> {
    let mut fields = Fields::of(body, setup.limits)?;
    let queries = fields.queries("queries");
    let retrieved =
        fields.count("topk_retrieval").unwrap_or(if fields.has("topk_retrieval") { setup.top_k } else { 10 });
    let kept = fields.count("topk_rerank").unwrap_or(if fields.has("topk_rerank") { retrieved } else { TOP_K });
    let scores = fields.flag("return_scores", false);
    fields.finish()?;
    // Retriever and reranker are the same model, so the order stays.
    let top_k = setup.wanted(Some(retrieved)).min(kept);
    let render = move |rankings: Vec<Vec<Ranked>>| {
        let entry = |hit: &Ranked| written(hit.passage.contents().into_owned(), hit.score, scores);
        let entries = |hits: &Vec<Ranked>| hits.iter().map(entry).collect::<Vec<_>>();
        Answer::Json(json!({ "result": rankings.iter().map(entries).collect::<Vec<_>>() }))
    };
    Ok(Work::Search { queries, top_k, render: Box::new(render) })
}

fn written(document: String, score: f32, scores: bool) -> Value {
    if scores { json!({ "document": document, "score": score }) } else { document.into() }
}

fn read_rerank(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let queries = fields.queries("queries");
    let lists = fields.list("documents", setup.limits.queries);
    let mut texts = Vec::with_capacity(lists.len());
    let mut left = setup.limits.queries;
    for (at, documents) in lists.iter().enumerate() {
        let place = [json!("documents"), json!(at)];
        let Some(documents) = documents.as_array() else {
            fields.refuse("list_type", &place, "Input should be a valid list", documents);
            continue;
        };
        if documents.len() > left {
            let message = format!("at most {} documents in all", setup.limits.queries);
            fields.refuse("too_long", &place, message, &json!(documents.len()));
            break;
        }
        left -= documents.len();
        let contents = documents.iter().enumerate().map(|(number, document)| {
            let place = [json!("documents"), json!(at), json!(number)];
            contents(&mut fields, &place, document)
        });
        texts.push(contents.collect::<Vec<String>>());
    }
    let kept = fields.count("rerank_topk").filter(|kept| *kept > 0).unwrap_or(TOP_K);
    let scores = fields.flag("return_scores", false);
    if fields.has("documents") && lists.len() != queries.len() {
        let message = format!("as many lists as queries ({}), not {}", queries.len(), lists.len());
        fields.refuse("value_error", &[json!("documents")], message, &json!(lists.len()));
    }
    fields.finish()?;
    let shown = texts.clone();
    let render = move |scored: Vec<Vec<f32>>| {
        let ranking = |(documents, scored): (Vec<String>, Vec<f32>)| {
            let mut ranking: Vec<(String, f32)> = documents.into_iter().zip(scored).collect();
            ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
            ranking.truncate(kept);
            ranking.into_iter().map(|(text, score)| written(titled(&text), score, scores)).collect::<Vec<_>>()
        };
        Answer::Json(json!({ "result": shown.into_iter().zip(scored).map(ranking).collect::<Vec<_>>() }))
    };
    Ok(Work::Rerank { queries, texts, render: Box::new(render) })
}

/// The text of a document, also of one as `/retrieve` answers.
fn contents(fields: &mut Fields, place: &[Value], document: &Value) -> String {
    if !document.is_object() {
        fields.refuse("dict_type", place, "Input should be a valid dictionary", document);
        return String::new();
    }
    match document.pointer("/document/contents").or_else(|| document.get("contents")) {
        Some(contents) => fields.text(place, contents),
        None => {
            fields.refuse("missing", place, "Field required: contents", document);
            String::new()
        }
    }
}

/// Title and text as that server writes them for its model.
fn titled(contents: &str) -> String {
    let (title, text) = contents.split_once('\n').unwrap_or((contents, ""));
    format!("(Title: {title}) {text}")
}

pub(super) fn request() -> Value {
    object(
        json!({
            "queries": { "type": "array", "items": { "type": "string" }, "maxItems": 4096 },
            "topk_retrieval": count("Documents to retrieve"), "topk_rerank": count("Documents to keep"),
            "return_scores": { "type": "boolean", "default": false },
        }),
        &["queries"],
    )
}

fn request_rerank() -> Value {
    object(
        json!({
            "queries": { "type": "array", "items": { "type": "string" }, "maxItems": 4096 },
            "documents": list(list(object(json!({ "contents": { "type": "string" } }), &[]))),
            "rerank_topk": count("Documents to keep"),
            "return_scores": { "type": "boolean", "default": false },
        }),
        &["queries", "documents"],
    )
}

fn response() -> Value {
    let scored =
        object(json!({ "document": { "type": "string" }, "score": { "type": "number" } }), &["document", "score"]);
    object(json!({ "result": list(list(json!({ "anyOf": [scored, { "type": "string" }] }))) }), &["result"])
}
