//! OpenEnv (`huggingface/OpenEnv`, package `openenv`), under `/openenv`: its clients are given `http://HOST:PORT/openenv`.
//!
//! A session is a WebSocket at `/openenv/ws`, one episode at a time. Over HTTP, where OpenEnv itself forgets everything between
//! two calls, a reset answers with the `episode_id` that a step is to name.

mod http;
mod schemas;
mod socket;

use hindsearch_retriever::serve::Fault;
use serde_json::{Map, Value, json};

use super::guest;
use super::play::{Outcome, Play};
use super::server::EnvServer;
use crate::rules::Message;

pub(super) use http::{described, health, metadata, reset, state, step};
pub(super) use schemas::{ANSWER, HEALTH, METADATA, RESET, SCHEMAS, STATE, STEP};
pub(super) use socket::open;

/// An episode as a reset wants it. Like OpenEnv's own server this takes no notice of what it does not know.
fn begin(env: &EnvServer, data: &Map<String, Value>) -> Result<Play, Fault> {
    let given = |name: &str| data.get(name).filter(|value| !value.is_null());
    let text = |name: &str| match given(name) {
        Some(value) => value.as_str().map(Some).ok_or_else(|| Fault::invalid(format!("{name}: expected a text"))),
        None => Ok(None),
    };
    let whole = |name: &str| match given(name) {
        Some(value) => value.as_u64().map(Some).ok_or_else(|| Fault::invalid(format!("{name}: expected 0 or more"))),
        None => Ok(None),
    };
    if text("episode_id")?.is_some_and(|id| id.chars().count() > 255) {
        return Err(Fault::invalid("episode_id: expected at most 255 characters"));
    }
    let rules = env.rules(text("preset")?, given("overrides"))?;
    let (seed, sample) = (whole("seed")?, whole("sample")?.unwrap_or(0));
    let sample = u32::try_from(sample).map_err(|_| Fault::invalid("sample: expected fewer than 2^32"))?;
    let named = text("task_id")?;
    if named.is_none() && given("task").is_none() && given("question").is_some() {
        return guest::begin(env, rules, &Value::Object(data.clone()));
    }
    Ok(Play::begin(rules, env.choose(named, given("task"), seed)?, sample))
}

/// What a reset answers.
fn begun(id: &str, play: &Play) -> Value {
    let prompt: Vec<String> = play.messages().into_iter().map(|message| message.content).collect();
    let metadata = json!({ "episode_id": id, "task_id": play.trajectory.task });
    json!({ "observation": { "text": prompt.join("\n\n"), "metadata": metadata }, "reward": null, "done": false })
}

/// What a step answers. Metadata stands in the observation, where all versions of the client look for it.
fn stepped(outcome: &Outcome) -> Value {
    let info = &outcome.info;
    let metadata = json!({ "action": info.action, "turns": info.turns, "searches": info.searches, "stop": info.stop });
    json!({
        "observation": { "text": outcome.observation, "metadata": metadata },
        "reward": outcome.reward,
        "done": outcome.terminated || outcome.truncated,
    })
}

/// The only action: a message of the policy.
fn message(action: &Map<String, Value>) -> Result<Message, Fault> {
    let known = ["text", "metadata"];
    if let Some(other) = action.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Fault::invalid(format!("{}: not a field of an action", other.escape_debug())));
    }
    match action.get("text") {
        Some(Value::String(text)) => Ok(Message::text(text.as_str())),
        Some(_) => Err(Fault::invalid("text: expected a text")),
        None => Err(Fault::invalid("text: missing")),
    }
}

/// The state of an episode.
fn told(id: &str, play: &Play) -> Value {
    let trajectory = &play.trajectory;
    json!({
        "episode_id": id, "step_count": trajectory.turns.len(), "task_id": trajectory.task, "preset": trajectory.preset,
        "searches": trajectory.searches(), "stop": trajectory.stop,
    })
}

/// The state where there is no episode.
fn nothing() -> Value {
    json!({ "episode_id": null, "step_count": 0 })
}
