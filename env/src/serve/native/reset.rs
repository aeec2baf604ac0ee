//! `POST /env/v1/reset`: new episodes.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Trajectory;
use crate::serve::play::{ChatMessage, Play};
use crate::serve::{EnvServer, action, batch};

/// An episode that is wanted. Without `task_id` and `task` the seed chooses a task; without a seed, chance does.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::serve) struct ResetItem {
    /// A task that the server has.
    pub task_id: Option<String>,
    /// A task of the client's own, as a row of any data set that can be read: `question`, `ground_truth`, `data_source`.
    #[schemars(schema_with = "row")]
    pub task: Option<Value>,
    /// The preset; the server's own where none is named.
    pub preset: Option<String>,
    /// Fields of the preset that are to be others: `{"limits": {"turns": 8}}`.
    #[schemars(schema_with = "row")]
    pub overrides: Option<Value>,
    /// Which of the task's plays this is, from 0.
    pub sample: u32,
    /// Chooses the task where none is named.
    pub seed: Option<u64>,
    /// Whether the answer holds the episode's record, with which `/env/v1/transition` goes on.
    pub record: bool,
}

/// An episode that has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Begun {
    /// What the episode is called in steps.
    pub episode_id: String,
    /// The task.
    pub task_id: String,
    /// The data set of the task.
    pub source: String,
    /// The preset.
    pub preset: String,
    /// The prompt. A last message of the role `assistant` is to be continued.
    pub messages: Vec<ChatMessage>,
    /// Strings that end a message of the policy; they belong to it.
    pub stop: Vec<String>,
    /// Tools, as OpenAI's interface describes them; none where queries are written between tags.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub tools: Vec<Value>,
    /// Limits of the episode: turns, searches, tokens.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub limits: Value,
    /// The record, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub trajectory: Option<Trajectory>,
}

fn row(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": ["object", "null"] })
}

/// Answers each item.
pub(in crate::serve) async fn reset(env: Arc<EnvServer>, incoming: Incoming) -> Result<Response, Fault> {
    let (items, _incoming) = batch::items(incoming).await?;
    let wanted: Vec<Result<(Play, bool), Fault>> = items.iter().map(|item| begin(&env, item)).collect();
    let good = wanted.iter().filter_map(|wanted| Some(wanted.as_ref().ok()?.0.clone()));
    // All of them or none: half a batch is of no use to whoever asks again.
    let mut ids = env.episodes.open(good.collect())?.into_iter();
    let answers = wanted.into_iter().map(|wanted| {
        let (play, record) = wanted?;
        // There are as many as good items.
        let id = ids.next().ok_or_else(|| Fault::internal("an episode without an id"))?;
        describe(id, &play, record)
    });
    Ok(batch::written(answers.map(batch::entry)))
}

fn begin(env: &EnvServer, item: &Value) -> Result<(Play, bool), Fault> {
    let item: ResetItem = batch::typed(item)?;
    let rules = env.rules(item.preset.as_deref(), item.overrides.as_ref())?;
    let task = env.choose(item.task_id.as_deref(), item.task.as_ref(), item.seed)?;
    Ok((Play::begin(rules, task, item.sample), item.record))
}

fn describe(id: String, play: &Play, record: bool) -> Result<Arc<str>, Fault> {
    let preset = play.rules.preset();
    let failed = |error: serde_json::Error| Fault::internal(error.to_string());
    let begun = Begun {
        episode_id: id,
        task_id: play.trajectory.task.clone(),
        source: play.trajectory.source.clone(),
        preset: preset.name.clone(),
        messages: play.messages(),
        stop: preset.grammar.stop.clone(),
        tools: action::tools(&preset.grammar),
        limits: serde_json::to_value(&preset.limits).map_err(failed)?,
        trajectory: record.then(|| play.trajectory.clone()),
    };
    Ok(serde_json::to_string(&begun).map_err(failed)?.into())
}
