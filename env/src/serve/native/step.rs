//! `POST /env/v1/step`: a message for each of many episodes. And `/env/v1/close`, for those that are given up.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::Trajectory;
use crate::serve::episodes::{Answer, Episode};
use crate::serve::play::Outcome;
use crate::serve::{EnvServer, action, batch};

/// Bytes of a key.
const LONGEST_KEY: usize = 255;

/// A message for an episode.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct StepItem {
    /// The episode.
    pub episode_id: String,
    /// What the policy wrote.
    #[schemars(schema_with = "action_schema")]
    pub action: Value,
    /// Why it ended: `length` where a limit of tokens cut it off.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// A name for this step: whoever asks again with it is answered the same, and nothing is done twice.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub idempotency_key: Option<String>,
    /// Whether the answer holds the episode's record.
    #[serde(default)]
    pub record: bool,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Stepped {
    /// The episode.
    pub episode_id: String,
    /// What came of the message.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The record, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub trajectory: Option<Trajectory>,
}

/// An episode that is given up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct CloseItem {
    /// The episode.
    pub episode_id: String,
}

pub(in crate::serve) fn action_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::try_from(action::schema()).unwrap_or_default()
}

/// Answers each item.
pub(in crate::serve) async fn step(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    batch::timed(incoming, |item, until| answer(Arc::clone(&env), Arc::clone(&service), item, until)).await
}

async fn answer(env: Arc<EnvServer>, service: Arc<Service>, item: Value, until: Instant) -> Result<Arc<str>, Fault> {
    let item: StepItem = batch::typed(&item)?;
    if item.idempotency_key.as_ref().is_some_and(|key| key.len() > LONGEST_KEY) {
        return Err(Fault::invalid(format!("idempotency_key: expected at most {LONGEST_KEY} bytes")));
    }
    let asked = item.idempotency_key.is_some().then(|| fingerprint(&item));
    let mut episode = turn_of(&env, &item.episode_id).await?;
    let before = item.idempotency_key.as_ref().and_then(|key| episode.answers.get(key));
    if let Some(before) = before {
        if Some(before.asked) == asked {
            return Ok(Arc::clone(&before.body));
        }
        return Err(Fault::invalid("idempotency_key: it was used for another step of this episode"));
    }
    let message = action::read(&episode.play.rules.preset().grammar, &item.action, item.finish_reason.as_deref())?;
    let mut play = episode.play.clone();
    let outcome = play.step(&service, message, until).await?;
    let trajectory = item.record.then(|| play.trajectory.clone());
    let stepped = Stepped { episode_id: item.episode_id, outcome, trajectory };
    let body = serde_json::to_string(&stepped).map_err(|error| Fault::internal(error.to_string()))?;
    let body: Arc<str> = body.into();
    let answer = asked.zip(item.idempotency_key).map(|(asked, key)| (key, Answer { asked, body: Arc::clone(&body) }));
    let known: usize = episode.answers.values().map(|answer| answer.body.len()).sum();
    let bytes = play.bytes() + known + answer.as_ref().map_or(0, |(_, answer)| answer.body.len());
    env.episodes.settle(&stepped.episode_id, bytes, play.trajectory.stop.is_some())?;
    episode.play = play;
    episode.answers.extend(answer);
    Ok(body)
}

/// The episode, once nobody else plays in it.
pub(in crate::serve) async fn turn_of(env: &EnvServer, id: &str) -> Result<OwnedMutexGuard<Episode>, Fault> {
    let seat = env.episodes.get(id)?;
    match Arc::clone(&seat).try_lock_owned() {
        Ok(episode) => Ok(episode),
        Err(_) => Ok(seat.lock_owned().await),
    }
}

fn fingerprint(item: &StepItem) -> blake3::Hash {
    let asked = (&item.action, &item.finish_reason, item.record);
    blake3::hash(&serde_json::to_vec(&asked).unwrap_or_default())
}

/// Forgets the episodes.
pub(in crate::serve) async fn close(env: Arc<EnvServer>, incoming: Incoming) -> Result<Response, Fault> {
    let (items, _incoming) = batch::items(incoming).await?;
    let answers = items.iter().map(|item| {
        let item: CloseItem = batch::typed(item)?;
        let closed = env.episodes.close(&item.episode_id);
        Ok(serde_json::json!({ "episode_id": item.episode_id, "closed": closed }).to_string().into())
    });
    Ok(batch::written(answers.map(batch::entry)))
}
