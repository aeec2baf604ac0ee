//! Episodes of other packages' clients. They know no keys, and what they are told of a failure may reach the policy; so what may
//! succeed later is tried again on their behalf.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{Fault, Service};
use serde_json::Value;

use super::episodes::Episode;
use super::native::turn_of;
use super::play::{Outcome, Play};
use super::server::EnvServer;
use crate::rules::Message;
use crate::{Rules, Task};

/// The first pause before another attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// Attempts at most.
const ATTEMPTS: u32 = 6;

/// Plays one message in an episode of the table.
pub(super) async fn play(
    env: &EnvServer,
    service: &Service,
    id: &str,
    until: Instant,
    message: impl FnOnce(&Episode) -> Result<Message, Fault>,
) -> Result<Outcome, Fault> {
    let mut episode = turn_of(env, id).await?;
    let message = message(&episode)?;
    let mut pause = PAUSE;
    for attempt in 1.. {
        let mut play = episode.play.clone();
        let stepped = match play.step(service, message.clone(), until).await {
            Ok(outcome) => env.episodes.settle(id, play.bytes(), play.trajectory.stop.is_some()).map(|()| outcome),
            Err(fault) => Err(fault),
        };
        match stepped {
            Ok(outcome) => {
                episode.play = play;
                return Ok(outcome);
            }
            Err(fault) => {
                let is_late = Instant::now() + pause >= until;
                if attempt == ATTEMPTS || is_late || !fault.code.status().is_server_error() {
                    return Err(fault);
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(Fault::internal("no attempt was made"))
}

/// Fields of rows that are accepted answers, or hold them.
pub(super) const ANSWERS: [&str; 11] = [
    "answer",
    "answers",
    "aug_answer",
    "aug_answers",
    "expected_answer",
    "expected_answers",
    "golden_answers",
    "ground_truth",
    "reward_model",
    "reward_spec",
    "target",
];

/// A new episode for a client's row: of the task that it names or is. One without answers can be played, and is not scored.
pub(super) fn begin(env: &EnvServer, rules: Rules, row: &Value) -> Result<Play, Fault> {
    match task_of(env, row) {
        Ok(task) => Ok(Play::begin(rules, task, 0)),
        Err(fault) if row["task_id"].is_string() || ANSWERS.iter().any(|name| row.get(name).is_some()) => Err(fault),
        Err(_) => {
            let question = row["question"].as_str().unwrap_or_default();
            let task = Task::new(question.to_owned(), Vec::new(), "unknown".into());
            Ok(Play { trajectory: rules.begin(&task, 0), rules, task: None })
        }
    }
}

/// The task that a row names or is.
pub(super) fn task_of(env: &EnvServer, row: &Value) -> Result<Arc<Task>, Fault> {
    let named = row["task_id"].as_str();
    env.choose(named, named.is_none().then_some(row), None)
}
