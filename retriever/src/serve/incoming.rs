//! A request as the routes get it: read whole, within its limits of size and time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, RawPathParams, Request};
use axum::http::{HeaderMap, Uri};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::engine::blocking;
use super::fault::{Code, Fault};
use super::memory::Share;
use super::service::Service;

/// A client's own limit, in milliseconds.
pub(super) const TIMEOUT_HEADER: &str = "x-request-timeout-ms";
/// Queries that the ordinary deadline is for.
const QUERIES_A_DEADLINE: usize = 256;

/// One query, and more than enough; each byte may become a value of many.
const MSGPACK_BYTES: usize = 1 << 20;

/// The id that a request has in answers and logs.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

/// When a request began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun(pub Instant);

/// A whole request with its place among those being worked on.
pub struct Incoming {
    /// Its id.
    pub id: RequestId,
    /// Its head.
    pub headers: HeaderMap,
    /// Its address.
    pub uri: Uri,
    /// Named parts of the path, decoded.
    pub path: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
    begun: Instant,
    wanted: Option<Duration>,
    deadline: Duration,
    depth: usize,
    shape: Shape,
    _places: (OwnedSemaphorePermit, Share),
}

impl FromRequest<Arc<Service>> for Incoming {
    type Rejection = Fault;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Fault> {
        let (mut parts, body) = request.into_parts();
        let begun = parts.extensions.get::<Begun>().map_or_else(Instant::now, |begun| begun.0);
        let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(|| RequestId("".into()));
        let path = path_parts(&mut parts, service).await?;
        let limits = &service.options().limits;
        let reading = read(body, service);
        let (body, mut memory) = tokio::time::timeout(limits.body_time, reading).await.map_err(|_| {
            Fault::new(Code::SlowBody, format!("the body did not arrive within {:?}", limits.body_time))
        })??;
        let shape = Shape::of(&body, limits.depth);
        if shape.bytes() > limits.bodies / 2 {
            let Shape { values, objects, .. } = shape;
            let message =
                format!("the body has {values} values and {objects} objects, more than can be held; ask in parts");
            return Err(Fault::new(Code::PayloadTooLarge, message));
        }
        // What the body becomes takes more room than the body.
        memory.grow(shape.bytes())?;
        let place = service.enter()?;
        let wanted = wanted_time(&parts.headers)?;
        Ok(Self {
            id,
            headers: parts.headers,
            uri: parts.uri,
            path,
            body,
            begun,
            wanted,
            deadline: limits.deadline,
            depth: limits.depth,
            shape,
            _places: (place, memory),
        })
    }
}

async fn path_parts(
    parts: &mut axum::http::request::Parts,
    service: &Arc<Service>,
) -> Result<Vec<(String, String)>, Fault> {
    use axum::extract::FromRequestParts;
    let params = RawPathParams::from_request_parts(parts, service).await;
    let params = params.map_err(|_| Fault::invalid("the path is not UTF-8 when decoded"))?;
    Ok(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The body, and its share of the memory for bodies.
async fn read(mut body: Body, service: &Service) -> Result<(Bytes, Share), Fault> {
    let limit = service.options().limits.body;
    let too_large =
        || Fault::new(Code::PayloadTooLarge, format!("the body is larger than the {limit} bytes that are allowed"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut whole = Vec::new();
    let mut memory = service.body_memory();
    while let Some(frame) = body.frame().await {
        // The client went away, or did not keep to the protocol.
        let frame = frame.map_err(|_| Fault::new(Code::Malformed, "the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large());
        }
        memory.grow(data.len())?;
        whole.extend_from_slice(&data);
    }
    Ok((whole.into(), memory))
}

fn wanted_time(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let Some(value) = headers.get(TIMEOUT_HEADER) else { return Ok(None) };
    let milliseconds = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()).filter(|time| *time > 0);
    let refuse = || Fault::invalid(format!("header `{TIMEOUT_HEADER}`: expected milliseconds, found {value:?}"));
    milliseconds.map(Duration::from_millis).ok_or_else(refuse).map(Some)
}

impl Incoming {
    /// When the answer to this many queries must be there.
    pub fn deadline(&self, queries: usize) -> Instant {
        let rounds = queries.div_ceil(QUERIES_A_DEADLINE).clamp(1, 1 << 20) as u32;
        let allowed = self.deadline.saturating_mul(rounds);
        self.begun + self.wanted.map_or(allowed, |wanted| wanted.min(allowed))
    }

    /// A named part of the path.
    pub fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(part, _)| part == name).map_or("", |(_, value)| value)
    }

    /// The first value of a parameter in the address.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or_default();
        query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key) == name).then(|| decode(value))
        })
    }

    /// The body as JSON, whatever its Content-Type says: clients of the Search-R1 family often send none.
    ///
    /// # Errors
    /// For a body that is empty, nested too deeply, or no JSON.
    pub fn json(&self) -> Result<Value, Fault> {
        if self.body.is_empty() {
            let detail =
                serde_json::json!([{ "type": "missing", "loc": ["body"], "msg": "Field required", "input": null }]);
            return Err(Fault { detail: Some(detail), ..Fault::invalid("the body is empty, expected JSON") });
        }
        let bytes = self.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.body);
        if self.shape.depth > self.depth {
            return Err(Fault::new(Code::Malformed, format!("the body is nested more deeply than {}", self.depth)));
        }
        serde_json::from_slice(bytes).map_err(|error| {
            let at = offset(bytes, error.line(), error.column());
            let detail = serde_json::json!([{
                "type": "json_invalid", "loc": ["body", at], "msg": "JSON decode error", "input": {}, "ctx": { "error": error.to_string() },
            }]);
            Fault { detail: Some(detail), ..Fault::invalid(format!("the body is not JSON: {error}")) }
        })
    }

    /// The body as MessagePack. What JSON cannot say is null.
    ///
    /// # Errors
    /// For a body that is too large, nested too deeply, or no MessagePack.
    pub fn msgpack(&self) -> Result<Value, Fault> {
        if self.body.len() > MSGPACK_BYTES {
            let message =
                format!("a body of MessagePack may have {MSGPACK_BYTES} bytes, this one has {}", self.body.len());
            return Err(Fault::new(Code::PayloadTooLarge, message));
        }
        let mut bytes = &self.body[..];
        let value = rmpv::decode::read_value_with_max_depth(&mut bytes, self.depth)
            .map_err(|error| Fault::invalid(format!("the body is not MessagePack: {error}")))?;
        Ok(serde_json::to_value(Plain(&value)).unwrap_or_default())
    }

    /// Whether the body is a map in MessagePack. Clients that send it often say so nowhere.
    pub fn is_msgpack(&self) -> bool {
        let said = self.headers.get(axum::http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        said.is_some_and(|kind| kind.contains("msgpack"))
            || matches!(self.body.first(), Some(0x80..=0x8f | 0xde | 0xdf))
    }
}

