//! `POST /hindsight/v1/critique`: what a failed episode should have searched for.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::Passage;
use hindsearch_retriever::serve::{Code, Fault, Incoming, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hindsight::{Critic, CriticOptions, Critique, RuleCritic, WrittenCritic, failures};
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
    /// Who says it.
    #[serde(default)]
    critic: Who,
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

/// Who writes critiques.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Who {
    /// A rule, by the passages that hold the answer.
    #[default]
    Rules,
    /// The server's judge, a language model.
    Judge,
}

/// What is said of an episode.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Criticised {
    /// Whether it failed. Of one that did not nothing is said.
    failed: bool,
    /// What to search for instead; null where a rule knows no passages of the task, where a judge's replies could not be used, and
    /// where nothing can be said within the options.
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
    batch::aside(incoming, move |items| criticise(&env, &service, &items)).await
}

/// An episode that waits for its critique.
struct Open {
    episode: Trajectory,
    task: Arc<Task>,
    critic: Who,
    options: CriticOptions,
    failed: bool,
}

/// Criticises all that failed, those together that want the same of the same critic.
fn criticise(env: &EnvServer, service: &Service, items: &[Value]) -> Vec<Result<Arc<str>, Fault>> {
    let open: Vec<Result<Open, Fault>> = items.iter().map(|item| read(env, item)).collect();
    let mut said: Vec<Result<Option<Critique>, Fault>> = open.iter().map(|_| Ok(None)).collect();
    let mut left: Vec<usize> = (0..open.len()).filter(|&at| matches!(&open[at], Ok(one) if one.failed)).collect();
    while let Some(Ok(first)) = left.first().map(|&at| &open[at]) {
        let alike =
            |at: &usize| open[*at].as_ref().is_ok_and(|one| one.critic == first.critic && one.options == first.options);
        let (now, later): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(alike);
        let shown: Vec<(&Task, &Trajectory)> =
            now.iter().filter_map(|&at| open[at].as_ref().ok()).map(|one| (&*one.task, &one.episode)).collect();
        let options = first.options.clone();
        let critic: Result<Box<dyn Critic>, Fault> = match (first.critic, env.judge()) {
            (Who::Rules, _) => RuleCritic::new(options, passages(service))
                .map(|critic| Box::new(critic) as _)
                .map_err(|error| fault(&error)),
            (Who::Judge, Some(judge)) => {
                WrittenCritic::new(judge, options).map(|critic| Box::new(critic) as _).map_err(|error| fault(&error))
            }
            (Who::Judge, None) => Err(Fault::new(Code::NotFound, "critic: no judge is served; start with `--judge`")),
        };
        match critic {
            Ok(critic) => {
                for (at, critique) in now.into_iter().zip(critic.critique(&shown)) {
                    said[at] = critique.map_err(|error| fault(&error));
                }
            }
            Err(refused) => now.into_iter().for_each(|at| said[at] = Err(refused.clone())),
        }
        left = later;
    }
    let answer = |(open, said): (Result<Open, Fault>, Result<Option<Critique>, Fault>)| {
        let (failed, critique) = (open?.failed, said?);
        let hint = critique.as_ref().map(|critique| critique.hint().text());
        write(&Criticised { failed, critique, hint })
    };
    open.into_iter().zip(said).map(answer).collect()
}

fn read(env: &EnvServer, item: &Value) -> Result<Open, Fault> {
    let CritiqueItem { trajectory, critic, options, ground_truth, passages } = batch::typed(item)?;
    let episode = checked(trajectory)?;
    let task = known(env, &episode, ground_truth.as_ref(), passages)?;
    let failed = !failures(&task, &[&episode]).is_empty();
    Ok(Open { episode, task, critic, options, failed })
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
