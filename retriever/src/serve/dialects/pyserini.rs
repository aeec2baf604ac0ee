//! Pyserini's REST server: searches and documents by GET. The index's name in the path is taken as it comes; there is one.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, list, object};
use crate::Ranked;
use crate::serve::fault::{Code, Fault, Style};
use crate::serve::incoming::Incoming;

/// Documents for a request that names no number.
const HITS: usize = 10;

pub(super) const DIALECT: Dialect = Dialect {
    name: "pyserini",
    clients: "Pyserini",
    operations: &[Operation {
        verb: Verb::Get,
        path: "/v1/{*rest}",
        summary: "Search (`/v1/INDEX/search?query=...&hits=10`) or a document (`/v1/INDEX/doc/DOCID`)",
        style: Style::Pyserini,
        on_default: true,
        request,
        response,
        read,
    }],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let rest = incoming.part("rest");
    if let Some(index) = rest.strip_suffix("/search") {
        return search(incoming, setup, index.to_owned());
    }
    match rest.rsplit_once("/doc/") {
        Some((index, id)) if !id.is_empty() => document(incoming, index.to_owned(), id.to_owned()),
        _ => Err(Fault::new(Code::NotFound, "Expected route /v1/{index}/search or /v1/{index}/doc/{docid}")),
    }
}

fn search(incoming: &Incoming, setup: &Setup, index: String) -> Result<Work, Fault> {
    let query = incoming.parameter("query").filter(|query| !query.trim().is_empty());
    let query = query.ok_or_else(|| unusable("Parameter 'query' is required"))?;
    if query.len() > setup.limits.query {
        return Err(unusable(&format!("Parameter 'query' must have at most {} bytes", setup.limits.query)));
    }
    let hits = number(incoming, "hits")?.unwrap_or(HITS);
    if hits > setup.limits.top_k {
        return Err(unusable(&format!("Parameter 'hits' must be at most {}", setup.limits.top_k)));
    }
    let form = Form::of(incoming)?;
    match ["k1", "b"].map(|name| incoming.parameter(name).is_some()) {
        [false, false] => {}
        [true, true] => return Err(unusable("BM25 parameters k1 and b apply only to sparse (tf) indexes")),
        _ => return Err(unusable("BM25 parameters k1 and b must be set together")),
    }
    let shown = query.clone();
    let render = move |rankings: Vec<Vec<Ranked>>| {
        let candidate = |(hit, rank): (Ranked, u64)| {
            let score = (f64::from(hit.score) * 1e6).round() / 1e6;
            json!({ "docid": hit.passage.id, "score": score, "rank": rank, "doc": form.write(&hit) })
        };
        let candidates: Vec<Value> = rankings.into_iter().flatten().zip(1..).map(candidate).collect();
        Answer::Json(json!({ "api": "v1", "index": index, "query": { "text": shown }, "candidates": candidates }))
    };
    Ok(Work::Search { queries: vec![query], top_k: hits, render: Box::new(render) })
}

fn document(incoming: &Incoming, index: String, id: String) -> Result<Work, Fault> {
    let form = Form::of(incoming)?;
    let asked = id.clone();
    let render = move |found: Option<Ranked>| {
        let hit = found.ok_or_else(|| Fault::new(Code::NotFound, format!("Document not found: {asked}")))?;
        Ok(Answer::Json(json!({ "api": "v1", "index": index, "docid": asked, "doc": form.write(&hit) })))
    };
    Ok(Work::Passage { id, render: Box::new(render) })
}

/// How a document is written.
#[derive(Clone, Copy)]
struct Form {
    parse: bool,
    max_length: Option<usize>,
}

impl Form {
    fn of(incoming: &Incoming) -> Result<Self, Fault> {
        // Clients in Python say `True`.
        let parse = match incoming.parameter("parse").map(|text| text.trim().to_lowercase()).as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(unusable("Parameter 'parse' must be 'true' or 'false'")),
        };
        let max_length = number(incoming, "max_doc_length")?;
        if max_length.is_some() && !parse {
            return Err(unusable("Parameter 'max_doc_length' requires parse=true"));
        }
        Ok(Self { parse, max_length })
    }

    /// The contents where the line of the corpus is parsed, as there is nothing else beside the id; else the line as JSON.
    fn write(self, hit: &Ranked) -> Value {
        let contents = hit.passage.contents();
        match (self.parse, self.max_length) {
            (false, _) => json!({ "id": hit.passage.id, "contents": contents }).to_string().into(),
            (true, None) => contents.into(),
            (true, Some(most)) => contents.chars().take(most).collect::<String>().into(),
        }
    }
}

fn number(incoming: &Incoming, name: &str) -> Result<Option<usize>, Fault> {
    let Some(text) = incoming.parameter(name).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    match text.trim().parse::<i64>() {
        Ok(number) if number > 0 => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
        Ok(_) => Err(unusable(&format!("Parameter '{name}' must be positive"))),
        Err(_) => Err(unusable(&format!("Parameter '{name}' must be an integer"))),
    }
}

fn unusable(message: &str) -> Fault {
    Fault::new(Code::Malformed, message)
}

fn request() -> Value {
    let number = json!({ "type": "integer", "minimum": 1 });
    let fields = json!({
        "query": { "type": "string", "pattern": r"\S", "description": "Of a search: not blank" },
        "hits": { "type": "integer", "minimum": 1, "maximum": 1000, "default": HITS },
        "parse": { "type": "string", "enum": ["true", "false"] },
        "max_doc_length": number,
    });
    object(fields, &[])
}

/// Of a search, or of a document.
fn response() -> Value {
    let text = json!({ "type": "string" });
    let candidate = json!({ "docid": text, "score": { "type": "number" }, "rank": { "type": "integer" }, "doc": text });
    let candidate = object(candidate, &["docid", "score", "rank", "doc"]);
    let query = object(json!({ "text": text }), &["text"]);
    let found = json!({ "api": text, "index": text, "query": query, "candidates": list(candidate) });
    let document = json!({ "api": text, "index": text, "docid": text, "doc": text });
    json!({ "anyOf": [
        object(found, &["api", "index", "query", "candidates"]), object(document, &["api", "index", "docid", "doc"]),
    ] })
}
