//! One request to one server, and what its outcome means.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use ureq::http::{HeaderMap, HeaderValue, header};
use ureq::{Agent, Body};

use super::invalid;
use super::wire::{Answer, Request};
use crate::{Error, Result};

/// Bytes of an answer, at most.
const MAX_ANSWER: u64 = 1 << 30;
/// Bytes of a refusal that are read, at most.
const MAX_REFUSAL: u64 = 64 << 10;
/// Characters of a server's words that are repeated.
const MAX_SHOWN: usize = 300;
/// Connections kept open to a server while nothing is asked.
const IDLE_CONNECTIONS: usize = 64;

pub(super) struct Client {
    agent: Agent,
    token: Option<String>,
    authorization: Option<HeaderValue>,
}

/// Why a request has no answer.
pub(super) enum Failure {
    /// Another try may succeed; `refused` says that nothing listens at the address now.
    Passing { cause: String, retry_after: Option<Duration>, refused: bool },
    /// The server understood and refused.
    Refused(Error),
}

impl Client {
    pub fn new(token: Option<&str>) -> Result<Self> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(3)))
            .max_idle_connections(1024)
            .max_idle_connections_per_host(IDLE_CONNECTIONS)
            .user_agent(concat!("hindsearch/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = token.map(authorization).transpose()?;
        Ok(Self { agent: config.into(), token: token.map(str::to_owned), authorization })
    }

    /// Sends `request` to the server at `address` and waits `timeout` for the whole answer.
    pub fn search(&self, address: &str, request: &Request<'_>, timeout: Duration) -> Result<Answer, Failure> {
        let passing = |cause| Failure::Passing { cause, retry_after: None, refused: false };
        let url = format!("{address}/v1/search");
        let body = serde_json::to_vec(request).map_err(|error| passing(error.to_string()))?;
        let mut post = self
            .agent
            .post(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("X-Request-Timeout-Ms", timeout.as_millis().to_string());
        if let Some(authorization) = &self.authorization {
            post = post.header(header::AUTHORIZATION, authorization);
        }
        let failed = |error: ureq::Error| {
            let refused = matches!(&error, ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused);
            Failure::Passing { cause: cause(&error, timeout), retry_after: None, refused }
        };
        let mut response = post.config().timeout_global(Some(timeout)).build().send(&body[..]).map_err(failed)?;
        if response.status() != 200 {
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            return Err(self.refusal(&url, status, &headers, response.body_mut()));
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(failed)?;
        Answer::read(&body, request).map_err(|why| passing(self.printable(&why)))
    }

    fn refusal(&self, url: &str, status: u16, headers: &HeaderMap, body: &mut Body) -> Failure {
        let text = body.with_config().limit(MAX_REFUSAL).read_to_vec().unwrap_or_default();
        let message = match message(&text) {
            silent if silent.is_empty() => format!("status {status}"),
            words => format!("status {status}: {}", self.printable(&words)),
        };
        let refused = match status {
            408 | 425 | 429 | 500 | 502..=504 => {
                let seconds =
                    headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
                let retry_after = seconds.map(Duration::from_secs);
                return Failure::Passing { cause: message, retry_after, refused: false };
            }
            401 | 403 => Error::Unauthorized {
                what: format!("`{url}`"),
                found: message,
                remedy: match self.token {
                    None => "give the token of the server".into(),
                    Some(_) => "the token that was given does not open it: compare it with the server's".into(),
                },
            },
            404 => Error::NotFound {
                what: format!("`{url}` ({message})"),
                remedy: "check that `hindsearch serve` runs at this address".into(),
            },
            400..500 => invalid("search request", &format!("one that `{url}` accepts"), &message),
            _ => Error::Unavailable {
                what: format!("`{url}`"),
                found: message,
                remedy: "check that `hindsearch serve` runs at this address".into(),
            },
        };
        Failure::Refused(refused)
    }

    /// A server's words, without what could disturb a terminal or betray the token.
    fn printable(&self, text: &str) -> String {
        let text = match &self.token {
            Some(token) => text.replace(&**token, "..."),
            None => text.to_owned(),
        };
        let shown = |c: char| match c {
            '"' | '\'' | '\\' => c.to_string(),
            c => c.escape_debug().to_string(),
        };
        text.chars().take(MAX_SHOWN).map(shown).collect()
    }
}

fn authorization(token: &str) -> Result<HeaderValue> {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok();
    match value.filter(|_| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())) {
        Some(mut value) => {
            value.set_sensitive(true);
            Ok(value)
        }
        None => Err(invalid("the token for the retrieval servers", "visible ASCII characters", "none or others")),
    }
}

/// The message in the body of an error, or the body itself.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    match serde_json::from_slice(body) {
        Ok(Refusal { message }) => message,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

fn cause(error: &ureq::Error, timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(ureq::Timeout::Global) => format!("no answer within {:.1} s", timeout.as_secs_f64()),
        other => other.to_string(),
    }
}
