//! `POST /hindsight/v1/critique`: what a failed episode should have searched for.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::Passage;
use hindsearch_retriever::serve::{Fault, Incoming, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hindsight::{Critic, CriticOptions, Critique, RuleCritic, failures};
use crate::serve::native::{checked, task, unknown, write};
use crate::serve::server::fault;
use crate::serve::{EnvServer, batch};
use crate::{Task, Trajectory};

/// A failed episode.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct CritiqueItem {
    /// The record.
    #[schemars(with = "serde_json::Map<String, Value>")]
    trajectory: Trajectory,
    /// What the critic may see and say.
    #[serde(default)]
    options: CriticOptions,
    /// The accepted answers, where the server does not have the task.
    #[serde(default)]
    ground_truth: Option<Value>,
    /// Ids of the passages that hold the answer, in the order in which they are needed, where the server does not know them of the task.
    #[serde(default)]
    passages: Option<Vec<String>>,
}

/// What is said of an episode.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Criticised {
    /// Whether it failed. Of one that did not nothing is said.
    failed: bool,
    /// What to search for instead; null where no passages of the task are known, or nothing can be said within the options.
    critique: Option<Critique>,
    /// The critique as a teacher reads it.
    hint: Option<String>,
}

/// Answers each item.
pub(in crate::serve) async fn critique(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let (items, _incoming) = batch::items(incoming).await?;
    Ok(batch::each(items, |item| std::future::ready(criticise(&env, &service, &item))).await)
}

fn criticise(env: &EnvServer, service: &Service, item: &Value) -> Result<Arc<str>, Fault> {
    let item: CritiqueItem = batch::typed(item)?;
    let episode = checked(item.trajectory)?;
    let task = known(env, &episode, item.ground_truth.as_ref(), item.passages)?;
    let critic = RuleCritic::new(item.options, passages(service)).map_err(|error| fault(&error))?;
    let failed = !failures(&task, &[&episode]).is_empty();
    let said = if failed { critic.critique(&[(&task, &episode)]).pop() } else { None };
    let critique = said.transpose().map_err(|error| fault(&error))?.flatten();
    let hint = critique.as_ref().map(|critique| critique.hint().text());
    write(&Criticised { failed, critique, hint })
}

/// The task of a record, with the passages that the client names.
pub(super) fn known(
    env: &EnvServer,
    episode: &Trajectory,
    answers: Option<&Value>,
    passages: Option<Vec<String>>,
) -> Result<Arc<Task>, Fault> {
    let task = task(env, None, answers, Some(episode))?.ok_or_else(|| unknown(episode))?;
    Ok(match passages {
        Some(passages) => Arc::new(Arc::unwrap_or_clone(task).with_passages(passages)),
        None => task,
    })
}

/// The passages of the corpus that is served, by their ids.
pub(super) fn passages(service: &Service) -> impl Fn(&str) -> Option<Passage> + Send + Sync + use<> {
    let serving = service.serving();
    move |id| {
        let corpus = serving.retriever().corpus();
        corpus.row_of(id).ok().flatten().and_then(|row| corpus.get(row).ok())
    }
}
