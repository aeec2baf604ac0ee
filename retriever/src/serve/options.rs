//! How a server is set up.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::engine::EngineOptions;
use super::routes::MoreRoutes;

/// Limits of requests and connections. What is beyond them is refused, and the answer names the limit.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of all large bodies that are being read or worked on.
    pub bodies: usize,
    /// Queries of a request.
    pub queries: usize,
    /// Bytes of a query.
    pub query: usize,
    /// Passages a query.
    pub top_k: usize,
    /// Passages of an answer, of all its queries together.
    pub passages: usize,
    /// Ids in a filter.
    pub ids: usize,
    /// Depth of JSON.
    pub depth: usize,
    /// Requests being worked on.
    pub in_flight: usize,
    /// Open connections.
    pub connections: usize,
    /// Time for each 256 queries of a request.
    pub deadline: Duration,
    /// Time for the head of a request, from its first byte.
    pub head: Duration,
    /// Time for its body, and for a client to take each 64 KiB of an answer.
    pub body_time: Duration,
    /// Time that a connection may be silent between requests.
    pub idle: Duration,
    /// Time for requests under way when the server is told to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            bodies: 256 << 20,
            queries: 4096,
            query: 64 << 10,
            top_k: 1000,
            passages: 100_000,
            ids: 10_000,
            depth: 64,
            in_flight: 512,
            connections: 4096,
            deadline: Duration::from_secs(30),
            head: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            drain: Duration::from_secs(30),
        }
    }
}

/// Certificate and key.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// A port that speaks one dialect alone.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The port, on the same host.
    pub port: u16,
    /// The dialect's name.
    pub dialect: String,
}

/// All that a server is told.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Further ports.
    pub listen: Vec<Listen>,
    /// Passages for a request that names no number.
    pub top_k: usize,
    /// Whoever names one of these may ask; without any everybody may.
    pub tokens: Vec<Token>,
    /// The file that they are from; when it changes, they do.
    pub token_file: Option<PathBuf>,
    /// Serve others than this machine without a token.
    pub insecure_no_auth: bool,
    /// Names in a Host header beside those of this machine.
    pub hosts: Vec<String>,
    /// Origins of pages, other than our own, that may ask.
    pub origins: Vec<String>,
    /// Serve TLS.
    pub tls: Option<TlsFiles>,
    /// Give a passage without a page of its own the address of its title's page at Wikipedia.
    pub derive_urls: bool,
    /// Vectors of queries that are remembered.
    pub cached_queries: usize,
    /// Read the whole index ahead, in the background.
    pub page_in: bool,
    /// One line a request on standard error.
    pub access_log: bool,
    /// Routes of other crates.
    pub more_routes: Vec<MoreRoutes>,
    /// Limits.
    pub limits: Limits,
    /// The queues.
    pub engine: EngineOptions,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8000)),
            listen: Vec::new(),
            top_k: 3,
            tokens: Vec::new(),
            token_file: None,
            insecure_no_auth: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            derive_urls: false,
            cached_queries: 10_000,
            page_in: true,
            access_log: true,
            more_routes: Vec::new(),
            limits: Limits::default(),
            engine: EngineOptions::default(),
        }
    }
}

/// A secret that is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token as a client will send it: printable ASCII without blanks.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput), which does not repeat the token.
    pub fn new(text: &str) -> crate::Result<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(crate::Error::InvalidInput {
                what: "token".into(),
                expected: "printable ASCII without blanks, at least one character".into(),
                found: if text.is_empty() { "nothing".into() } else { "other characters (not shown)".into() },
            });
        }
        Ok(Self(text.to_owned()))
    }

    /// The tokens of a file, one a line.
    ///
    /// # Errors
    /// A file that cannot be read; [`Error::InvalidInput`](crate::Error::InvalidInput) for one without a token, or with a
    /// line that is none.
    pub fn read_file(path: &Path) -> crate::Result<Vec<Self>> {
        let bytes = std::fs::read(path).map_err(crate::Error::io("read", path))?;
        let refused = |found: &str| crate::Error::InvalidInput {
            what: format!("`{}`", path.display()),
            expected: "a token a line, in printable ASCII without blanks".into(),
            found: found.into(),
        };
        let text = String::from_utf8(bytes).map_err(|_| refused("bytes that are no text"))?;
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens = lines.map(|line| Self::new(line).map_err(|_| refused("a line with other characters (not shown)")));
        let tokens = tokens.collect::<crate::Result<Vec<_>>>()?;
        if tokens.is_empty() { Err(refused("no token")) } else { Ok(tokens) }
    }

    /// Whether `given` is this token. Takes the same time wherever they differ.
    pub(super) fn matches(&self, given: &[u8]) -> bool {
        constant_time_eq::constant_time_eq(blake3::hash(self.0.as_bytes()).as_bytes(), blake3::hash(given).as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}
