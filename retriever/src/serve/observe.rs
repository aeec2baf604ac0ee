//! Around every request: its id, its line in the log, its place in the counters, and the words for what went wrong.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::engine::Timings;
use super::fault::{Code, Fault, Style};
use super::gate;
use super::incoming::{Begun, RequestId};
use super::log;
use super::routes::Styles;
use super::service::Service;
use super::trace::Trace;

const REQUEST_ID: &str = "x-request-id";
/// What logs call a request whose client went away before it was answered.
const CLIENT_GONE: u16 = 499;
/// Characters of a path in the log.
const LONGEST_PATH: usize = 512;

/// What the layer knows: the service, and how each route words its errors.
#[derive(Clone)]
pub(super) struct Observer {
    pub service: Arc<Service>,
    pub styles: Arc<Styles>,
}

/// The layer.
pub(super) async fn observe(State(observer): State<Observer>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    request.extensions_mut().insert(Begun(begun));
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|client| client.0);
    let route =
        request.extensions().get::<MatchedPath>().map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let style = observer.styles.of(&route, &path);
    let service = &observer.service;
    let _active = service.begin();
    let mut record = Record {
        trace: Some(Trace::begin(request.headers(), method.as_str(), &route)),
        service: Arc::clone(service),
        begun,
        id: id.clone(),
        client,
        method: method.as_str().to_owned(),
        path: path.clone(),
        route: route.clone(),
    };

    let granted = gate::granted(service.options(), request.headers());

    let mut response = match gate::admit(service, &request, &route) {
        Ok(None) => tokio::select! {
            biased;
            response = caught(next, request) => response,
            () = service.ended() => Fault::unavailable("the server is being stopped").into_response(),
        },
        Ok(Some(response)) => response,
        Err(fault) => fault.into_response(),
    };
    if let Some(fault) = response.extensions_mut().remove::<Fault>() {
        if fault.code == Code::Internal {
            log::event("fault", &[("request_id", json!(&*id)), ("message", json!(fault.message))]);
        }
        response = fault.render(style, &id);
    } else if is_bare(&response) {
        let allowed = response.headers_mut().remove(header::ALLOW);
        response = bare_fault(response.status(), &method, &path).render(style, &id);
        response.headers_mut().extend(allowed.map(|allowed| (header::ALLOW, allowed)));
    }
    let unreadable = response.status() == StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    gate::grant(service.options(), granted, headers);
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // After a request that cannot be read nothing on its connection is sure.
    if service.is_draining() || unreadable {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let stages = response.extensions_mut().remove::<Timings>();
    record.finish(response.status().as_u16(), stages);
    response
}

/// The whole answer to a request whose head could not be read, and its line in the log.
pub(super) fn refuse(service: &Arc<Service>, client: SocketAddr, status: StatusCode) -> Vec<u8> {
    let fault = match status {
        StatusCode::URI_TOO_LONG => Fault::new(
            Code::UriTooLong,
            "the request's address is longer than 65,534 bytes; send what is long in a body",
        ),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Fault::new(
            Code::HeadTooLarge,
            "the request's head has more than 64 KiB or more than 100 fields; send what is long in a body",
        ),
        _ => Fault::new(
            Code::Malformed,
            "the request's head is not HTTP/1.1: a request line, then `Name: value` lines, then an empty line \
             (TLS and HTTP/2 are not spoken on a plain port)",
        ),
    };
    let id = request_id(&HeaderMap::new());
    let body = fault.body(Style::Plain, &id);
    let mut record = Record {
        trace: Some(Trace::begin(&HeaderMap::new(), "none", "none")),
        service: Arc::clone(service),
        begun: Instant::now(),
        id: id.clone(),
        client: Some(client),
        method: "none".into(),
        path: String::new(),
        route: "none".into(),
    };
    record.finish(fault.code.status().as_u16(), None);
    let (status, length) = (fault.code.status(), body.len());
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{REQUEST_ID}: {id}\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

/// What is told of a request, also of one that its client gave up.
struct Record {
    service: Arc<Service>,
    begun: Instant,
    id: Arc<str>,
    client: Option<SocketAddr>,
    method: String,
    path: String,
    route: String,
    /// Gone once it is told.
    trace: Option<Trace>,
}

impl Record {
    fn finish(&mut self, status: u16, stages: Option<Timings>) {
        let Some(trace) = self.trace.take() else { return };
        let time = self.begun.elapsed();
        self.service.metrics().answered(&self.route, status, time);
        if self.service.options().access_log {
            let shown = self.path.char_indices().nth(LONGEST_PATH).map_or(&*self.path, |(end, _)| &self.path[..end]);
            log::event(
                "request",
                &[
                    ("request_id", json!(&*self.id)),
                    ("client", json!(self.client.map(|client| client.ip().to_string()))),
                    ("method", json!(self.method)),
                    ("path", json!(shown)),
                    ("route", json!(self.route)),
                    ("status", json!(status)),
                    ("ms", json!((time.as_secs_f64() * 1e6).round() / 1e3)),
                    ("stages_ms", json!(stages.map(|stages| stages.milliseconds()))),
                    ("trace_id", json!(trace.id())),
                ],
            );
        }
        trace.finish(&self.path, status, stages);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.finish(CLIENT_GONE, None);
    }
}

/// A handler that panics has a defect; its request is told, and the connection lives on.
async fn caught(next: Next, request: Request) -> Response {
    let mut running = Box::pin(next.run(request));
    std::future::poll_fn(move |context| {
        let poll = std::panic::catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context)));
        poll.unwrap_or_else(|panic| Poll::Ready(Fault::panicked(&*panic).into_response()))
    })
    .await
}

/// The client's id where it is one that logs and headers can carry, else a fresh one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    given.filter(usable).map_or_else(|| format!("{:016x}", rand::random::<u64>()).into(), Arc::from)
}

/// Whether a library said no without a word.
fn is_bare(response: &Response) -> bool {
    let status = response.status();
    let has_words = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().contains(&b'j'));
    (status.is_client_error() || status.is_server_error()) && !has_words
}

fn bare_fault(status: StatusCode, method: &Method, path: &str) -> Fault {
    let fault = match status {
        StatusCode::NOT_FOUND => Fault::new(
            Code::NotFound,
            format!("no route `{}`; `/docs` lists all", path.chars().take(200).collect::<String>()),
        ),
        StatusCode::METHOD_NOT_ALLOWED => {
            Fault::new(Code::MethodNotAllowed, format!("`{path}` does not know {method}; `/docs` says what it knows"))
        }
        status if status.is_client_error() => Fault::invalid(format!("the request cannot be used ({status})")),
        status => Fault::internal(format!("no answer ({status})")),
    };
    Fault { detail: status.canonical_reason().map(Into::into), ..fault }
}
