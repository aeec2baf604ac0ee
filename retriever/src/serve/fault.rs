//! What a client is told when something is wrong: always JSON, always with a code, a message and the request's id.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hindsearch_indexes::ErrorKind;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::threads::panic_message;

/// The class of a fault; each has one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The body is no JSON, or nested too deeply.
    Malformed,
    /// A field is missing, has the wrong type, or is out of range.
    InvalidInput,
    /// No token, or a wrong one.
    Unauthorized,
    /// A Host or Origin that is not served.
    Forbidden,
    /// No such route or passage.
    NotFound,
    /// The route knows other methods.
    MethodNotAllowed,
    /// The body took too long to arrive.
    SlowBody,
    /// The body is too large.
    PayloadTooLarge,
    /// The address is too long.
    UriTooLong,
    /// The head is too large.
    HeadTooLarge,
    /// More work than can be done in time.
    Overloaded,
    /// The server starts, stops, or has lost its index.
    Unavailable,
    /// The time for the request was over.
    Timeout,
    /// A defect, or damaged files.
    Internal,
}

impl Code {
    /// As it stands in the answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::InvalidInput => "invalid_input",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::SlowBody => "slow_body",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UriTooLong => "uri_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::InvalidInput => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Overloaded | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The class.
    pub code: Code,
    /// What was expected, what was found, what to do.
    pub message: String,
    /// Of what is wrong in the body: where and what, as FastAPI says it.
    pub detail: Option<Value>,
    /// After which a new attempt may succeed; a second where nothing is known.
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// A fault of this class.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None, retry_after: None }
    }

    /// A field that cannot be used.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message)
    }

    /// More than can be done; a new attempt may succeed after about `wait`.
    pub fn overloaded(message: impl Into<String>, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..Self::new(Code::Overloaded, message) }
    }

    /// The server cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, message)
    }

    /// The time was over.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(Code::Timeout, message)
    }

    /// A defect.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        Self::internal(format!("a defect: {}", panic_message(panic)))
    }

    /// What is said to request `request_id`, in the words of the route's protocol.
    pub(super) fn body(&self, style: Style, request_id: &str) -> String {
        let mut body = style.words(self);
        for (key, value) in [("code", self.code.as_str()), ("message", &self.message), ("request_id", request_id)] {
            body.insert(key.into(), value.into());
        }
        Value::Object(body).to_string()
    }

    /// The answer to request `request_id`, in the words of the route's protocol.
    pub(super) fn render(&self, style: Style, request_id: &str) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.code.status(), kind, self.body(style, request_id)).into_response();
        let headers = response.headers_mut();
        if self.code.status() == StatusCode::SERVICE_UNAVAILABLE {
            let wait = self.retry_after.unwrap_or(Duration::from_secs(1));
            headers.insert(header::RETRY_AFTER, HeaderValue::from(spread(wait)));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// JSON as MessagePack.
pub(super) fn msgpack(body: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing into memory cannot fail, and all JSON can be said.
    let _ = rmpv::ext::to_value(body).map(|value| rmpv::encode::write_value(&mut bytes, &value));
    bytes
}

/// Whole seconds, 1 to 30, a fifth more or less, so that those who were refused together do not come back together.
fn spread(wait: Duration) -> u64 {
    let share = rand::random_range(0.8..1.2);
    (wait.as_secs_f64() * share).ceil().clamp(1.0, 30.0) as u64
}

/// What clients of a protocol look for in an error, beside our own keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// Our own keys.
    #[default]
    Plain,
    /// `detail`, as FastAPI has it, and `error`, which some clients show.
    FastApi,
    /// The same, where the answers that are no errors are MessagePack.
    Msgpack,
    /// `error` as an object.
    OpenAi,
    /// `error` and `error_type`.
    Tei,
    /// `error` as text.
    Pyserini,
    /// `error` as JSON-RPC has it, to a request that was not read.
    JsonRpc,
}

impl Style {
    fn words(self, fault: &Fault) -> Map<String, Value> {
        let words = match self {
            Self::Plain => json!({}),
            Self::FastApi | Self::Msgpack => {
                let detail = fault.detail.clone().unwrap_or_else(|| fault.message.clone().into());
                json!({ "detail": detail, "error": fault.message })
            }
            Self::OpenAi => {
                let kind = if fault.code.status().is_client_error() { "invalid_request_error" } else { "server_error" };
                json!({ "error": { "message": fault.message, "type": kind, "param": null, "code": fault.code.as_str() } })
            }
            Self::Tei => json!({ "error": fault.message, "error_type": tei_type(fault.code) }),
            Self::Pyserini if fault.code == Code::MethodNotAllowed => json!({ "error": "Only GET is supported" }),
            Self::Pyserini => json!({ "error": fault.message }),
            Self::JsonRpc => {
                json!({ "jsonrpc": "2.0", "id": null, "error": { "code": rpc_code(fault.code), "message": fault.message } })
            }
        };
        match words {
            Value::Object(words) => words,
            _ => Map::new(),
        }
    }
}

fn tei_type(code: Code) -> &'static str {
    match code {
        Code::Overloaded => "overloaded",
        Code::Unavailable => "unhealthy",
        Code::Internal | Code::Timeout => "backend",
        _ => "validation",
    }
}

fn rpc_code(code: Code) -> i32 {
    match code {
        Code::Malformed => -32700,
        Code::InvalidInput | Code::MethodNotAllowed | Code::PayloadTooLarge => -32600,
        Code::Internal => -32603,
        _ => -32000,
    }
}

/// Carried to the layer that knows the request's id.
impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidInput => Code::InvalidInput,
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::Unauthorized => Code::Unauthorized,
            ErrorKind::Timeout => Code::Timeout,
            ErrorKind::Overloaded => Code::Overloaded,
            ErrorKind::Locked | ErrorKind::Unavailable => Code::Unavailable,
            _ => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<hindsearch_indexes::Error> for Fault {
    fn from(error: hindsearch_indexes::Error) -> Self {
        Self::from(&Error::from(error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}
