//! `POST /env/v1/transition` and `/env/v1/score`: the client holds the state. The server remembers nothing, so episodes can be
//! forked, gone on with, and sent to any of many servers.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use hindsearch_retriever::serve::{Code, Fault, Incoming, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::step::action_schema;
use crate::reward::RewardRules;
use crate::serve::play::{Outcome, Play};
use crate::serve::server::fault;
use crate::serve::{EnvServer, action, batch};
use crate::trajectory::{Author, Role, Span, TRAJECTORY_VERSION, Turn};
use crate::{Reward, Task, Trajectory};

/// An episode and its next message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct TransitionItem {
    /// The record so far, as `reset`, `step` and `transition` give it.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub trajectory: Trajectory,
    /// What the policy wrote.
    #[schemars(schema_with = "action_schema")]
    pub action: Value,
    /// Why it ended: `length` where a limit of tokens cut it off.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// The preset; the record's where none is named.
    #[serde(default)]
    pub preset: Option<String>,
    /// Fields of the preset that are to be others, the same as for the messages before.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub overrides: Option<Value>,
    /// The record's task. It need not be said: where the server has the task that the record names, the episode is scored.
    #[serde(default)]
    pub task_id: Option<String>,
    /// The accepted answers, where the server does not have the task: then the episode is scored.
    #[serde(default)]
    #[schemars(schema_with = "answers_schema")]
    pub ground_truth: Option<Value>,
}

/// Where the episode went.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Went {
    /// What came of the message.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The record, to go on with.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub trajectory: Trajectory,
}

/// What is to be scored: one of `trajectory`, `messages` and `text`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::serve) struct ScoreItem {
    /// A record.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub trajectory: Option<Trajectory>,
    /// A chat. What stands before the first message of the assistant is the prompt, what the assistant wrote is the policy's.
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    pub messages: Option<Vec<Value>>,
    /// All that the policy wrote.
    pub text: Option<String>,
    /// A task that the server has; of a record the one that it names, where this is not given.
    pub task_id: Option<String>,
    /// The accepted answers, where the server does not have the task.
    #[schemars(schema_with = "answers_schema")]
    pub ground_truth: Option<Value>,
    /// The preset whose tags and rewards hold; the record's, or the server's own.
    pub preset: Option<String>,
    /// A scorer in place of the preset's rewards.
    pub scorer: Option<String>,
    /// Rewards in place of the preset's, as a preset has them.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub reward: Option<Value>,
}

fn answers_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "description": "A text, a list of texts, or either as the `target` of an object",
        "type": ["string", "number", "array", "object", "null"],
    })
}

/// Answers each item.
pub(in crate::serve) async fn transition(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    batch::timed(incoming, |item, until| go_on(Arc::clone(&env), Arc::clone(&service), item, until)).await
}

async fn go_on(env: Arc<EnvServer>, service: Arc<Service>, item: Value, until: Instant) -> Result<Arc<str>, Fault> {
    let item: TransitionItem = batch::typed(&item)?;
    let trajectory = checked(item.trajectory)?;
    let rules = env.rules(Some(item.preset.as_deref().unwrap_or(&trajectory.preset)), item.overrides.as_ref())?;
    let task = task(&env, item.task_id.as_deref(), item.ground_truth.as_ref(), Some(&trajectory))?;
    let message = action::read(&rules.preset().grammar, &item.action, item.finish_reason.as_deref())?;
    let mut play = Play { rules, task, trajectory };
    let outcome = play.step(&service, message, until).await?;
    write(&Went { outcome, trajectory: play.trajectory })
}

/// Scores each item.
pub(in crate::serve) async fn score(env: Arc<EnvServer>, incoming: Incoming) -> Result<Response, Fault> {
    let (items, _incoming) = batch::items(incoming).await?;
    Ok(batch::each(items, |item| std::future::ready(judge(&env, &item).and_then(|reward| write(&reward)))).await)
}

fn judge(env: &EnvServer, item: &Value) -> Result<Reward, Fault> {
    let item: ScoreItem = batch::typed(item)?;
    // Another recipe than the one by which it was played would pay otherwise, so none is taken in its place.
    let own = item.trajectory.as_ref().map(|trajectory| trajectory.preset.as_str());
    let rules = env.rules(item.preset.as_deref().or(own), None)?;
    let preset = rules.preset();
    let trajectory = match (item.trajectory, item.messages, item.text) {
        (Some(trajectory), None, None) => checked(trajectory)?,
        (None, Some(messages), None) => written(&rules, spans(&messages)?),
        (None, None, Some(text)) => written(&rules, vec![Span::new(Author::Policy, Role::Assistant, text)]),
        _ => return Err(Fault::invalid("expected exactly one of `trajectory`, `messages` and `text`")),
    };
    let of = Some(&trajectory).filter(|trajectory| !trajectory.task.is_empty());
    let task = match task(env, item.task_id.as_deref(), item.ground_truth.as_ref(), of)? {
        Some(task) => task,
        None if of.is_some() => return Err(unknown(&trajectory)),
        None => return Err(Fault::invalid("expected `task_id` or `ground_truth`, found neither")),
    };
    let own = match (item.scorer, item.reward) {
        (None, None) => None,
        (Some(scorer), None) => Some(json!({ "terms": [{ "scorer": scorer }] })),
        (None, Some(reward)) => Some(reward),
        (Some(_), Some(_)) => return Err(Fault::invalid("expected `scorer` or `reward`, found both")),
    };
    let own = own.map(|own| {
        let rules: RewardRules = batch::typed(&own)?;
        rules.check().map_err(|wrong| fault(&wrong.of("item")))?;
        Ok::<_, Fault>(rules)
    });
    let own = own.transpose()?;
    Ok(own.as_ref().unwrap_or(&preset.reward).score(preset, task.gold(), &trajectory))
}

