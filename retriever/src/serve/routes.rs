//! Every route, once: the router and the description of the interface are made from this table.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, get, post};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::api::{self, PassageResponse, SearchRequest, SearchResponse};
use super::dialects::{DIALECTS, Dialect, Operation, UNION, Verb};
use super::embeddings::{self, EmbedRequest, EmbeddingsRequest, EmbeddingsResponse};
use super::fault::Style;
use super::incoming::Incoming;
use super::observe::{Observer, observe};
use super::service::Service;
use super::{mcp, openapi, pages, perform, status};

/// A route and its description.
pub struct Route {
    /// The method that it knows.
    pub verb: Verb,
    /// The path, with its parts in braces.
    pub path: String,
    /// The heading in the description that it stands under.
    pub tag: &'static str,
    /// What it does, in a line.
    pub summary: String,
    /// How it words its errors.
    pub style: Style,
    /// The schema of the body, or of the parameters for GET.
    pub request: Option<Value>,
    /// What it answers.
    pub response: Body,
    /// What is done. It takes the request as an [`Incoming`](super::Incoming) and may fail with a [`Fault`](super::Fault).
    pub handler: MethodRouter<Arc<Service>>,
}

/// Routes of another crate, which hang in the same server: behind the same gate, within the same limits, with the same words
/// for errors, in the same log and the same description.
#[derive(Clone)]
pub struct MoreRoutes(Arc<dyn Fn() -> Vec<Route> + Send + Sync>);

impl MoreRoutes {
    /// Routes that are made anew for each listener.
    pub fn new(make: impl Fn() -> Vec<Route> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl std::fmt::Debug for MoreRoutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MoreRoutes(..)")
    }
}

/// What an answer that is no error looks like.
#[derive(Clone)]
pub enum Body {
    /// JSON, or MessagePack, of this schema.
    Values(Value),
    /// Text of one of these types.
    Text(&'static [&'static str]),
}

/// How each route words its errors.
#[derive(Default)]
pub(super) struct Styles(HashMap<String, Style>);

impl Styles {
    /// By the route that was matched; by the path where none was.
    pub fn of(&self, route: &str, path: &str) -> Style {
        let known = self.0.get(route).copied();
        known.unwrap_or(if path.starts_with("/dialect/") { Style::FastApi } else { Style::Plain })
    }
}

/// The routes of a listener: all of them, or those of one dialect with the ones that watch the server.
pub(super) fn router(service: &Arc<Service>, only: Option<&'static Dialect>) -> Router {
    let mut router = Router::new();
    let mut styles = Styles::default();
    for route in table(only, &service.options().more_routes) {
        styles.0.insert(route.path.clone(), route.style);
        router = router.route(&route.path, route.handler);
    }
    if only.is_none() {
        router = router.merge(mcp::router(service));
        styles.0.insert(mcp::PATH.into(), Style::JsonRpc);
    }
    let observer = Observer { service: Arc::clone(service), styles: Arc::new(styles) };
    router.layer(axum::middleware::from_fn_with_state(observer, observe)).with_state(Arc::clone(service))
}

/// The table.
pub(super) fn table(only: Option<&'static Dialect>, more: &[MoreRoutes]) -> Vec<Route> {
    let mut routes = watching();
    match only {
        Some(dialect) => {
            routes.extend(dialect.operations.iter().map(|op| of_dialect(dialect.name, op, op.path.into())))
        }
        None => {
            routes.extend(own());
            routes.extend(more.iter().flat_map(|more| more.0()));
            routes.push(of_dialect("default", &UNION, UNION.path.into()));
            for dialect in DIALECTS {
                let shared = dialect.operations.iter().filter(|op| op.on_default);
                routes.extend(shared.map(|op| of_dialect(dialect.name, op, op.path.into())));
                let path = |op: &Operation| format!("/dialect/{}{}", dialect.name, op.path);
                routes.extend(dialect.operations.iter().map(|op| of_dialect(dialect.name, op, path(op))));
                // Some clients ask for it under the address that they were given.
                let health = Body::Values(status::schema());
                let path = format!("/dialect/{}/health", dialect.name);
                routes.push(watch(&path, "Whether requests are answered", health, get(status::ready)));
            }
        }
    }
    routes
}

