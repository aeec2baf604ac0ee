//! `/mcp`, streamable HTTP. Every request is answered by itself, in JSON: the tools remember nothing, so there are no
//! sessions to count or to lose, and no streams that would outlive the server.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use http_body_util::BodyExt;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;

use super::{Deadline, Handler};
use crate::serve::fault::{Code, Fault};
use crate::serve::incoming::Incoming;
use crate::serve::service::Service;

/// Where the protocol is spoken.
pub(in crate::serve) const PATH: &str = "/mcp";
/// What the library wants a client to say that it accepts. It gets JSON in any case.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

type Protocol = StreamableHttpService<Handler, NeverSessionManager>;

/// The route. Hosts, origins, tokens and limits are those of all routes.
pub(in crate::serve) fn router(service: &Arc<Service>) -> Router<Arc<Service>> {
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(service.options().limits.body)
        // `gate` has checked both, by what the server was told.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let handler = Handler(Arc::clone(service));
    let protocol = Protocol::new(move || Ok(handler.clone()), Arc::default(), settings);
    let answer = move |State(_): State<Arc<Service>>, incoming: Incoming| {
        let protocol = protocol.clone();
        async move { answer(&protocol, incoming).await }
    };
    Router::new().route(PATH, post(answer))
}

async fn answer(protocol: &Protocol, incoming: Incoming) -> Result<Response, Fault> {
    // The library reads it again; nesting and syntax are told in our words.
    incoming.json().map_err(|fault| Fault { code: Code::Malformed, ..fault })?;
    let mut request = Request::new(Body::from(incoming.body.clone()));
    *request.method_mut() = axum::http::Method::POST;
    *request.uri_mut() = incoming.uri.clone();
    *request.headers_mut() = incoming.headers.clone();
    request.headers_mut().insert(header::ACCEPT, ACCEPTED);
    request.headers_mut().insert(header::CONTENT_TYPE, JSON);
    request.extensions_mut().insert(Deadline(incoming.deadline(1)));
    let response = protocol.handle(request).await;
    let is_json = response.headers().get(header::CONTENT_TYPE) == Some(&JSON);
    let (status, succeeded) = (response.status(), response.status().is_success());
    if succeeded || is_json {
        return Ok(response.map(Body::new));
    }
    let Ok(said) = response.into_body().collect().await;
    let said = String::from_utf8_lossy(&said.to_bytes()).into_owned();
    Err(match status {
        // Its type has been set above: what the library does not take is the message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Fault::invalid("the body is not one message of the Model Context Protocol")
        }
        StatusCode::BAD_REQUEST => Fault::new(Code::Malformed, said),
        status if status.is_client_error() => Fault::invalid(said),
        _ => Fault::internal(said),
    })
}
