//! The same questions asked of a server: `POST /v1/search` of one or several replicas, tried again inside a deadline.
//!
//! | question | module |
//! |---|---|
//! | What goes over the wire, and which answers are believed? | `wire` |
//! | How is one replica asked once, and what does its failure mean? | `client` |
//! | Is this replica worth asking? | `circuit` |
//! | Who is asked next, when, and when is it given up? | `call` |

mod call;
mod circuit;
mod client;
mod wire;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ureq::http::Uri;

use self::call::Call;
use self::circuit::Circuit;
use self::client::Client;
use self::wire::{Request, batches};
use crate::{Error, Ranked, Result, Retrieve};

/// Which servers to ask, and how patiently.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The servers, `http://HOST:PORT` or `https://…`, all of one index. Calls begin with each in turn; where one fails
    /// the next is asked.
    pub addresses: Vec<String>,
    /// The servers' token, if they want one.
    pub token: Option<String>,
    /// Time for a whole call of [`retrieve`](Retrieve::retrieve), whatever the number of queries, pauses included.
    pub deadline: Duration,
    /// The same where no server has ever answered and all refuse the connection, so that nothing listens there: then it is most
    /// likely a wrong address, or a server that was never started. One that has answered before is given all of `deadline`, for it
    /// may be starting again.
    pub absent_deadline: Duration,
    /// Time for one request to one server; a server that hangs is left for the next one after it.
    pub attempt_timeout: Duration,
    /// How often a request that no server answered is sent to all of them again.
    pub retries: u32,
    /// The longest first pause before that; it doubles with each retry, up to 5 s. The pause is a random share of it.
    pub backoff: Duration,
    /// Failures in a row after which a server is asked no more ...
    pub circuit_failures: u32,
    /// ... but for one request in this time, to see whether it is back.
    pub circuit_pause: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            token: None,
            deadline: Duration::from_secs(30),
            absent_deadline: Duration::from_secs(1),
            attempt_timeout: Duration::from_secs(10),
            retries: 8,
            backoff: Duration::from_millis(100),
            circuit_failures: 10,
            circuit_pause: Duration::from_secs(5),
        }
    }
}

/// Shows whether there is a token, never the token.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            addresses,
            token,
            deadline,
            absent_deadline,
            attempt_timeout,
            retries,
            backoff,
            circuit_failures,
            circuit_pause,
        } = self;
        f.debug_struct("RemoteOptions")
            .field("addresses", addresses)
            .field("token", &token.as_ref().map(|_| "..."))
            .field("deadline", deadline)
            .field("absent_deadline", absent_deadline)
            .field("attempt_timeout", attempt_timeout)
            .field("retries", retries)
            .field("backoff", backoff)
            .field("circuit_failures", circuit_failures)
            .field("circuit_pause", circuit_pause)
            .finish()
    }
}

/// Retrieval by `hindsearch serve`, on this machine or another.
///
/// Connections are kept and shared: one for all threads is best. They are direct: the proxies that an environment names
/// for the web are not asked for a neighbour. A server takes at most 1,000 passages a query.
pub struct RemoteRetriever {
    client: Client,
    replicas: Vec<Replica>,
    options: RemoteOptions,
    /// Where the next call begins.
    turn: AtomicUsize,
}

/// One of several servers that answer alike.
struct Replica {
    address: String,
    circuit: Circuit,
}

impl RemoteRetriever {
    /// Checks the options; nothing is sent before the first query.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] without addresses, for one that is none, and for a token that no header can carry.
    pub fn new(options: RemoteOptions) -> Result<Self> {
        if options.addresses.is_empty() {
            return Err(invalid("the addresses of retrieval servers", "at least one `http://HOST:PORT`", "none"));
        }
        let client = Client::new(options.token.as_deref())?;
        let replica = |address: &String| {
            Ok(Replica {
                address: checked_address(address)?,
                circuit: Circuit::new(options.circuit_failures, options.circuit_pause),
            })
        };
        let replicas = options.addresses.iter().map(replica).collect::<Result<_>>()?;
        Ok(Self { client, replicas, options, turn: AtomicUsize::new(0) })
    }

    /// Asks for all queries, in as many requests as it takes; `None` when the index changed between two of them.
    fn ask(&self, queries: &[String], top_k: usize, call: &mut Call<'_>) -> Result<Option<Vec<Vec<Ranked>>>> {
        let mut rankings = Vec::with_capacity(queries.len());
        let mut index = None;
        for batch in batches(queries, top_k) {
            let answer = call.ask(&Request::new(batch, top_k))?;
            if *index.get_or_insert_with(|| answer.index.clone()) != answer.index {
                return Ok(None);
            }
            rankings.extend(answer.rankings);
        }
        Ok(Some(rankings))
    }
}

impl Retrieve for RemoteRetriever {
    /// # Errors
    /// [`Error::Unavailable`] when no server answered well in time, soon where none is there, with the address, the number of tries and the last
    /// cause of each; [`Error::InvalidInput`], [`Error::Unauthorized`] or [`Error::NotFound`] when one refused.
    fn retrieve(&self, queries: &[String], top_k: usize) -> Result<Vec<Vec<Ranked>>> {
        if top_k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.replicas.len();
        let mut call = Call::new(self, first);
        // Servers may publish a new index meanwhile, or a call move on to a server that is a step ahead.
        for _ in 0..2 {
            if let Some(rankings) = self.ask(queries, top_k, &mut call)? {
                return Ok(rankings);
            }
        }
        Err(Error::Unavailable {
            what: "retrieval servers".into(),
            found: "the index changed twice while the queries of one call were answered".into(),
            remedy: "call again when all of them serve the same index".into(),
        })
    }
}

impl fmt::Debug for RemoteRetriever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteRetriever").field(&self.options).finish()
    }
}

/// The address without a slash at its end.
fn checked_address(address: &str) -> Result<String> {
    const EXPECTED: &str = "`http://HOST:PORT` or `https://HOST:PORT`";
    let uri: Option<Uri> = address.parse().ok();
    let server = uri.as_ref().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https"))).and_then(Uri::authority);
    match server {
        // What stands before an `@` is a secret, so the address is not repeated.
        _ if address.contains('@') => Err(invalid("the address of a retrieval server", EXPECTED, "one with an `@`")),
        Some(_) if !address.contains('?') => Ok(address.trim_end_matches('/').to_owned()),
        _ => Err(invalid("the address of a retrieval server", EXPECTED, &format!("`{}`", address.escape_default()))),
    }
}

fn invalid(what: &str, expected: &str, found: &str) -> Error {
    Error::InvalidInput { what: what.into(), expected: expected.into(), found: found.into() }
}
