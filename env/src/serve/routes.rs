//! Every route, once.

use std::future::Future;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use hindsearch_retriever::serve::{Body, Fault, Incoming, MoreRoutes, Route, Service, Style, Verb, schema};
use serde_json::{Value, json};

use super::server::EnvServer;
use super::{batch, lists, native};

impl EnvServer {
    /// The routes, to hang in a retrieval server.
    pub fn routes(self: &Arc<Self>) -> MoreRoutes {
        let env = Arc::clone(self);
        MoreRoutes::new(move || table(&env))
    }
}

/// A route with its description, and what is done.
pub(super) struct Described {
    pub path: &'static str,
    pub summary: &'static str,
    pub request: Option<Value>,
    pub response: Value,
}

fn table(env: &Arc<EnvServer>) -> Vec<Route> {
    native(env)
}

fn native(env: &Arc<EnvServer>) -> Vec<Route> {
    let items = |path, summary, request, response| Described {
        path,
        summary,
        request: Some(batch::schema(request)),
        response: batch::answers(response),
    };
    let list = |path, summary, request, response| Described { path, summary, request, response };
    let closed = json!({ "type": "object", "required": ["episode_id", "closed"] });
    let route = |verb, described: Described, handler| route(verb, "env", Style::Plain, described, handler);
    vec![
        route(
            Verb::Post,
            items("/env/v1/reset", "New episodes", schema::<native::ResetItem>(), schema::<native::Begun>()),
            answer(env, |env, _, incoming| native::reset(env, incoming)).post(),
        ),
        route(
            Verb::Post,
            items(
                "/env/v1/step",
                "A message for each episode",
                schema::<native::StepItem>(),
                schema::<native::Stepped>(),
            ),
            answer(env, native::step).post(),
        ),
        route(
            Verb::Post,
            items(
                "/env/v1/transition",
                "A message for each record that the client holds",
                schema::<native::TransitionItem>(),
                schema::<native::Went>(),
            ),
            answer(env, native::transition).post(),
        ),
        route(
            Verb::Post,
            items(
                "/env/v1/score",
                "What texts and records earn",
                schema::<native::ScoreItem>(),
                json!({ "type": "object", "required": ["total", "terms"] }),
            ),
            answer(env, |env, _, incoming| native::score(env, incoming)).post(),
        ),
        route(
            Verb::Post,
            items("/env/v1/close", "Forgets episodes", schema::<native::CloseItem>(), closed),
            answer(env, |env, _, incoming| native::close(env, incoming)).post(),
        ),
        route(
            Verb::Get,
            list("/env/v1/presets", "The presets", None, schema::<lists::Presets>()),
            answer(env, |env, _, incoming| lists::presets(env, incoming)).get(),
        ),
        route(
            Verb::Get,
            list("/env/v1/tasks", "Questions of tasks", Some(lists::task_parameters()), schema::<lists::TaskPage>()),
            answer(env, |env, _, incoming| lists::tasks(env, incoming)).get(),
        ),
    ]
}

pub(super) fn route(
    verb: Verb,
    tag: &'static str,
    style: Style,
    described: Described,
    handler: MethodRouter<Arc<Service>>,
) -> Route {
    let Described { path, summary, request, response } = described;
    Route {
        verb,
        path: path.into(),
        tag,
        summary: summary.into(),
        style,
        request,
        response: Body::Values(response),
        handler,
    }
}

/// What is done with a request.
pub(super) struct Answering<A> {
    env: Arc<EnvServer>,
    act: A,
}

/// Answers requests with `act`.
pub(super) fn answer<A, F>(env: &Arc<EnvServer>, act: A) -> Answering<A>
where
    A: Fn(Arc<EnvServer>, Arc<Service>, Incoming) -> F,
{
    Answering { env: Arc::clone(env), act }
}

impl<A, F> Answering<A>
where
    A: Fn(Arc<EnvServer>, Arc<Service>, Incoming) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Fault>> + Send + 'static,
{
    pub fn post(self) -> MethodRouter<Arc<Service>> {
        post(move |State(service): State<Arc<Service>>, incoming: Incoming| (self.act)(self.env, service, incoming))
    }

    pub fn get(self) -> MethodRouter<Arc<Service>> {
        get(move |State(service): State<Arc<Service>>, incoming: Incoming| (self.act)(self.env, service, incoming))
    }
}
