//! The protocol over standard input and output, for an agent that starts the server as its own process.

use std::path::Path;
use std::sync::Arc;

use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::stdio;

use super::Handler;
use crate::serve::options::ServeOptions;
use crate::serve::server::{look_after, runtime};
use crate::serve::service::Service;
use crate::serve::serving::Serving;
use crate::{Error, OpenOptions, Result, Retriever};

/// Opens the index at `root` and answers on standard output what is asked on standard input, until that ends. Of `options`
/// only what concerns searches counts: there is no listener.
///
/// # Errors
/// Those of [`Retriever::open`]; [`Error::InvalidInput`] when whoever speaks does not speak the protocol.
pub fn serve_stdio(
    root: &Path,
    open: OpenOptions,
    options: ServeOptions,
    on_ready: impl FnOnce(&Service),
) -> Result<()> {
    let runtime = runtime()?;
    let serving = Serving::new(Retriever::open(root, open)?, options.cached_queries)?;
    let service = Arc::new(Service::new(root, serving, options)?);
    on_ready(&service);
    runtime.spawn(look_after(Arc::clone(&service), None));
    let outcome = runtime.block_on(converse(service));
    crate::serve::log::finish();
    // A thread that waits for input, or hangs in a library, must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn converse(service: Arc<Service>) -> Result<()> {
    match serve_server(Handler(service), stdio()).await {
        Ok(running) => {
            // However it ends, nobody is there any more who could be told.
            let _ = running.waiting().await;
            Ok(())
        }
        // The other side went away before it said anything, or while it was answered.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. }) => Ok(()),
        Err(error) => Err(Error::InvalidInput {
            what: "standard input".into(),
            expected: "a client of the Model Context Protocol, which begins with `initialize`".into(),
            found: error.to_string(),
        }),
    }
}
