//! A connection with limits of time: for the head of a request, for silence between requests, and for a client that does
//! not take what it is sent. (The body's limit is in `incoming`: there it can still be answered.)

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::options::Limits;

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// What a connection is at: waiting for a request, reading its head, or answering it.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// The head is read; until the answer is sent, nothing is expected from the client.
    pub fn busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An answer's body; the connection is idle again when it has been sent.
pub(super) struct Answering {
    pub body: Body,
    pub phase: Phase,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.phase.0.store(IDLE, Ordering::Relaxed);
    }
}

/// Bytes to and from a client.
pub(super) struct Timed<S> {
    stream: S,
    phase: Phase,
    head: Duration,
    idle: Duration,
    stall: Duration,
    /// The phase that the reading clock is for.
    reading: Option<(u8, Pin<Box<Sleep>>)>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub fn new(stream: S, phase: Phase, limits: &Limits) -> Self {
        let (head, idle, stall) = (limits.head, limits.idle, limits.body_time);
        Self { stream, phase, head, idle, stall, reading: None, writing: None }
    }

    /// Fails once the time for the current phase is over.
    fn check_reading(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.phase.get();
        let limit = match phase {
            BUSY => {
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

    /// Fails once the client has taken nothing for too long.
    fn check_writing<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.writing = None;
            return outcome;
        }
        let stall = self.stall;
        let clock = self.writing.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + stall)));
        ready!(clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
                    self.phase.0.store(HEAD, Ordering::Relaxed);
                }
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_writing(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.check_writing(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.check_writing(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
