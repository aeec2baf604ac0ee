//! Every route, once.

use std::future::Future;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use hindsearch_retriever::serve::{Body, Fault, Incoming, MoreRoutes, Route, Service, Style, Verb, schema};
use serde_json::{Value, json};

use super::server::EnvServer;
use super::{batch, guest_schemas as guests, hindsight as teach, lists, native, nemo_gym, openenv, verl_tool};

impl EnvServer {
    /// The routes, to hang in a retrieval server.
    pub fn routes(self: &Arc<Self>) -> MoreRoutes {
        let env = Arc::clone(self);
        MoreRoutes::new(move || table(&env))
    }
}

/// What is told of a route.
struct Described {
    path: String,
    summary: &'static str,
    request: Option<Value>,
    response: Value,
}

impl Described {
    fn new(path: impl Into<String>, summary: &'static str, request: Option<Value>, response: Value) -> Self {
        Self { path: path.into(), summary, request, response }
    }
}

fn table(env: &Arc<EnvServer>) -> Vec<Route> {
    let groups =
        [native(env), hindsight(env), openenv(env), nemo_gym(env, ""), nemo_gym(env, "/nemo-gym"), verl_tool(env)];
    let mut routes: Vec<Route> = groups.into_iter().flatten().collect();
    let index = lists::Index::new(env, &routes);
    let described = Described::new("/env/v1", "What there is to play", None, schema::<lists::Index>());
    let tell = move |_, _, _| {
        let index = index.clone();
        async move { lists::written(&index) }
    };
    routes.insert(0, route(Verb::Get, "env", Style::Plain, described, answer(env, tell).get()));
    routes
}

/// A route that takes items.
fn items(path: &str, summary: &'static str, request: Value, response: Value) -> Described {
    Described::new(path, summary, Some(batch::schema(request)), batch::answers(response))
}

fn hindsight(env: &Arc<EnvServer>) -> Vec<Route> {
    let route = |described: Described, handler| route(Verb::Post, "hindsight", Style::Plain, described, handler);
    let critique = items(
        "/hindsight/v1/critique",
        "What failed episodes should have searched for",
        schema::<teach::CritiqueItem>(),
        schema::<teach::Criticised>(),
    );
    let block = items(
        "/hindsight/v1/block",
        "What attempts at the same task tell a teacher",
        schema::<teach::BlockItem>(),
        schema::<teach::Told>(),
    );
    let align = items(
        "/hindsight/v1/align",
        "Episodes with a hint, as a teacher reads them",
        schema::<teach::AlignItem>(),
        schema::<crate::hindsight::Aligned>(),
    );
    vec![
        route(critique, answer(env, teach::critique).post()),
        route(block, answer(env, teach::block).post()),
        route(align, answer(env, |_, _, incoming| teach::align(incoming)).post()),
    ]
}

fn native(env: &Arc<EnvServer>) -> Vec<Route> {
    let list = |path: &str, summary, request, response| Described::new(path, summary, request, response);
    let scored = json!({ "type": "object", "required": ["total", "terms"] });
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
            items("/env/v1/score", "What texts and records earn", schema::<native::ScoreItem>(), scored),
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

fn openenv(env: &Arc<EnvServer>) -> Vec<Route> {
    let route = |verb, path: &str, summary, request, response, handler| {
        route(verb, "openenv", Style::FastApi, Described::new(path, summary, request, response), handler)
    };
    let answered = || openenv::ANSWER.clone();
    let object = || json!({ "type": "object" });
    let socket = {
        let env = Arc::clone(env);
        get(move |state, upgrade| openenv::open(env, state, upgrade))
    };
    vec![
        route(
            Verb::Post,
            "/openenv/reset",
            "A new episode",
            Some(openenv::RESET.clone()),
            answered(),
            answer(env, openenv::reset).post(),
        ),
        route(
            Verb::Post,
            "/openenv/step",
            "A message for an episode",
            Some(openenv::STEP.clone()),
            answered(),
            answer(env, openenv::step).post(),
        ),
        route(
            Verb::Get,
            "/openenv/state",
            "How far an episode has come",
            Some(json!({ "type": "object", "properties": { "episode_id": { "type": "string" } } })),
            openenv::STATE.clone(),
            answer(env, openenv::state).get(),
        ),
        route(Verb::Get, "/openenv/schema", "Schemas", None, object(), answer(env, openenv::described).get()),
        route(Verb::Get, "/openenv/metadata", "What this is", None, object(), answer(env, openenv::metadata).get()),
        route(Verb::Get, "/openenv/health", "Whether it serves", None, object(), answer(env, openenv::health).get()),
        route(Verb::Get, "/openenv/ws", "A session over a WebSocket", None, object(), socket),
    ]
}

/// NeMo Gym's routes. `/search` is taken at the root.
fn nemo_gym(env: &Arc<EnvServer>, prefix: &str) -> Vec<Route> {
    let route = |name: &str, summary, [request, response]: [Value; 2], handler| {
        let described = Described::new(format!("{prefix}/{name}"), summary, Some(request), response);
        route(Verb::Post, "nemo-gym", Style::FastApi, described, handler)
    };
    let tools = nemo_gym::TOOLS.iter().filter(|name| !prefix.is_empty() || **name != "search");
    let mut routes = vec![
        route(
            "seed_session",
            "A new session",
            [guests::nemo_row(), guests::nemo_session()],
            answer(env, nemo_gym::seed_session).post(),
        ),
        route(
            "verify",
            "What a response earns",
            [guests::nemo_answered_row(), guests::nemo_verified()],
            answer(env, nemo_gym::verify).post(),
        ),
        route(
            "reset",
            "A new episode",
            [guests::nemo_row(), guests::nemo_begun()],
            answer(env, nemo_gym::reset).post(),
        ),
        route(
            "step",
            "A response in an episode",
            [guests::nemo_step(), guests::nemo_stepped()],
            answer(env, nemo_gym::step).post(),
        ),
        route(
            "aggregate_metrics",
            "Statistics of what was verified",
            [guests::nemo_rows(), guests::nemo_statistics()],
            answer(env, nemo_gym::aggregate).post(),
        ),
    ];
    routes.extend(tools.map(|name| {
        let bodies = [guests::nemo_query(), guests::nemo_found()];
        route(name, "Passages for a query", bodies, answer(env, nemo_gym::search).post())
    }));
    routes
}

fn verl_tool(env: &Arc<EnvServer>) -> Vec<Route> {
    let described = Described::new(
        "/get_observation",
        "What many trajectories see next",
        Some(guests::verl_actions()),
        guests::verl_observations(),
    );
    vec![route(Verb::Post, "verl-tool", Style::FastApi, described, answer(env, verl_tool::get_observation).post())]
}

fn route(
    verb: Verb,
    tag: &'static str,
    style: Style,
    described: Described,
    handler: MethodRouter<Arc<Service>>,
) -> Route {
    let Described { path, summary, request, response } = described;
    Route { verb, path, tag, summary: summary.into(), style, request, response: Body::Values(response), handler }
}

/// What is done with a request.
struct Answering<A> {
    env: Arc<EnvServer>,
    act: A,
}

/// Answers requests with `act`.
fn answer<A, F>(env: &Arc<EnvServer>, act: A) -> Answering<A>
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
    fn post(self) -> MethodRouter<Arc<Service>> {
        post(move |State(service): State<Arc<Service>>, incoming: Incoming| (self.act)(self.env, service, incoming))
    }

    fn get(self) -> MethodRouter<Arc<Service>> {
        get(move |State(service): State<Arc<Service>>, incoming: Incoming| (self.act)(self.env, service, incoming))
    }
}
