//! Many items in one request, each with an answer or an error of its own: a bad one does not cost the others their turn.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use hindsearch_retriever::serve::{Fault, Incoming, understand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Items of a request.
const MOST: usize = 4096;
/// Items that are answered before others get their turn on the thread.
const TURN: usize = 64;

/// The items of a body `{"items": [...]}`, and the request.
pub(super) async fn items(incoming: Incoming) -> Result<(Vec<Value>, Incoming), Fault> {
    let (body, incoming) = json(incoming).await?;
    let Value::Object(mut body) = body else { return Err(Fault::invalid("body: expected an object with `items`")) };
    let items = body.remove("items").ok_or_else(|| Fault::invalid("items: missing, expected a list"))?;
    if let Some(other) = body.keys().next() {
        return Err(Fault::invalid(format!("body: unknown field `{}`, expected `items`", other.escape_debug())));
    }
    match items {
        Value::Array(items) if items.len() <= MOST => Ok((items, incoming)),
        Value::Array(items) => Err(Fault::invalid(format!("items: expected at most {MOST}, found {}", items.len()))),
        _ => Err(Fault::invalid("items: expected a list")),
    }
}

/// The body, read away from the threads that serve connections where it is large.
pub(super) async fn json(incoming: Incoming) -> Result<(Value, Incoming), Fault> {
    understand(incoming, Incoming::json).await
}

/// An item with the fields of `T`.
pub(super) fn typed<T: DeserializeOwned>(item: &Value) -> Result<T, Fault> {
    if !item.is_object() {
        return Err(Fault::invalid("item: expected an object"));
    }
    // The path costs time, so it is looked for only where something is wrong.
    T::deserialize(item).map_err(|_| match serde_path_to_error::deserialize::<_, T>(item) {
        Err(error) if error.path().to_string() == "." => Fault::invalid(format!("item: {}", error.inner())),
        Err(error) => Fault::invalid(format!("{}: {}", error.path(), error.inner())),
        Ok(_) => Fault::internal("an item that can be read at the second attempt only"),
    })
}

/// Answers each item of a request, until its deadline.
pub(super) async fn timed<F>(incoming: Incoming, mut answer: impl FnMut(Value, Instant) -> F) -> Result<Response, Fault>
where
    F: Future<Output = Result<Arc<str>, Fault>> + Send + 'static,
{
    // The request keeps its place among those being worked on.
    let (items, incoming) = items(incoming).await?;
    let until = incoming.deadline(items.len());
    Ok(each(items, |item| answer(item, until)).await)
}

/// Answers each item. What can be answered at once is; what must wait goes on by itself, all at the same time.
pub(super) async fn each<F>(items: Vec<Value>, mut answer: impl FnMut(Value) -> F) -> Response
where
    F: Future<Output = Result<Arc<str>, Fault>> + Send + 'static,
{
    let mut answers: Vec<Option<Arc<str>>> = vec![None; items.len()];
    let mut waiting = JoinSet::new();
    for (number, item) in items.into_iter().enumerate() {
        let mut work = Box::pin(answer(item));
        let mut attempt = || work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match catch_unwind(AssertUnwindSafe(&mut attempt)) {
            Ok(Poll::Ready(outcome)) => answers[number] = Some(entry(outcome)),
            Ok(Poll::Pending) => drop(waiting.spawn(async move { (number, entry(work.await)) })),
            Err(_) => {}
        }
        if number % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    while let Some(outcome) = waiting.join_next().await {
        // Where there is a defect, only the item's own answer is missing.
        if let Ok((number, answer)) = outcome {
            answers[number] = Some(answer);
        }
    }
    let defect = || error(&Fault::internal("a defect: the item could not be answered")).to_string().into();
    written(answers.into_iter().map(|answer| answer.unwrap_or_else(defect)))
}

/// Answers all items at once, away from the threads that serve connections: for what takes its time, or reads from the disk.
pub(super) async fn aside(
    incoming: Incoming,
    answer: impl FnOnce(Vec<Value>) -> Vec<Result<Arc<str>, Fault>> + Send + 'static,
) -> Result<Response, Fault> {
    let (items, _incoming) = items(incoming).await?;
    let answers = tokio::task::spawn_blocking(|| answer(items)).await;
    let answers = answers.map_err(|_| Fault::internal("a defect: the items could not be answered"))?;
    Ok(written(answers.into_iter().map(entry)))
}

/// Answers as one body.
pub(super) fn written(answers: impl Iterator<Item = Arc<str>>) -> Response {
    let mut body = String::from("{\"items\":[");
    for (number, answer) in answers.enumerate() {
        if number > 0 {
            body.push(',');
        }
        body.push_str(&answer);
    }
    body.push_str("]}");
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// An answer, or what is wrong.
pub(super) fn entry(outcome: Result<Arc<str>, Fault>) -> Arc<str> {
    outcome.unwrap_or_else(|fault| error(&fault).to_string().into())
}

/// What is wrong with an item.
pub(super) fn error(fault: &Fault) -> Value {
    let retryable = fault.code.status().is_server_error();
    json!({ "error": { "code": fault.code.as_str(), "message": fault.message, "retryable": retryable } })
}

/// The schema of a body of such items, and of its answers.
pub(super) fn schema(item: Value) -> Value {
    json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": { "items": { "type": "array", "maxItems": MOST, "items": item } },
    })
}

/// The schema of the answers to such items.
pub(super) fn answers(item: Value) -> Value {
    let error = json!({
        "type": "object", "required": ["error"],
        "properties": { "error": {
            "type": "object", "required": ["code", "message", "retryable"],
            "properties": {
                "code": { "type": "string" },
                "message": { "type": "string" },
                "retryable": { "type": "boolean", "description": "Whether the same may succeed later; nothing has changed" },
            },
        } },
    });
    json!({
        "type": "object", "required": ["items"],
        "properties": { "items": {
            "type": "array", "description": "One an item, in order", "items": { "anyOf": [item, error] },
        } },
    })
}