fn of_dialect(name: &'static str, operation: &'static Operation, path: String) -> Route {
    let handler = move |State(service): State<Arc<Service>>, incoming: Incoming| async move {
        perform::answer(operation, &service, incoming).await
    };
    Route {
        verb: operation.verb,
        path,
        tag: name,
        summary: operation.summary.into(),
        style: operation.style,
        request: Some((operation.request)()),
        response: Body::Values((operation.response)()),
        handler: match operation.verb {
            Verb::Get => get(handler),
            Verb::Post => post(handler),
        },
    }
}

/// Those that say how the server does.
fn watching() -> Vec<Route> {
    let route = |path: &str, summary: &str, handler| watch(path, summary, Body::Values(status::schema()), handler);
    let alive = Body::Values(json!({ "type": "object", "required": ["status"] }));
    vec![
        watch("/livez", "Whether the process is there", alive, get(status::live)),
        route("/readyz", "Whether requests are answered, and how far reading ahead has come", get(status::ready)),
        route("/healthz", "The same", get(status::ready)),
        route("/health", "The same", get(status::ready)),
        watch("/metrics", "Counters for Prometheus", Body::Text(&[status::OPEN_METRICS]), get(status::metrics)),
    ]
}

fn watch(path: &str, summary: &str, response: Body, handler: MethodRouter<Arc<Service>>) -> Route {
    let (style, path, summary) = (Style::Plain, path.to_owned(), summary.to_owned());
    Route { verb: Verb::Get, path, tag: "watching", summary, style, request: None, response, handler }
}

fn own() -> Vec<Route> {
    let route = |verb, path: &str, tag, summary: &str, schemas: (Option<Value>, Body), handler| Route {
        verb,
        path: path.into(),
        tag,
        summary: summary.into(),
        style: Style::Plain,
        request: schemas.0,
        response: schemas.1,
        handler,
    };
    let plain = (None, Body::Values(json!({ "type": "object" })));
    let page = (None, Body::Text(&["text/html"]));
    let files = (None, Body::Text(&["text/javascript", "text/css"]));
    let search = (Some(schema::<SearchRequest>()), Body::Values(schema::<SearchResponse>()));
    let passage = (None, Body::Values(schema::<PassageResponse>()));
    let openai = (Some(schema::<EmbeddingsRequest>()), Body::Values(schema::<EmbeddingsResponse>()));
    let tei = (Some(schema::<EmbedRequest>()), Body::Values(schema::<Vec<Vec<f32>>>()));
    let styled = |route: Route, style| Route { style, ..route };
    vec![
        route(Verb::Post, "/v1/search", "search", "Ranked passages for queries or vectors", search, post(api::search)),
        route(Verb::Get, "/v1/passages/{*id}", "search", "The passage of an id", passage, get(api::get_passage)),
        styled(
            route(
                Verb::Post,
                "/v1/embeddings",
                "embeddings",
                "Vectors, as OpenAI's interface has it",
                openai,
                post(embeddings::openai),
            ),
            Style::OpenAi,
        ),
        styled(
            route(Verb::Get, "/v1/models", "embeddings", "The model", plain.clone(), get(embeddings::models)),
            Style::OpenAi,
        ),
        styled(
            route(
                Verb::Post,
                "/embed",
                "embeddings",
                "Vectors, as Text Embeddings Inference has it",
                tei,
                post(embeddings::tei),
            ),
            Style::Tei,
        ),
        styled(route(Verb::Get, "/info", "embeddings", "What is served", plain.clone(), get(status::info)), Style::Tei),
        route(Verb::Get, "/openapi.json", "pages", "This description", plain, get(openapi::document)),
        route(Verb::Get, "/docs", "pages", "This description, to read and to try", page.clone(), get(pages::docs)),
        route(Verb::Get, "/", "pages", "A page to search with", page, get(pages::search)),
        route(Verb::Get, "/pages/{file}", "pages", "Scripts and styles of the pages", files, get(pages::file)),
    ]
}

/// The schema of a type, on its own.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
