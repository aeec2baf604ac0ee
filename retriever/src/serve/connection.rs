//! A connection with limits of time: for the head of a request, for silence between requests, and for a client that takes
//! what it is sent too slowly. (The body's limit is in `incoming`: there it can still be answered.) And what a client is told
//! whose request has no head that can be read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::memory::Share;
use super::options::Limits;
use super::places::Place;
use super::service::Service;

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;
const SENDING: u8 = 3;
const UPGRADED: u8 = 4;

/// Bytes of an answer that are given out at once.
const PIECE: usize = 64 << 10;
/// Bytes that a client takes in the time allowed, or it is too slow.
const SHARE: usize = 1 << 20;
/// How long the rest of a request that was answered early is read.
const LINGER: Duration = Duration::from_secs(2);

/// What a connection is at: waiting for a request, reading its head, working on it, or sending the answer's end.
#[derive(Debug, Clone)]
pub(super) struct Phase(Arc<At>);

#[derive(Debug)]
struct At {
    phase: AtomicU8,
    /// Whether anything was ever asked.
    has_asked: AtomicBool,
    /// Milliseconds from `begun`.
    since: AtomicU64,
    begun: Instant,
}

impl Phase {
    /// Waiting for a first request.
    pub fn new(begun: Instant) -> Self {
        let (phase, has_asked, since) = (AtomicU8::new(IDLE), AtomicBool::new(false), AtomicU64::new(0));
        Self(Arc::new(At { phase, has_asked, since, begun }))
    }

    /// The head is read; until the answer is sent, nothing is expected from the client.
    pub fn busy(&self) {
        self.0.has_asked.store(true, Ordering::Relaxed);
        self.set(BUSY);
    }

    /// Whether the client has ever asked anything.
    pub fn has_asked(&self) -> bool {
        self.0.has_asked.load(Ordering::Relaxed)
    }

    /// From now on the connection speaks another protocol, which has clocks of its own.
    pub fn upgraded(&self) {
        self.set(UPGRADED);
    }

    /// Whether nothing is under way that the client waits for.
    pub fn is_waiting(&self) -> bool {
        matches!(self.get(), IDLE | HEAD)
    }

    /// How long nothing has been under way, if nothing is.
    pub fn waiting_for(&self) -> Option<Duration> {
        let since = self.0.since.load(Ordering::Relaxed);
        self.is_waiting().then(|| self.0.begun.elapsed().saturating_sub(Duration::from_millis(since)))
    }

    fn get(&self) -> u8 {
        self.0.phase.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        if self.get() == UPGRADED {
            return;
        }
        self.0.since.store(self.0.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.0.phase.store(phase, Ordering::Relaxed);
    }
}

/// An answer's body; once it is dropped, only what is in buffers is to be sent.
pub(super) struct Answering {
    pub body: Body,
    pub phase: Phase,
    /// What came of the body and has not been given out.
    pub rest: Bytes,
    /// A client that reads slowly holds on to it.
    pub _memory: Option<Arc<Share>>,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    /// A piece at a time: given all at once, hyper would take it into its own memory, and nobody would count it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        let most = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest + body.lower());
        if let Some(upper) = body.upper() {
            hint.set_upper(rest + upper);
        }
        hint
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.phase.set(SENDING);
    }
}

/// A connection's place, and its share in the gauge of connections.
pub(super) struct Seat {
    pub place: Place,
    service: Arc<Service>,
}

