//! The few HTTP requests that fetching a model takes.

use std::time::Duration;

use hindsearch_indexes::ErrorKind;
use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::{Agent, Body};

use super::HubSettings;
use crate::{Error, Result};

/// The files of a repository at one commit.
#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    #[serde(rename = "sha")]
    pub commit: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Repository {
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.siblings.iter().map(|sibling| &*sibling.rfilename)
    }
}

/// What the hub says of one file before it is fetched.
#[derive(Debug, Clone)]
pub(super) struct RemoteFile {
    pub name: String,
    /// Where it is, after the hub's own moves.
    pub url: String,
    /// SHA-256 of a large file, git's SHA-1 of a small one.
    pub etag: String,
    pub size: u64,
}

pub(super) struct Client<'a> {
    agent: Agent,
    settings: &'a HubSettings,
}

/// Why a request failed, and whether to try again.
pub(super) struct Failure {
    pub why: String,
    pub again: bool,
    pub kind: ErrorKind,
}

impl Failure {
    /// A fault of the network, which may be gone the next time.
    pub(super) fn passing(why: String) -> Self {
        Self { why, again: true, kind: ErrorKind::Unavailable }
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(settings: &'a HubSettings) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // The token is for the hub, not for the storage that it points to.
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .timeout_connect(Some(Duration::from_secs(15)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .user_agent(concat!("hindsearch/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.into(), settings }
    }

    pub(super) fn repository(&self, id: &str, revision: &str) -> Result<Repository> {
        let url = format!("{}/api/models/{id}/revision/{}", self.settings.endpoint, revision.replace('/', "%2F"));
        let text = self.patiently(&url, || {
            let mut response = self.get(&url, 0)?;
            response.body_mut().read_to_string().map_err(|e| Failure::passing(e.to_string()))
        })?;
        serde_json::from_str(&text).map_err(|e| self.unavailable(&url, format!("an answer that is no model: {e}")))
    }

    pub(super) fn remote_file(&self, id: &str, commit: &str, name: &str) -> Result<RemoteFile> {
        let url = format!("{}/{id}/resolve/{commit}/{name}", self.settings.endpoint);
        let (url, headers) = self.patiently(&url, || self.head(&url))?;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let etag =
            text("x-linked-etag").or_else(|| text("etag")).map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        let size = text("x-linked-size").or_else(|| text("content-length")).and_then(|size| size.parse().ok());
        match (etag, size) {
            (Some(etag), Some(size))
                if !etag.is_empty() && etag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') =>
            {
                Ok(RemoteFile { name: name.into(), url, etag: etag.into(), size })
            }
            _ => Err(self.unavailable(&url, "an answer without `ETag` and size".into())),
        }
    }

    /// Asks for the bytes of `url` from `start` on.
    pub(super) fn get(&self, url: &str, start: u64) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(url).header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = &self.settings.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header(header::RANGE, format!("bytes={start}-"));
        }
        let response = request.call().map_err(|e| Failure::passing(e.to_string()))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response.status())) }
    }

    /// The place and the headers of the hub's own answer: the storage behind a redirect knows nothing of hashes.
    fn head(&self, url: &str) -> Result<(String, HeaderMap), Failure> {
        let mut url = url.to_owned();
        for _ in 0..5 {
            let mut request = self.agent.head(&url).header(header::ACCEPT_ENCODING, "identity");
            if let Some(token) = &self.settings.token {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request.config().max_redirects(0).max_redirects_will_error(false).build();
            let response = request.call().map_err(|e| Failure::passing(e.to_string()))?;
            let status = response.status();
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            match location.filter(|location| location.starts_with('/')) {
                Some(moved) if status.is_redirection() => url = format!("{}{moved}", self.settings.endpoint),
                _ if status.is_success() || status.is_redirection() => return Ok((url, response.headers().clone())),
                _ => return Err(self.refused(status)),
            }
        }
        Err(Failure { why: "too many redirects".into(), again: false, kind: ErrorKind::Unavailable })
    }

    fn refused(&self, status: StatusCode) -> Failure {
        let why = match status.as_u16() {
            401 | 403 if self.settings.token.is_none() => format!("status {status}; a private model needs `HF_TOKEN`"),
            401 | 403 => format!("status {status}; the token does not open this model"),
            404 => "no such model, revision or file".into(),
            _ => format!("status {status}"),
        };
        let kind = match status.as_u16() {
            401 | 403 => ErrorKind::Unauthorized,
            404 => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Failure { why, again: status.is_server_error() || [408, 416, 429].contains(&status.as_u16()), kind }
    }

    /// Runs `request` until it succeeds or there is no use in trying again.
    fn patiently<T>(&self, url: &str, request: impl Fn() -> Result<T, Failure>) -> Result<T> {
        let mut tries = Patience::default();
        loop {
            match request() {
                Ok(value) => return Ok(value),
                Err(failure) if failure.again && tries.wait() => {}
                Err(failure) => return Err(self.failed(url, failure)),
            }
        }
    }

    pub(super) fn unavailable(&self, url: &str, found: String) -> Error {
        self.failed(url, Failure { why: found, again: false, kind: ErrorKind::Unavailable })
    }

    pub(super) fn failed(&self, url: &str, failure: Failure) -> Error {
        let (what, found) = (format!("`{url}`"), failure.why);
        let remedy = "no folder has the model's name, so it was looked for on the hub: check the name, the network and `HF_ENDPOINT`".into();
        match failure.kind {
            ErrorKind::Unauthorized => Error::Unauthorized { what, found, remedy },
            ErrorKind::NotFound => Error::NotFound { what: format!("{what} ({found})"), remedy },
            _ => Error::Unavailable { what, found, remedy },
        }
    }
}

/// A few tries with growing pauses.
#[derive(Default)]
pub(super) struct Patience(u32);

impl Patience {
    const TRIES: u32 = 4;

    /// Pauses; `false` when it is time to give up.
    pub(super) fn wait(&mut self) -> bool {
        self.0 += 1;
        if self.0 >= Self::TRIES {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100 << self.0));
        true
    }
}
