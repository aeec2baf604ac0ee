//! Is the server there, does it answer, what does it serve, and how does it do?

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::api::IndexFacts;
use super::fault::Fault;
use super::service::{Readiness, Service};

/// `GET /livez`: the process is there.
pub(super) async fn live() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], r#"{"status":"alive"}"#).into_response()
}

/// `GET /readyz` and `GET /health`: requests are answered. Says no more than that and how far reading ahead has come, as
/// it is open to everybody.
pub(super) async fn ready(State(service): State<Arc<Service>>) -> Response {
    let (ready, reason) = match service.readiness() {
        Readiness::Ready => (true, Value::Null),
        Readiness::NotReady(reason) => (false, reason.into()),
    };
    let metrics = service.metrics();
    let status = if ready { "healthy" } else { "unhealthy" };
    let body = json!({
        "status": status,
        "ready": ready,
        "reason": reason,
        "generation": metrics.generation.get(),
        "page_in": { "bytes": metrics.page_in.get(), "total_bytes": metrics.page_in_total.get() },
        // As the clients of ReSearch read it.
        "retrievers": { "total": 1, "available": i64::from(ready) },
    });
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response();
    if !ready {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

/// The schema of that answer, whether it is yes or no.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["status", "ready", "reason", "generation", "page_in"],
        "properties": {
            "status": { "enum": ["healthy", "unhealthy"] },
            "ready": { "type": "boolean" },
            "reason": { "type": ["string", "null"], "description": "Why it is not ready" },
            "generation": { "type": "integer" },
            "page_in": { "type": "object", "description": "How far reading ahead has come" },
        },
    })
}

/// `GET /info`: what is served, in TEI's words and ours.
pub(super) async fn info(State(service): State<Arc<Service>>) -> Result<Response, Fault> {
    let serving = service.serving();
    let (embedder, limits) = (serving.retriever().embedder(), &service.options().limits);
    let card = embedder.card();
    let pooling = format!("{:?}", card.pooling).to_lowercase();
    let body = json!({
        "model_id": card.id,
        "model_sha": embedder.fingerprint().queries.blake3,
        "model_dtype": format!("{:?}", embedder.fingerprint().queries.precision).to_lowercase(),
        "model_type": { "embedding": { "pooling": pooling } },
        "max_concurrent_requests": limits.in_flight,
        "max_input_length": card.max_length,
        "max_client_batch_size": limits.queries,
        "max_batch_tokens": limits.queries * card.max_length,
        "version": env!("CARGO_PKG_VERSION"),
        "dimensions": embedder.dimensions(),
        "index": IndexFacts::of(&serving),
        "index_kind": serving.retriever().generation().manifest().kind,
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response())
}

/// The type of `/metrics`.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`, as Prometheus reads them.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], service.metrics_page()).into_response()
}