impl Seat {
    pub fn new(place: Place, service: &Arc<Service>) -> Arc<Self> {
        service.metrics().connections.inc();
        Arc::new(Self { place, service: Arc::clone(service) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.metrics().connections.dec();
    }
}

/// The whole answer to a request whose head cannot be read, by the status that hyper gives it.
pub(super) type Refuse = Box<dyn Fn(StatusCode) -> Vec<u8> + Send>;

/// Bytes to and from a client.
pub(super) struct Timed<S> {
    stream: S,
    /// Taken until the socket is closed, whichever protocol it speaks at the end.
    _seat: Arc<Seat>,
    phase: Phase,
    refuse: Refuse,
    /// The refusal that is being sent in place of hyper's own, and how much of it is sent.
    refusal: Option<(Vec<u8>, usize)>,
    head: Duration,
    idle: Duration,
    stall: Duration,
    /// The phase that the reading clock is for.
    reading: Option<(u8, Pin<Box<Sleep>>)>,
    /// The clock for the next bytes that the client takes, and their number so far.
    writing: Option<(Pin<Box<Sleep>>, usize)>,
    /// The clock for what still comes after the last answer.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub fn new(stream: S, seat: Arc<Seat>, limits: &Limits, refuse: Refuse) -> Self {
        let (phase, _seat) = (seat.place.phase.clone(), seat);
        let (head, idle, stall) = (limits.head, limits.idle, limits.body_time);
        let (reading, writing, lingering, refusal) = (None, None, None, None);
        Self { stream, _seat, phase, refuse, refusal, head, idle, stall, reading, writing, lingering }
    }

    /// Fails once the time for the current phase is over.
    fn check_reading(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.phase.get();
        let limit = match phase {
            BUSY | SENDING | UPGRADED => {
                self.reading = None;
                return Poll::Pending;
            }
            HEAD => self.head,
            _ => self.idle,
        };
        if self.reading.as_ref().is_none_or(|(armed, _)| *armed != phase) {
            self.reading = Some((phase, Box::pin(sleep_until(Instant::now() + limit))));
        }
        let Some((_, clock)) = &mut self.reading else { return Poll::Pending };
        ready!(clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Fails once the client has taken too little for too long.
    fn check_writing(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            if let (Some((_, taken)), Ok(bytes)) = (&mut self.writing, &outcome) {
                *taken += bytes;
            }
            self.writing.take_if(|(_, taken)| *taken >= SHARE);
            return Poll::Ready(outcome);
        }
        let stall = self.stall;
        let (clock, _) = self.writing.get_or_insert_with(|| (Box::pin(sleep_until(Instant::now() + stall)), 0));
        ready!(clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> Timed<S> {
    /// Whatever hyper writes while nobody works on a request is its answer to a head that it cannot read, a status without a
    /// word. Ours is sent in its place.
    fn send_refusal(&mut self, context: &mut Context<'_>, bare: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, refusal, refuse, .. } = self;
        let (answer, sent) = refusal.get_or_insert_with(|| {
            let status = bare.split(|byte| *byte == b' ').nth(1).and_then(|status| StatusCode::from_bytes(status).ok());
            (refuse(status.unwrap_or(StatusCode::BAD_REQUEST)), 0)
        });
        while *sent < answer.len() {
            *sent += match ready!(Pin::new(&mut *stream).poll_write(context, &answer[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => bytes,
            };
        }
        Poll::Ready(Ok(bare.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.check_reading(context),
            Poll::Ready(outcome) => {
                if buffer.filled().len() > before && self.phase.get() == IDLE {
                    self.phase.set(HEAD);
                }
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = if self.phase.is_waiting() {
            self.send_refusal(context, bytes)
        } else {
            Pin::new(&mut self.stream).poll_write(context, bytes)
        };
        self.check_writing(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.phase.is_waiting() {
            let first = buffers.iter().find(|buffer| !buffer.is_empty());
            return self.poll_write(context, first.map_or(&[], |buffer| buffer));
        }
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.check_writing(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        let sent = ready!(self.check_writing(context, outcome.map_ok(|()| 0)));
        self.writing = None;
        if self.phase.get() == SENDING {
            self.phase.set(IDLE);
            // The clock of the next silence, which nobody else starts: hyper does not read again before there are bytes.
            self.reading = None;
            let _ = self.check_reading(context);
        }
        Poll::Ready(sent.map(drop))
    }

    /// Says that nothing more will come, and reads on for a while: closing while a client still sends would take from it the
    /// answer that it has not read yet.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.lingering = Some(Box::pin(sleep_until(Instant::now() + LINGER)));
        }
        let mut unread = [0; 4096];
        let Self { stream, lingering: Some(clock), .. } = &mut *self else { return Poll::Ready(Ok(())) };
        loop {
            let mut buffer = ReadBuf::new(&mut unread);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Pending => return clock.as_mut().poll(context).map(Ok),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && !clock.is_elapsed() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
