//! A look at a run: a page that lists and filters trajectories and shows one with all that was done.
//!
//! | question | module |
//! |---|---|
//! | Which trajectories does a run hold? | `catalogue`: the places of all lines, and a summary of each |
//! | What does a list tell of one? | `summary` |
//! | Which ones are wanted, and in what order? | `query` |
//! | What does the page need to show one? | `detail`: masks, and places in the text as scripts count them |
//! | Which routes are there, and who may ask? | `http` |
//! | What does the reader see? | `pages/` |
//!
//! Passages are hostile. The page makes text of everything, and its policy runs no script that is not a file of its own.

mod catalogue;
mod detail;
mod http;
mod query;
mod summary;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::{Error, Result};

pub use catalogue::Catalogue;

/// A socket that is bound, and the run that is shown there.
pub struct Viewer {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    catalogue: Catalogue,
}

impl Viewer {
    /// Binds the socket; port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address that other machines can reach; [`Error::Unavailable`] for a port that is taken.
    pub fn bind(catalogue: Catalogue, address: SocketAddr) -> Result<Self> {
        if !address.ip().is_loopback() {
            return Err(Error::invalid(
                format!("`--host {}`", address.ip()),
                "an address of this machine alone, such as 127.0.0.1 (from elsewhere: `ssh -L 8700:127.0.0.1:8700 HOST`)",
                "one that others can reach",
            ));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Unavailable {
            what: "threads for the viewer".into(),
            found: error.to_string(),
            remedy: "stop other programs, or raise the limit of threads".into(),
        })?;
        let listen = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = runtime.block_on(listen).map_err(|error: std::io::Error| Error::Unavailable {
            what: format!("address {address}"),
            found: error.to_string(),
            remedy: "choose another `--port` (0 takes a free one)".into(),
        })?;
        Ok(Self { runtime, listener, address, catalogue })
    }

    /// Where it can be reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is done.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the socket fails.
    pub fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let Self { runtime, listener, address, catalogue } = self;
        let outcome = runtime.block_on(async {
            let server = axum::serve(listener, http::router(Arc::new(Mutex::new(catalogue))));
            tokio::select! {
                outcome = server.into_future() => outcome,
                () = stop => Ok(()),
            }
        });
        // Nobody waits for a page that is half sent.
        runtime.shutdown_background();
        outcome.map_err(|error| Error::Unavailable {
            what: format!("address {address}"),
            found: error.to_string(),
            remedy: "start the viewer again".into(),
        })
    }

    /// Answers until the process is told to stop (SIGTERM or Ctrl-C).
    ///
    /// # Errors
    /// As [`Viewer::run`].
    pub fn run_until_told(self) -> Result<()> {
        self.run(told_to_stop())
    }
}

/// Done at SIGTERM or Ctrl-C.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind| match signal(kind) {
        Ok(mut told) => drop(told.recv().await),
        // One that cannot be waited for ends the process by itself.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}
