//! The tools `search` and `fetch`, with the fields that connectors and deep research of OpenAI ask of them.

use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Ranked;
use crate::serve::api::{self, SearchRequest};
use crate::serve::dialects::{Documents, URN};
use crate::serve::engine::{Ask, blocking};
use crate::serve::fault::{Code, Fault};
use crate::serve::perform::passage;
use crate::serve::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    top_k: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    id: String,
}

/// What `search` found.
#[derive(Serialize, JsonSchema)]
struct Results {
    /// Best first.
    results: Vec<Found>,
}

/// A passage that was found.
#[derive(Serialize, JsonSchema)]
struct Found {
    #[serde(flatten)]
    document: Document,
    /// Cosine of query and passage.
    score: f64,
}

/// A passage.
#[derive(Serialize, JsonSchema)]
struct Document {
    /// By which `fetch` reads it.
    id: String,
    /// Its title; the id where it has none.
    title: String,
    /// Its text.
    text: String,
    /// The address of the title's page, where the server derives addresses; else a name of its own for the passage.
    url: String,
}

impl Document {
    fn of(hit: Ranked, documents: Documents) -> Self {
        Self {
            url: documents.url_of(&hit).unwrap_or_else(|| format!("{URN}{}", hit.passage.id)),
            title: api::title(&hit).unwrap_or_else(|| hit.passage.id.clone()),
            text: hit.passage.text,
            id: hit.passage.id,
        }
    }
}

impl Found {
    fn of(hit: Ranked, documents: Documents) -> Self {
        // More digits would cost a model tokens and tell it nothing.
        Self { score: (f64::from(hit.score) * 1e4).round() / 1e4, document: Document::of(hit, documents) }
    }
}

/// Both tools, as models see them.
pub(super) fn list(service: &Service) -> Vec<Tool> {
    let (top_k, most) = (service.options().top_k, service.options().limits.top_k);
    let search = Tool::new(
        "search",
        "Finds the passages of the corpus that answer a question best. Returns `results`, best first, each with `id`, `title`, \
         `text`, `url` and `score`. Ask in plain words, one question a call: passages are found by what they mean, not by the \
         words they share.",
        object(
            json!({
                "query": { "type": "string", "description": "What to look for: a question or a few words" },
                "top_k": {
                    "type": "integer", "minimum": 1, "maximum": most, "default": top_k,
                    "description": format!("How many passages to return; {top_k} where nothing is said"),
                },
            }),
            "query",
        ),
    );
    let fetch = Tool::new(
        "fetch",
        "Reads one passage by the `id` that `search` gave. Returns `id`, `title`, `text` and `url`.",
        object(json!({ "id": { "type": "string", "description": "The `id` of a result of `search`" } }), "id"),
    );
    let search = search.with_output_schema::<Results>().with_title("Search passages");
    let fetch = fetch.with_output_schema::<Document>().with_title("Read a passage");
    let reads = || ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    vec![search.with_annotations(reads()), fetch.with_annotations(reads())]
}

fn object(properties: Value, required: &str) -> JsonObject {
    let schema = [
        ("type", json!("object")),
        ("properties", properties),
        ("required", json!([required])),
        ("additionalProperties", json!(false)),
    ];
    schema.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// `search`.
pub(super) async fn search(service: &Arc<Service>, arguments: Value, deadline: Instant) -> Result<Value, Fault> {
    let Search { query, top_k } = typed(arguments)?;
    if query.trim().is_empty() {
        return Err(Fault::invalid("query: expected words to look for, found none"));
    }
    let serving = service.serving();
    let request = SearchRequest { query: Some(query), top_k, ..SearchRequest::default() };
    let (_, ask) = api::plan(service, &serving, request)?;
    let found = service.within(deadline, service.engine().search(&serving, Ask { deadline, ..ask })).await?;
    let documents = service.documents();
    let results = found.rankings.into_iter().flatten().map(|hit| Found::of(hit, documents)).collect();
    written(Results { results })
}

/// `fetch`.
pub(super) async fn fetch(service: &Arc<Service>, arguments: Value, deadline: Instant) -> Result<Value, Fault> {
    let Fetch { id } = typed(arguments)?;
    let serving = service.serving();
    let reading = blocking(move || {
        let found = passage(&serving, &id)?;
        let unknown = || Fault::new(Code::NotFound, format!("no passage has the id {id:?}; `search` tells the ids"));
        found.ok_or_else(unknown)
    });
    let documents = service.documents();
    written(Document::of(service.within(deadline, reading).await??, documents))
}

fn typed<T: DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place = error.path().to_string();
        let place = if place == "." { "arguments" } else { &place };
        Fault::invalid(format!("{place}: {}", error.inner()))
    })
}

fn written(answer: impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(answer).map_err(|error| Fault::internal(error.to_string()))
}
