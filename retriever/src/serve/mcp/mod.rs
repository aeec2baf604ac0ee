//! The Model Context Protocol: agents search and read the corpus by two tools, over HTTP at `/mcp` and over standard input
//! and output.
//!
//! | question | module |
//! |---|---|
//! | Which tools are there, and what do they answer? | `tools` |
//! | How do they hang in the server? | `http` |
//! | How does an agent run them as its own process? | `stdio` |

mod http;
mod stdio;
mod tools;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fault::{Code, Fault};
use super::log;
use super::service::Service;
pub(super) use http::{PATH, router};
pub use stdio::serve_stdio;

/// The handler of the protocol's requests.
#[derive(Clone)]
struct Handler(Arc<Service>);

/// When a request over HTTP must be answered.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let rows = self.0.serving().retriever().corpus().len();
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("hindsearch", env!("CARGO_PKG_VERSION")))
            .with_instructions(format!(
                "Ranked passages of a local corpus of {rows} passages. `search` finds passages by meaning, `fetch` reads one by \
                 its id. Search again in other words when the first passages do not answer the question."
            ))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(&self.0)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let deadline = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Deadline>());
        let deadline = deadline.map_or_else(|| Instant::now() + self.0.options().limits.deadline, |known| known.0);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let service = Arc::clone(&self.0);
        let outcome = match &*request.name {
            "search" => spared(&context, async move { tools::search(&service, arguments, deadline).await }).await,
            "fetch" => spared(&context, async move { tools::fetch(&service, arguments, deadline).await }).await,
            other => {
                let message = format!("no tool {other:?}, expected `search` or `fetch`");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(outcome.map_or_else(|fault| refusal(&fault), CallToolResult::structured).into())
    }
}

/// Does `work` unless the client takes its request back. The library would leave the client of work that panics waiting.
async fn spared(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<Value, Fault>> + Send + 'static,
) -> Result<Value, Fault> {
    // Ends its work when it is dropped.
    let mut task = JoinSet::new();
    task.spawn(work);
    tokio::select! {
        () = context.ct.cancelled() => Err(Fault::unavailable("the request was taken back")),
        done = task.join_next() => match done {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => Err(error.try_into_panic().map_or_else(
                |error| Fault::internal(error.to_string()),
                |panic| Fault::panicked(&*panic),
            )),
            None => Err(Fault::internal("no work")),
        },
    }
}

/// What went wrong in words, as the result of the tool: models read results, and can do better with the next call.
fn refusal(fault: &Fault) -> CallToolResult {
    if fault.code == Code::Internal {
        log::event("fault", &[("message", json!(fault.message))]);
    }
    let wait = fault.retry_after.map(|wait| wait.as_secs_f64().ceil().clamp(1.0, 30.0));
    let advice = wait.map_or(String::new(), |seconds| format!("; try again in {seconds} s"));
    CallToolResult::error(vec![ContentBlock::text(format!("{}{advice}", fault.message))])
}