/// Bytes of a body that a thread of the connections may read through.
const LIGHT: usize = 256 << 10;

/// Understands a request: away from the threads that serve connections, where it is large.
///
/// # Errors
/// Those of `work`.
pub async fn understand<T: Send + 'static>(
    incoming: Incoming,
    work: impl FnOnce(&Incoming) -> Result<T, Fault> + Send + 'static,
) -> Result<(T, Incoming), Fault> {
    if incoming.body.len() <= LIGHT {
        return Ok((work(&incoming)?, incoming));
    }
    blocking(move || Ok((work(&incoming)?, incoming))).await?
}

/// MessagePack as JSON.
struct Plain<'a>(&'a rmpv::Value);

impl serde::Serialize for Plain<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            rmpv::Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            rmpv::Value::Map(entries) => {
                let named = entries.iter().filter_map(|(key, value)| Some((key.as_str()?, Plain(value))));
                serializer.collect_map(named)
            }
            rmpv::Value::Binary(_) | rmpv::Value::Ext(..) => serializer.serialize_unit(),
            rmpv::Value::String(text) => text.as_str().serialize(serializer),
            plain => plain.serialize(serializer),
        }
    }
}

/// What JSON will be like, known before anything walks down into it.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    depth: usize,
    values: usize,
    objects: usize,
}

impl Shape {
    /// Looks no further once it is deeper than `deepest`.
    fn of(bytes: &[u8], deepest: usize) -> Self {
        let (mut shape, mut depth, mut quoted, mut escaped) = (Self::default(), 0usize, false, false);
        for byte in bytes {
            match (quoted, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => quoted = !quoted,
                (true, _) => {}
                (_, b',') => shape.values += 1,
                (_, b'[' | b'{') => {
                    depth += 1;
                    shape.values += 1;
                    shape.objects += usize::from(*byte == b'{');
                    shape.depth = shape.depth.max(depth);
                    if depth > deepest {
                        break;
                    }
                }
                (_, b']' | b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        shape
    }

    /// Memory for it as values: a few bytes of text can become a hundred times as much.
    fn bytes(&self) -> usize {
        // What the first entry of a map takes.
        const OBJECT: usize = 640;
        self.values * size_of::<Value>() + self.objects * OBJECT
    }
}

/// Bytes before a place that is given as line and column.
fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column.saturating_sub(1)
}

/// Decodes a part of a query string; what is not valid stays as it is.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        plain.push(match byte {
            b'+' => b' ',
            b'%' => match (digit(at), digit(at + 1)) {
                (Some(high), Some(low)) => {
                    at += 2;
                    (high * 16 + low) as u8
                }
                _ => byte,
            },
            _ => byte,
        });
    }
    String::from_utf8_lossy(&plain).into_owned()
}
