//! R1-Searcher's server: each document is a line of its TSV corpus, whose leading number the client cuts off.

use serde_json::{Value, json};

use super::{Answer, Dialect, Operation, Setup, Verb, Work, list, object};
use crate::Ranked;
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

/// Documents for a request that names no number.
const K: usize = 3;

pub(super) const DIALECT: Dialect = Dialect {
    name: "r1_searcher",
    clients: "R1-Searcher",
    operations: &[Operation {
        verb: Verb::Post,
        path: "/queries",
        summary: "Lines of text for each of many queries",
        style: Style::FastApi,
        on_default: true,
        request,
        response,
        read,
    }],
};

fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let queries = fields.queries("queries");
    let k = fields.count("k").filter(|k| *k > 0).unwrap_or(K);
    fields.finish()?;
    let shown = queries.clone();
    let render = move |rankings: Vec<Vec<Ranked>>| {
        let lines = |hits: &Vec<Ranked>| hits.iter().map(line).collect::<Vec<_>>();
        Answer::Json(json!({ "queries": shown, "answers": rankings.iter().map(lines).collect::<Vec<_>>() }))
    };
    Ok(Work::Search { queries, top_k: k, render: Box::new(render) })
}

/// Without a number in front, a text that begins with one would lose it.
fn line(hit: &Ranked) -> String {
    let passage = &hit.passage;
    let numbered = !passage.id.is_empty() && passage.id.bytes().all(|byte| byte.is_ascii_digit());
    let number = if numbered { passage.id.clone() } else { hit.row.to_string() };
    let words = match passage.display_title() {
        "" => passage.text.clone(),
        title => format!("{title}   {}", passage.text),
    };
    format!("{number}\t{}", words.replace(['\n', '\r'], " "))
}

fn request() -> Value {
    let k = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": 1000, "default": K });
    object(
        json!({ "queries": { "type": "array", "items": { "type": "string" }, "maxItems": 4096 }, "k": k }),
        &["queries"],
    )
}

fn response() -> Value {
    let texts = || list(json!({ "type": "string" }));
    object(json!({ "queries": texts(), "answers": list(texts()) }), &["queries", "answers"])
}
