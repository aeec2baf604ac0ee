//! The description of the interface, OpenAPI 3.1, made from the table of routes.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::dialects::Verb;
use super::fault::{Code, Style};
use super::routes::{Route, table};

/// `GET /openapi.json`.
pub(super) async fn document() -> Response {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| build().to_string());
    ([(header::CONTENT_TYPE, "application/json")], document.as_str()).into_response()
}

/// The description.
pub fn build() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table(None) {
        let (path, parameters) = path_of(&route);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[verb(route.verb)] = operation(&route, parameters);
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

/// The path as OpenAPI writes it, and its parameters.
fn path_of(route: &Route) -> (String, Vec<Value>) {
    let path = route.path.replace("{*", "{");
    let names = path.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0.to_owned()));
    let schema = json!({ "type": "string", "minLength": 1 });
    let parameters = names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    let parameters = parameters.collect();
    (path, parameters)
}

fn operation(route: &Route, mut parameters: Vec<Value>) -> Value {
    let media = if route.style == Style::Msgpack { "application/msgpack" } else { "application/json" };
    let mut operation = json!({ "tags": [route.tag], "summary": route.summary, "operationId": id(route) });
    match (&route.request, route.verb) {
        (Some(schema), Verb::Post) => {
            operation["requestBody"] = json!({ "required": true, "content": { media: { "schema": schema } } });
        }
        (Some(schema), Verb::Get) => {
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                parameters.push(json!({ "name": name, "in": "query", "schema": schema }));
            }
        }
        (None, _) => {}
    }
    operation["parameters"] = parameters.into();
    let good = match &route.response {
        Some(schema) => json!({ "description": "Done", "content": { media: { "schema": schema } } }),
        None => json!({ "description": "Done" }),
    };
    let mut responses = json!({ "200": good });
    for code in codes(route) {
        responses[code.status().as_str()] = json!({
            "description": code.as_str(), "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        });
    }
    operation["responses"] = responses;
    operation
}

fn id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(verb(route.verb)).chain(words).collect::<Vec<_>>().join("_")
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
