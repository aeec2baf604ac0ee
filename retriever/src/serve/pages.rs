//! The pages for people. They hold no data: what they show they ask for as every client does.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::fault::{Code, Fault};

/// Nothing from elsewhere, nothing inline, in no frame: a passage that is markup stays text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Names, types and texts of what the pages load.
pub(super) const FILES: [(&str, &str, &str); 5] = [
    ("search.js", SCRIPT, include_str!("pages/search.js")),
    ("docs.js", SCRIPT, include_str!("pages/docs.js")),
    ("common.js", SCRIPT, include_str!("pages/common.js")),
    ("schema.js", SCRIPT, include_str!("pages/schema.js")),
    ("pages.css", "text/css; charset=utf-8", include_str!("pages/pages.css")),
];

/// `GET /`.
pub(super) async fn search() -> Response {
    page("text/html; charset=utf-8", include_str!("pages/search.html"))
}

/// `GET /docs`.
pub(super) async fn docs() -> Response {
    page("text/html; charset=utf-8", include_str!("pages/docs.html"))
}

/// `GET /pages/{file}`.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Fault> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, kind, text)| page(kind, text)).ok_or_else(|| Fault::new(Code::NotFound, "no such file"))
}

fn page(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
