//! The sockets: bound before anything is loaded, so that a taken port is told at once; listening only when requests are
//! answered; and closed in order.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use hyper::body::Incoming as HyperBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::connection::{Answering, Seat, Timed};
use super::dialects::{self, Dialect};
use super::memory::Share;
use super::options::ServeOptions;
use super::places::Places;
use super::service::Service;
use super::serving::Serving;
use super::tls::Tls;
use super::{descriptors, log, observe, page_in, routes};
use crate::{Error, OpenOptions, Result, Retriever};

/// Connections that the system holds until they are accepted.
const BACKLOG: u32 = 1024;
/// How often the server looks after itself.
const ROUND: Duration = Duration::from_secs(1);
/// How long accepting rests when the system has no descriptors left.
const REST: Duration = Duration::from_millis(100);
/// Time to send the answers that are there once nothing is waited for any more.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Bytes that a request's head may have.
const HEAD_BYTES: usize = 64 << 10;

/// Sockets that are bound and do not listen yet.
pub struct Bound {
    sockets: Vec<(TcpSocket, SocketAddr, Option<&'static Dialect>)>,
    tls: Option<Arc<Tls>>,
}

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The socket.
    pub socket: SocketAddr,
    /// The only dialect there; nothing where all are.
    pub dialect: Option<&'static str>,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.socket)
    }
}

impl Bound {
    /// Binds all sockets.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an unknown dialect, and for an address that others can reach without a token;
    /// [`Error::Unavailable`] for a port that is taken; [`Error::File`] for a certificate that cannot be used.
    pub fn new(options: &ServeOptions) -> Result<Self> {
        check_exposure(options)?;
        let mut sockets = vec![bind(options.address)?];
        let mut speaks = vec![None];
        for listen in &options.listen {
            let dialect = dialects::dialect(&listen.dialect).ok_or_else(|| Error::InvalidInput {
                what: format!("`--listen {}={}`", listen.port, listen.dialect),
                expected: format!("one of {}", dialects::DIALECTS.map(|dialect| dialect.name).join(", ")),
                found: format!("`{}`", listen.dialect),
            })?;
            sockets.push(bind(SocketAddr::new(options.address.ip(), listen.port))?);
            speaks.push(Some(dialect));
        }
        let sockets = sockets.into_iter().zip(speaks).map(|((socket, address), dialect)| (socket, address, dialect));
        Ok(Self { sockets: sockets.collect(), tls: options.tls.clone().map(Tls::open).transpose()? })
    }

    /// Answers requests until `stop` is done, then lets those under way end. `stop` is asked for again while they do; when
    /// it is done a second time, they are not waited for.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when another program has begun to listen on a port.
    pub async fn run<F>(
        self,
        service: Arc<Service>,
        on_ready: impl FnOnce(&[Address]),
        mut stop: impl FnMut() -> F,
    ) -> Result<()>
    where
        F: Future<Output = ()>,
    {
        let acceptor = self.tls.as_ref().map(Tls::acceptor).transpose()?;
        let (closing, closed) = watch::channel(false);
        let places = Places::new(descriptors::connections(service.options().limits.connections));
        let mut addresses = Vec::new();
        for (socket, address, dialect) in self.sockets {
            let listener = socket.listen(BACKLOG).map_err(|error| taken(address, &error))?;
            let host = Host {
                router: routes::router(&service, dialect),
                service: Arc::clone(&service),
                acceptor: acceptor.clone(),
                places: Arc::clone(&places),
                closed: closed.clone(),
            };
            addresses.push(Address { socket: address, dialect: dialect.map(|d| d.name), tls: acceptor.is_some() });
            tokio::spawn(host.accept(listener));
        }
        page_in::start(&service);
        drop(closed);
        tokio::spawn(look_after(Arc::clone(&service), self.tls));
        // Asked for before anybody knows where to send requests, so that a stop is never missed.
        let told = stop();
        on_ready(&addresses);
        told.await;
        service.drain();
        let under_way = service.active();
        log::event("draining", &[("requests", under_way.into()), ("hint", "a second signal stops at once".into())]);
        let limit = Instant::now() + service.options().limits.drain;
        let patient = tokio::select! {
            () = idle(&service, limit) => true,
            () = stop() => false,
        };
        service.end();
        let _ = closing.send(true);
        // Answers that are ready are sent whole; when all connections have ended, nobody watches `closing` any more.
        let soon = Instant::now() + LAST_ANSWERS;
        tokio::select! {
            _ = tokio::time::timeout_at(if patient { limit.max(soon) } else { soon }, closing.closed()) => {}
            () = stop() => {}
        }
        Ok(())
    }
}

