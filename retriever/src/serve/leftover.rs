//! What a client still sends when its answer is known already. To close on it would reset the connection, and the client
//! would see that in place of the answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Body as _, Frame, SizeHint};

use super::engine::lock;

/// How long a client may go on.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request's body, to be read to its end when the one it was for has dropped it.
#[derive(Clone)]
pub(super) struct Leftover(Arc<Mutex<Body>>);

impl Leftover {
    /// The request as it was, and its body once more.
    pub fn of(request: Request) -> (Request, Self) {
        let (parts, body) = request.into_parts();
        let leftover = Self(Arc::new(Mutex::new(body)));
        (Request::from_parts(parts, Body::new(leftover.clone())), leftover)
    }

    /// Reads up to `most` bytes for a while, and forgets them.
    pub async fn drain(mut self, most: usize) {
        if self.is_end_stream() {
            return;
        }
        let read = async {
            let mut read = 0;
            while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > most {
                    return;
                }
            }
        };
        // Whoever is not done by then loses the answer.
        let _ = tokio::time::timeout(PATIENCE, read).await;
    }
}

impl hyper::body::Body for Leftover {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *lock(&self.0)).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).size_hint()
    }
}
