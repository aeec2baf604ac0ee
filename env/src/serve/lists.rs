//! `GET /env/v1`, `/env/v1/presets` and `/env/v1/tasks`: what there is to ask for, and to choose from. Of tasks the question, never an answer.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use hindsearch_retriever::serve::{Fault, Incoming, Route, Verb};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::server::EnvServer;

/// Tasks of an answer, where the client does not say.
const PAGE: usize = 100;
/// Tasks of an answer at most.
const LARGEST_PAGE: usize = 1000;

/// A part of the tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TaskPage {
    /// In the order of the files.
    pub tasks: Vec<TaskFacts>,
    /// How many there are of this split and source.
    pub total: usize,
    /// The first one's number among them, from 0.
    pub offset: usize,
    /// The most that this answer may hold.
    pub limit: usize,
}

/// A task without its answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TaskFacts {
    /// Its id.
    pub task_id: String,
    /// What is asked.
    pub question: String,
    /// Its data set.
    pub source: String,
    /// Its id in the data set.
    pub source_id: Option<String>,
    /// Its split.
    pub split: Option<String>,
}

/// The presets.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Presets {
    /// The one that is played where none is named.
    pub default: String,
    /// All of them, as files of presets have them.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub presets: Vec<Value>,
}

/// What there is to play.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Index {
    /// How many tasks are served; `/env/v1/tasks` lists them.
    pub tasks: usize,
    /// Names of the presets; `/env/v1/presets` shows them.
    pub presets: Vec<String>,
    /// The one that is played where none is named.
    pub default_preset: String,
    /// The routes of all protocols; `/docs` and `/openapi.json` say what they take.
    pub routes: Vec<RouteFacts>,
}

/// A route in a line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct RouteFacts {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Its path.
    pub path: String,
    /// What it does.
    pub summary: String,
}

impl Index {
    /// Of these routes.
    pub fn new(env: &EnvServer, routes: &[Route]) -> Self {
        let facts = |route: &Route| RouteFacts {
            method: match route.verb {
                Verb::Get => "GET",
                Verb::Post => "POST",
            },
            path: route.path.clone(),
            summary: route.summary.clone(),
        };
        Self {
            tasks: env.tasks().len(),
            presets: env.presets().map(|preset| preset.name.clone()).collect(),
            default_preset: env.default_preset().to_owned(),
            routes: routes.iter().map(facts).collect(),
        }
    }
}

/// The parameters of [`tasks`].
pub(super) fn task_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "split": { "type": "string", "description": "Only those of this split" },
            "source": { "type": "string", "description": "Only those of this data set" },
            "offset": { "type": "integer", "minimum": 0, "description": "Tasks to leave out at the start" },
            "limit": { "type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "description": "Tasks in the answer; 100 where none is named" },
        },
    })
}

pub(super) async fn tasks(env: Arc<EnvServer>, incoming: Incoming) -> Result<Response, Fault> {
    let (split, source) = (incoming.parameter("split"), incoming.parameter("source"));
    let offset = number(&incoming, "offset", 0, 0..=usize::MAX)?;
    let limit = number(&incoming, "limit", PAGE, 1..=LARGEST_PAGE)?;
    let wanted = env.tasks().iter().filter(|task| {
        split.as_deref().is_none_or(|split| task.split() == Some(split))
            && source.as_deref().is_none_or(|source| task.source() == source)
    });
    let mut total = 0;
    let mut page = Vec::new();
    for task in wanted {
        if total >= offset && page.len() < limit {
            page.push(TaskFacts {
                task_id: task.id().to_owned(),
                question: task.question().to_owned(),
                source: task.source().to_owned(),
                source_id: task.source_id().map(str::to_owned),
                split: task.split().map(str::to_owned),
            });
        }
        total += 1;
    }
    written(&TaskPage { tasks: page, total, offset, limit })
}

pub(super) async fn presets(env: Arc<EnvServer>, _incoming: Incoming) -> Result<Response, Fault> {
    let presets = env.presets().map(serde_json::to_value).collect::<Result<_, _>>();
    let presets = presets.map_err(|error| Fault::internal(error.to_string()))?;
    written(&Presets { default: env.default_preset().to_owned(), presets })
}

fn number(
    incoming: &Incoming,
    name: &str,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Result<usize, Fault> {
    let Some(text) = incoming.parameter(name) else { return Ok(default) };
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (low, high) = (range.start(), range.end());
        Fault::invalid(format!("{name}: expected a whole number from {low} to {high}, found `{}`", text.escape_debug()))
    })
}

/// An answer as JSON.
pub(super) fn written(answer: &impl Serialize) -> Result<Response, Fault> {
    let body = serde_json::to_vec(answer).map_err(|error| Fault::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