/// Opens the index at `root` and serves it until the process is told to stop (SIGTERM or Ctrl-C).
///
/// # Errors
/// Those of [`Bound::new`] and of [`Retriever::open`].
pub fn serve(
    root: &Path,
    open: OpenOptions,
    options: ServeOptions,
    on_ready: impl FnOnce(&Service, &[Address]),
) -> Result<()> {
    descriptors::raise_limit();
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let bound = Bound::new(&options)?;
    let serving = Serving::new(Retriever::open(root, open)?, options.cached_queries)?;
    let service = Arc::new(Service::new(root, serving, options)?);
    let seen = Arc::clone(&service);
    let outcome = runtime.block_on(bound.run(service, move |addresses| on_ready(&seen, addresses), told_to_stop));
    super::trace::finish();
    log::event("stopped", &[]);
    log::finish();
    // A thread that hangs in a library must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// The threads that wait for clients.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    let threads = |error: std::io::Error| Error::Unavailable {
        what: "threads for the server".into(),
        found: error.to_string(),
        remedy: "stop other programs, or raise the limit of threads".into(),
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(threads)
}

/// Done when the process is told to stop after this call.
fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    async move {
        let [terminate, interrupt, hangup] = signals.map(async |signal| match signal {
            Ok(mut signal) => drop(signal.recv().await),
            // One that cannot be waited for ends the process by itself.
            Err(_) => std::future::pending().await,
        });
        tokio::select! {
            () = terminate => {}
            () = interrupt => {}
            () = hangup => {}
        }
    }
}

/// Gives up threads that hang, however long looking after the files takes.
async fn relieve(service: Arc<Service>) {
    let service = Arc::downgrade(&service);
    while let Some(service) = service.upgrade() {
        service.engine().relieve();
        drop(service);
        tokio::time::sleep(ROUND).await;
    }
}

pub(super) async fn look_after(service: Arc<Service>, tls: Option<Arc<Tls>>) {
    tokio::spawn(relieve(Arc::clone(&service)));
    let service = Arc::downgrade(&service);
    loop {
        tokio::time::sleep(ROUND).await;
        let Some(service) = service.upgrade() else { return };
        let tls = tls.clone();
        let round = move || {
            if let Some(tls) = tls {
                tls.renew();
            }
            let before = service.serving().retriever().generation().number();
            service.look_after();
            if before != service.serving().retriever().generation().number() {
                page_in::start(&service);
            }
        };
        // A round that fails is followed by another.
        let _ = tokio::task::spawn_blocking(round).await;
    }
}

/// Done when no request is under way.
async fn idle(service: &Service, limit: Instant) {
    while service.active() > 0 && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Serving others is a decision.
fn check_exposure(options: &ServeOptions) -> Result<()> {
    let is_origin = |origin: &str| {
        let named = origin.split_once("://").map(|(_, host)| host);
        named.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']))
    };
    if let Some(other) = options.origins.iter().find(|origin| !is_origin(origin)) {
        return Err(Error::InvalidInput {
            what: "`--allow-origin`".into(),
            expected: "an origin by name, such as `https://example.org`, as browsers send it: without a path".into(),
            found: format!("`{other}`"),
        });
    }
    if let Some(other) = options.hosts.iter().find(|host| host.is_empty() || host.contains(['/', '*', '@', ' '])) {
        return Err(Error::InvalidInput {
            what: "`--allow-host`".into(),
            expected: "a name as in an address, such as `search.example.org`".into(),
            found: format!("`{other}`"),
        });
    }
    if options.address.ip().is_loopback() || !options.tokens.is_empty() || options.insecure_no_auth {
        return Ok(());
    }
    Err(Error::InvalidInput {
        what: format!("`--host {}`", options.address.ip()),
        expected:
            "a token (`--token-file FILE` or HINDSEARCH_TOKEN), or `--insecure-no-auth`, where other machines can ask"
                .into(),
        found: "neither".into(),
    })
}

fn bind(address: SocketAddr) -> Result<(TcpSocket, SocketAddr)> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    open().map_err(|error| taken(address, &error))
}

