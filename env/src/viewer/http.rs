//! Which routes are there, and who may ask? Pages of this machine's own addresses, and nobody in another's name.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::json;

use super::catalogue::Catalogue;
use super::detail::Detail;
use super::query::Query;
use crate::Error;

/// Nothing from elsewhere, nothing inline, in no frame, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const GUARDS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
/// Names, types and texts of what the page loads. The look, and the way to make text of what is hostile, are those of the
/// retrieval server's pages.
const FILES: [(&str, &str, &str); 10] = [
    ("viewer.js", SCRIPT, include_str!("pages/viewer.js")),
    ("address.js", SCRIPT, include_str!("pages/address.js")),
    ("parts.js", SCRIPT, include_str!("pages/parts.js")),
    ("list.js", SCRIPT, include_str!("pages/list.js")),
    ("detail.js", SCRIPT, include_str!("pages/detail.js")),
    ("transcript.js", SCRIPT, include_str!("pages/transcript.js")),
    ("viewer.css", STYLE, include_str!("pages/viewer.css")),
    ("icon.svg", "image/svg+xml", include_str!("pages/icon.svg")),
    ("common.js", SCRIPT, include_str!("../../../retriever/src/serve/pages/common.js")),
    ("pages.css", STYLE, include_str!("../../../retriever/src/serve/pages/pages.css")),
];

type Shared = Arc<Mutex<Catalogue>>;

/// What went wrong, as JSON with `code` and `message`.
#[derive(Debug)]
struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
}

pub(super) fn router(catalogue: Shared) -> Router {
    Router::new()
        .route("/", get(async || page(HTML, include_str!("pages/viewer.html"))))
        .route("/pages/{file}", get(file))
        .route("/api/trajectories", get(list))
        .route("/api/trajectories/{line}", get(one))
        .fallback(async || Fault::new(StatusCode::NOT_FOUND, "not_found", "no such page"))
        .method_not_allowed_fallback(async || {
            Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "everything here is read with GET")
        })
        .layer(from_fn(guard))
        .with_state(catalogue)
}

/// Lets in who may ask, and tells the browser what the answer may do.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = match check(&request) {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    };
    for (name, value) in GUARDS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A page elsewhere can have its own name point at this machine; its requests still bear that name.
fn check(request: &Request) -> Result<(), Fault> {
    let forbidden = |message: String| Err(Fault::new(StatusCode::FORBIDDEN, "forbidden", message));
    let Some(host) = only(request.headers(), header::HOST) else {
        return forbidden("expected one Host header".into());
    };
    if !is_own(host) {
        return forbidden(format!("the Host {host:?} is not served; expected localhost, 127.0.0.1 or [::1]"));
    }
    if request.uri().authority().is_some_and(|target| !target.as_str().eq_ignore_ascii_case(host)) {
        return forbidden(format!("the Host {host:?} is not that of the address asked for"));
    }
    let own = format!("http://{host}");
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let foreign = origins.find(|origin| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    match foreign {
        Some(origin) => forbidden(format!("pages of {:?} may not ask", String::from_utf8_lossy(origin.as_bytes()))),
        None => Ok(()),
    }
}

/// The value of a header that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

/// Whether a host, with any port (there may be a tunnel), is this machine's own name or address.
fn is_own(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let is_six = |name: &str| {
        let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        inside.and_then(|six| six.parse::<Ipv6Addr>().ok()).is_some_and(|six| six.is_loopback())
    };
    let is_four = |name: &str| name.parse::<Ipv4Addr>().is_ok_and(|four| four.is_loopback());
    port.bytes().all(|b| b.is_ascii_digit())
        && (name.eq_ignore_ascii_case("localhost") || is_four(name) || is_six(name))
}

async fn file(Path(name): Path<String>) -> Result<Response, Fault> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = found.ok_or_else(|| Fault::new(StatusCode::NOT_FOUND, "not_found", "no such file"))?;
    Ok(page(kind, text))
}

/// `GET /api/trajectories`: takes in what the run has added, then a page of summaries.
async fn list(State(catalogue): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Fault> {
    let query = Query::parse(&query.unwrap_or_default())?;
    with(catalogue, move |catalogue| {
        catalogue.refresh().map_err(Fault::of_file)?;
        answer(&query.list(catalogue))
    })
    .await
}

/// `GET /api/trajectories/{line}`: one, and where it stands among those that are asked for.
async fn one(
    State(catalogue): State<Shared>,
    Path(line): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let query = Query::parse(&query.unwrap_or_default())?;
    let number = line.parse::<u64>().map_err(|_| Error::invalid("the line", "a count from 1", format!("`{line}`")))?;
    with(catalogue, move |catalogue| {
        catalogue.refresh().map_err(Fault::of_file)?;
        match Detail::of(catalogue, number, &query).map_err(Fault::of_file)? {
            Some(detail) => answer(&detail),
            None => {
                let message = format!("line {number}: the file has {} lines", catalogue.entries().len());
                Err(Fault::new(StatusCode::NOT_FOUND, "not_found", message))
            }
        }
    })
    .await
}

/// Works on the catalogue where waiting for the disk holds nobody up.
async fn with(
    catalogue: Shared,
    work: impl FnOnce(&mut Catalogue) -> Result<Response, Fault> + Send + 'static,
) -> Result<Response, Fault> {
    let work = move || work(&mut catalogue.lock().unwrap_or_else(PoisonError::into_inner));
    let internal =
        |error: tokio::task::JoinError| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string());
    tokio::task::spawn_blocking(work).await.map_err(internal)?
}

fn answer(value: &impl Serialize) -> Result<Response, Fault> {
    let internal =
        |error: serde_json::Error| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string());
    let json = serde_json::to_vec(value).map_err(internal)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn page(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// The file cannot be read, or holds something else: nobody asked wrongly.
    fn of_file(error: Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", error.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.code, "message": self.message }).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
