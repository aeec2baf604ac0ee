//! An OpenAI-compatible server: one JSON request, one JSON answer.

use std::time::Duration;

use hindsearch_indexes::ErrorKind;
use serde_json::{Value, json};
use ureq::Agent;

use crate::{Error, Result};

/// Bytes of an answer.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Pauses before a server that fails is asked again.
const PAUSES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(4)];

/// Where a model is served.
pub struct Endpoint {
    address: String,
    token: Option<String>,
    agent: Agent,
}

/// Instructions and what they are about.
pub(crate) struct Chat<'a> {
    pub model: &'a str,
    pub system: &'a str,
    pub user: &'a str,
    /// Tokens of the answer at most.
    pub tokens: usize,
}

impl Endpoint {
    /// The server at `address`, up to and with its `/v1`; `token` is sent as a bearer token, and shown nowhere.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address that is none, or a token that a header cannot carry.
    pub fn new(address: &str, token: Option<String>, timeout: Duration) -> Result<Self> {
        let address = address.trim_end_matches('/').to_owned();
        if !["http://", "https://"]
            .iter()
            .any(|scheme| address.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
        {
            return Err(Error::invalid(
                "model server",
                "an address such as `http://127.0.0.1:8000/v1`",
                format!("`{address}`"),
            ));
        }
        if address.split('/').nth(2).is_some_and(|host| host.contains('@')) {
            return Err(Error::invalid(
                "model server",
                "an address without a name or a password; the token is read from OPENAI_API_KEY",
                "one with them (not shown)",
            ));
        }
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Error::invalid("token", "printable ASCII without blanks", "other characters (not shown)"));
        }
        let config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).build();
        Ok(Self { address, token, agent: config.into() })
    }

    /// The server at `address`, with the token that `OPENAI_API_KEY` holds, and ten minutes for an answer.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_environment(address: &str) -> Result<Self> {
        let token = std::env::var("OPENAI_API_KEY").ok().filter(|token| !token.is_empty());
        Self::new(address, token, Duration::from_secs(600))
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no answer, or another than JSON with status 200; [`Error::InvalidInput`] when the
    /// server cannot use the request, which no retry changes.
    pub(crate) fn post(&self, route: &str, body: &Value) -> Result<Value> {
        let address = format!("{}/{route}", self.address);
        let failed = |found: String| Error::Unavailable {
            what: address.clone(),
            found: self.hide(&found),
            remedy: "see whether the server runs, and whether it serves this model".into(),
        };
        let mut request = self.agent.post(&address).header("Content-Type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.send(body.to_string()).map_err(|error| failed(error.to_string()))?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string();
        let text = text.map_err(|error| failed(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_str(&text).map_err(|error| failed(format!("an answer that is no JSON ({error})")));
        }
        let shown: String = self.hide(&text).chars().take(300).collect();
        if status.is_client_error() && ![408, 425, 429].contains(&status.as_u16()) {
            return Err(Error::invalid(
                address.clone(),
                "a request that the server takes",
                format!("status {status}: {shown}"),
            ));
        }
        Err(failed(format!("status {status}: {shown}")))
    }

    /// What the model says to these instructions at temperature 0.
    ///
    /// # Errors
    /// As [`post`](Self::post); nothing said is the server's fault.
    pub(crate) fn chat(&self, chat: &Chat<'_>) -> Result<String> {
        let request = json!({
            "model": chat.model,
            "temperature": 0,
            "max_tokens": chat.tokens,
            "messages": [
                { "role": "system", "content": chat.system },
                { "role": "user", "content": chat.user },
            ],
        });
        let told = self.post("chat/completions", &request)?;
        let said = told["choices"][0]["message"]["content"].as_str().map(str::to_owned);
        said.ok_or_else(|| self.unexpected("chat/completions", "a choice with a text", &told))
    }

    /// A server may echo what it was sent.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| text.replace(token.as_str(), "***"))
    }
}

/// What is asked of a server, asked for again where it fails for a moment.
pub(crate) fn patiently<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    for pause in PAUSES {
        match ask() {
            Err(error) if error.kind() != ErrorKind::InvalidInput => std::thread::sleep(pause),
            outcome => return outcome,
        }
    }
    ask()
}
