//! ASearcher's server: Search-R1's with an address for each document, and whole pages by address.

use serde_json::{Value, json};

use super::search_r1;
use super::{Answer, Dialect, Documents, Operation, Setup, Verb, Work, list, object};
use crate::Ranked;
use crate::serve::fault::{Fault, Style};
use crate::serve::fields::Fields;
use crate::serve::incoming::Incoming;

pub(super) const DIALECT: Dialect = Dialect {
    name: "asearcher",
    clients: "ASearcher",
    operations: &[
        Operation {
            verb: Verb::Post,
            path: "/retrieve",
            summary: "Ranked documents with addresses for each of many queries",
            style: Style::FastApi,
            on_default: false,
            request: search_r1::request,
            response,
            read,
        },
        Operation {
            verb: Verb::Post,
            path: "/access",
            summary: "Whole pages by address: all passages of the title, in order",
            style: Style::FastApi,
            on_default: true,
            request: request_pages,
            response: response_pages,
            read: read_pages,
        },
    ],
};

/// The client fails on a document without an address.
fn read(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let setup = Setup { documents: Documents { urls: true }, ..*setup };
    search_r1::read(incoming, &setup)
}

fn read_pages(incoming: &Incoming, setup: &Setup) -> Result<Work, Fault> {
    let body = incoming.json()?;
    let mut fields = Fields::of(&body, setup.limits)?;
    let urls = fields.queries("urls");
    fields.finish()?;
    let asked = urls.clone();
    let render = move |pages: Vec<Option<Vec<Ranked>>>| {
        let page =
            |(url, passages): (&String, Option<Vec<Ranked>>)| passages.map_or(Value::Null, |found| page(url, &found));
        Answer::Json(json!({ "result": asked.iter().zip(pages).map(page).collect::<Vec<_>>() }))
    };
    Ok(Work::Pages { urls, render: Box::new(render) })
}

fn page(url: &str, passages: &[Ranked]) -> Value {
    let title = passages.first().map_or("", |first| first.passage.display_title());
    let texts: Vec<&str> = passages.iter().map(|hit| hit.passage.text.as_str()).collect();
    let text = texts.join("\n");
    json!({ "url": url, "title": title, "text": text, "contents": format!("{title}\n{text}") })
}

fn response() -> Value {
    object(json!({ "result": list(list(search_r1::entry())) }), &["result"])
}

fn request_pages() -> Value {
    object(json!({ "urls": { "type": "array", "items": { "type": "string" }, "maxItems": 4096 } }), &["urls"])
}

fn response_pages() -> Value {
    let text = json!({ "type": "string" });
    let page = object(json!({ "url": text, "title": text, "text": text, "contents": text }), &["contents"]);
    object(json!({ "result": list(json!({ "anyOf": [page, { "type": "null" }] })) }), &["result"])
}