/// What a record is of that names a task which is not served; to score it with 0 would be a lie.
pub(in crate::serve) fn unknown(trajectory: &Trajectory) -> Fault {
    let id = trajectory.task.escape_debug();
    Fault::new(
        Code::NotFound,
        format!("trajectory.task: no task `{id}` here; send its `ground_truth`, or serve its `--tasks`"),
    )
}

/// The task by which an item is scored: the one that the client names, or that its record names, where it is served.
pub(in crate::serve) fn task(
    env: &EnvServer,
    id: Option<&str>,
    answers: Option<&Value>,
    of: Option<&Trajectory>,
) -> Result<Option<Arc<Task>>, Fault> {
    match (id, answers) {
        (None, None) => Ok(of.and_then(|trajectory| env.task(&trajectory.task).ok().cloned())),
        (Some(_), Some(_)) => Err(Fault::invalid("expected `task_id` or `ground_truth`, found both")),
        (Some(id), None) => match of {
            Some(trajectory) if trajectory.task != id => {
                Err(Fault::invalid(format!("task_id: the record is of task `{}`", trajectory.task.escape_debug())))
            }
            _ => env.task(id).cloned().map(Some),
        },
        (None, Some(answers)) => {
            // The question plays no part in a score.
            let question = of.map(|trajectory| trajectory.question.as_str()).filter(|text| !text.trim().is_empty());
            let row = json!({ "question": question.unwrap_or("?"), "ground_truth": answers });
            crate::tasks::from_row(&row).map(|task| Some(Arc::new(task))).map_err(|error| fault(&error))
        }
    }
}

/// A record whose parts belong together; it comes from outside.
pub(in crate::serve) fn checked(trajectory: Trajectory) -> Result<Trajectory, Fault> {
    let refuse = |what: String| Err(Fault::invalid(format!("trajectory: {what}; send it as it was received")));
    if trajectory.version != TRAJECTORY_VERSION {
        return refuse(format!("expected version {TRAJECTORY_VERSION}, found {}", trajectory.version));
    }
    let spans = &trajectory.spans;
    for (number, turn) in trajectory.turns.iter().enumerate() {
        let said = spans.get(turn.span).filter(|span| span.author == Author::Policy);
        let inside = |bytes: &crate::Bytes| said.is_some_and(|span| span.text.get(bytes.clone()).is_some());
        let seen = |at: usize| spans.get(at).is_some_and(|span| span.author == Author::Environment);
        if said.is_none() || !turn.content.as_ref().is_none_or(inside) || !turn.observation.is_none_or(seen) {
            return refuse(format!("turn {number} speaks of text that is not there"));
        }
    }
    for (number, span) in spans.iter().enumerate() {
        let tokens = span.tokens.len();
        let fits = |length: usize| length == 0 || length == tokens;
        let ends = span.ends.iter().all(|&end| span.text.is_char_boundary(end)) && span.ends.is_sorted();
        if !fits(span.logprobs.len()) || !fits(span.ends.len()) || !ends {
            return refuse(format!("the tokens of span {number} do not belong together"));
        }
    }
    Ok(trajectory)
}

/// A chat as spans.
fn spans(messages: &[Value]) -> Result<Vec<Span>, Fault> {
    let mut spans: Vec<Span> = Vec::with_capacity(messages.len());
    for (number, message) in messages.iter().enumerate() {
        let wrong = || Fault::invalid(format!("messages[{number}]: expected `role` and `content`, a text"));
        let text = message["content"].as_str().ok_or_else(wrong)?;
        let begun = spans.iter().any(|span| span.author == Author::Policy);
        let role: Role = Role::deserialize(&message["role"]).map_err(|_| wrong())?;
        let author = match role {
            Role::Assistant => Author::Policy,
            _ if begun => Author::Environment,
            _ => Author::Prompt,
        };
        spans.push(Span::new(author, role, text));
    }
    Ok(spans)
}

/// A record of what was written, with the actions that stand in it.
pub(in crate::serve) fn written(rules: &crate::Rules, spans: Vec<Span>) -> Trajectory {
    let said = spans.iter().enumerate().filter(|(_, span)| span.author == Author::Policy);
    let turns = said.map(|(number, span)| {
        let reading = crate::action::read(&rules.preset().grammar, &span.text);
        let next = spans.get(number + 1).filter(|span| span.author == Author::Environment);
        Turn {
            span: number,
            action: reading.action,
            content: reading.content,
            cut_off: false,
            found: None,
            observation: next.map(|_| number + 1),
            truncated: false,
            experience: Vec::new(),
        }
    });
    Trajectory {
        version: TRAJECTORY_VERSION,
        task: String::new(),
        sample: 0,
        source: String::new(),
        question: String::new(),
        preset: rules.preset().name.clone(),
        experience: Vec::new(),
        turns: turns.collect(),
        spans,
        stop: None,
        error: None,
        reward: None,
        critique: None,
    }
}

pub(in crate::serve) fn write(answer: &impl Serialize) -> Result<Arc<str>, Fault> {
    Ok(serde_json::to_string(answer).map_err(|error| Fault::internal(error.to_string()))?.into())
}