fn taken(address: SocketAddr, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program has it; stop that one, or choose another `--port` (0 takes a free one)"
        }
        std::io::ErrorKind::PermissionDenied => "choose a `--port` from 1024 on",
        _ => "choose another `--host` or `--port`",
    };
    Error::Unavailable { what: format!("address {address}"), found: error.to_string(), remedy: remedy.into() }
}

/// One listener.
struct Host {
    router: Router,
    service: Arc<Service>,
    acceptor: Option<TlsAcceptor>,
    places: Arc<Places>,
    closed: watch::Receiver<bool>,
}

impl Host {
    async fn accept(self, listener: TcpListener) {
        let mut closed = self.closed.clone();
        let host = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = closed.changed() => return,
            };
            let (stream, client) = match accepted {
                Ok(accepted) => accepted,
                // Most likely no descriptors are left; trying again at once would only burn a core.
                Err(_) => {
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            let place = tokio::select! {
                place = host.places.take() => place,
                _ = closed.changed() => return,
            };
            let host = Arc::clone(&host);
            tokio::spawn(async move {
                // An answer is sent in one piece; waiting for more to send would only delay it.
                let _ = stream.set_nodelay(true);
                let seat = Seat::new(place, &host.service);
                match &host.acceptor {
                    None => host.converse(stream, client, seat).await,
                    Some(acceptor) => {
                        let limit = host.service.options().limits.head;
                        let mut closed = host.closed.clone();
                        tokio::select! {
                            stream = tokio::time::timeout(limit, acceptor.accept(stream)) => {
                                if let Ok(Ok(stream)) = stream {
                                    host.converse(stream, client, Arc::clone(&seat)).await;
                                }
                            }
                            () = seat.place.wanted.notified() => {}
                            _ = closed.changed() => {}
                        }
                    }
                }
            });
        }
    }

    async fn converse<S>(&self, stream: S, client: SocketAddr, seat: Arc<Seat>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self.service);
        let refuse = Box::new(move |status| observe::refuse(&service, client, status));
        let stream = Timed::new(stream, Arc::clone(&seat), &self.service.options().limits, refuse);
        let place = &seat.place;
        let (router, phase) = (self.router.clone(), place.phase.clone());
        let answer = service_fn(move |request: hyper::Request<HyperBody>| {
            phase.busy();
            let (router, phase) = (router.clone(), phase.clone());
            async move {
                let mut request: Request = request.map(axum::body::Body::new);
                request.extensions_mut().insert(ConnectInfo(client));
                let mut response = router.oneshot(request).await?;
                let memory = response.extensions_mut().remove::<Arc<Share>>();
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    phase.upgraded();
                }
                Ok::<_, std::convert::Infallible>(response.map(|body| Answering {
                    body,
                    phase,
                    rest: Bytes::new(),
                    _memory: memory,
                }))
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), answer).with_upgrades());
        let mut closed = self.closed.clone();
        let mut told = false;
        loop {
            tokio::select! {
                // Clients that go away, or do not speak HTTP, end here.
                _ = connection.as_mut() => return,
                // Told too late, when a request has begun, it means nothing.
                () = place.wanted.notified() => {
                    if place.phase.is_waiting() {
                        return;
                    }
                }
                _ = closed.changed(), if !told => {
                    if place.phase.is_waiting() {
                        return;
                    }
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
