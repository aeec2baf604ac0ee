//! The description of the interface, OpenAPI 3.1, made from the table of routes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::dialects::{self, HEADER, Verb};
use super::fault::{Code, Style};
use super::incoming::TIMEOUT_HEADER;
use super::pages::FILES;
use super::routes::{Body, MoreRoutes, Route, table};
use super::service::Service;

/// `GET /openapi.json`.
pub(super) async fn document(State(service): State<Arc<Service>>) -> Response {
    let document = build(&service.options().more_routes).to_string();
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

/// The description of a server with these further routes.
pub fn build(more: &[MoreRoutes]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table(None, more) {
        for path in paths_of(&route) {
            let entry = paths.entry(&path).or_insert_with(|| json!({}));
            entry[verb(route.verb)] = operation(&route, &path);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hindsearch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Ranked passages of a local corpus, in our own words and in those of other retrieval servers. \
                Answers of 503 bear Retry-After; a wait helps.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": error() },
        },
        "security": [{}, { "token": [] }],
    })
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::Post => "post",
    }
}

/// The paths of a route as OpenAPI writes them, which knows no rest of a path.
fn paths_of(route: &Route) -> Vec<String> {
    match route.path.strip_suffix("{*rest}") {
        Some(base) => ["search", "doc/{docid}"].map(|end| format!("{base}{{index}}/{end}")).into(),
        None => vec![route.path.replace("{*", "{")],
    }
}

/// The parameters that a path names.
fn parameters_of(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
    let schema = |name: &str| match name {
        "file" => json!({ "enum": FILES.map(|(name, ..)| name) }),
        _ => json!({ "type": "string", "minLength": 1 }),
    };
    names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": schema(name) })).collect()
}

fn operation(route: &Route, path: &str) -> Value {
    let mut parameters = parameters_of(path);
    let media = if route.style == Style::Msgpack { "application/msgpack" } else { "application/json" };
    let mut operation = json!({ "tags": [route.tag], "summary": route.summary, "operationId": id(route.verb, path) });
    match (&route.request, route.verb) {
        (Some(schema), Verb::Post) => {
            operation["requestBody"] = json!({ "required": true, "content": { media: { "schema": schema } } });
        }
        (Some(schema), Verb::Get) => {
            // Only a search has a query.
            let of_search = |name: &str| matches!(name, "query" | "hits");
            let known = schema["properties"].as_object().into_iter().flatten();
            for (name, schema) in known.filter(|(name, _)| path.ends_with("/search") || !of_search(name)) {
                let required = name == "query";
                parameters.push(json!({ "name": name, "in": "query", "required": required, "schema": schema }));
            }
        }
        (None, _) => {}
    }
    let mut header = |name: &str, schema: Value, meaning: &str| {
        parameters.push(json!({ "name": name, "in": "header", "schema": schema, "description": meaning }));
    };
    let whole = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
    if !matches!(route.tag, "pages" | "watching") {
        header(TIMEOUT_HEADER, whole, "Milliseconds until the client stops waiting");
    }
    if route.tag == "default" {
        header(HEADER, json!({ "enum": dialects::on_retrieve() }), "The dialect, where the body does not tell it");
    }
    operation["parameters"] = parameters.into();
    let content = match &route.response {
        Body::Values(schema) => json!({ media: { "schema": schema } }),
        Body::Text(kinds) => {
            kinds.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": { "type": "string" } }))).collect()
        }
    };
    let mut good = json!({ "description": "Done", "content": content });
    if route.tag == "default" {
        // Who asks in MessagePack is answered so.
        good["content"]["application/msgpack"] = good["content"][media].clone();
    }
    let mut responses = json!({ "200": good });
    for code in codes(route) {
        responses[code.status().as_str()] = json!({
            "description": code.as_str(), "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        });
    }
    operation["responses"] = responses;
    operation
}

fn id(method: Verb, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(verb(method)).chain(words).collect::<Vec<_>>().join("_")
}

/// What can go wrong. Methods that a route does not know are answered everywhere with 405.
fn codes(route: &Route) -> Vec<Code> {
    let mut codes = vec![Code::Forbidden];
    match route.tag {
        "pages" => codes.push(Code::NotFound),
        "watching" => codes.push(Code::Unavailable),
        _ => codes.extend([
            Code::Malformed,
            Code::Unauthorized,
            Code::NotFound,
            Code::SlowBody,
            Code::PayloadTooLarge,
            Code::InvalidInput,
            Code::Internal,
            Code::Overloaded,
            Code::Timeout,
        ]),
    }
    if route.tag == "watching" || route.tag == "pages" {
        codes.push(Code::Unauthorized);
    }
    codes
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["code", "message", "request_id"],
        "properties": {
            "code": { "type": "string" },
            "message": { "type": "string", "description": "What was expected, what was found, what to do" },
            "request_id": { "type": "string", "description": "As in the header X-Request-Id" },
            "detail": { "description": "On routes of the Search-R1 family: as FastAPI has it" },
            "error": { "description": "On routes of OpenAI, TEI and Pyserini: as they have it" },
        },
    })
}
