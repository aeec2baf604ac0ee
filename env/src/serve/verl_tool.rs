//! verl-tool's tool server (`TIGER-AI-Lab/verl-tool`, `verl_tool/servers/serve.py`): `POST /get_observation` with the actions of
//! many trajectories, by ids that the client chose. What they ask first begins their episode.

use std::collections::HashSet;
use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming, Service};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::lists::written;
use super::play::Play;
use super::{EnvServer, batch, guest};
use crate::rules::Message;

/// Trajectories of a request.
const MOST: usize = 4096;

/// A trajectory's part of the answer.
struct Seen {
    observation: Value,
    done: bool,
    valid: bool,
}

/// Answers a request.
pub(super) async fn get_observation(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let (body, incoming) = batch::json(incoming).await?;
    let Value::Object(body) = body else { return Err(Fault::invalid("body: expected an object")) };
    let asked = read(&body)?;
    begin(&env, &asked)?;
    let until = incoming.deadline(asked.len());
    let mut seen: Vec<Option<Seen>> = Vec::new();
    seen.resize_with(asked.len(), || None);
    let mut under_way = JoinSet::new();
    for (number, asked) in asked.into_iter().enumerate() {
        let (env, service) = (Arc::clone(&env), Arc::clone(&service));
        under_way.spawn(async move {
            if asked.finish {
                env.episodes.close(&asked.id);
                return (number, Seen { observation: "".into(), done: true, valid: true });
            }
            let message = Message::text(asked.action);
            let played = guest::play(&env, &service, &asked.id, until, |_| Ok(message)).await;
            let seen = match played {
                Ok(outcome) => Seen {
                    done: outcome.terminated || outcome.truncated,
                    valid: outcome.info.valid,
                    observation: outcome.observation.into(),
                },
                // As its server tells of a tool that failed.
                Err(fault) => {
                    Seen { observation: json!({ "obs": "", "error": fault.message }), done: true, valid: false }
                }
            };
            (number, seen)
        });
    }
    while let Some(outcome) = under_way.join_next().await {
        if let Ok((number, answer)) = outcome {
            seen[number] = Some(answer);
        }
    }
    let defect = || Seen { observation: json!({ "obs": "", "error": "a defect" }), done: true, valid: false };
    let seen: Vec<Seen> = seen.into_iter().map(|seen| seen.unwrap_or_else(defect)).collect();
    let list = |part: fn(&Seen) -> Value| seen.iter().map(part).collect::<Vec<_>>();
    written(&json!({
        "observations": list(|seen| seen.observation.clone()),
        "dones": list(|seen| seen.done.into()),
        "valids": list(|seen| seen.valid.into()),
    }))
}

/// An action of a trajectory.
struct Asked {
    id: String,
    action: String,
    /// Whether the client has ended it.
    finish: bool,
    /// What came with it: question, answers, preset.
    row: Value,
}

fn read(body: &Map<String, Value>) -> Result<Vec<Asked>, Fault> {
    let list = |name: &str| {
        let list = body.get(name).and_then(Value::as_array);
        list.ok_or_else(|| Fault::invalid(format!("{name}: expected a list")))
    };
    let (ids, actions) = (list("trajectory_ids")?, list("actions")?);
    if ids.len() != actions.len() || ids.len() > MOST {
        let found = format!("{} and {}", ids.len(), actions.len());
        let expected = format!("as many trajectory_ids as actions, at most {MOST}");
        return Err(Fault::invalid(format!("trajectory_ids: expected {expected}, found {found}")));
    }
    // What has a value a trajectory belongs to its row, whatever it is called.
    let columns =
        body.iter().filter(|(name, _)| !["trajectory_ids", "actions", "extra_fields"].contains(&name.as_str()));
    let columns: Vec<(&String, &Vec<Value>)> =
        columns.filter_map(|(name, values)| Some((name, values.as_array()?))).collect();
    if let Some((name, values)) = columns.iter().find(|(_, values)| values.len() != ids.len()) {
        let message = format!("{}: expected {} values, found {}", name.escape_debug(), ids.len(), values.len());
        return Err(Fault::invalid(message));
    }
    let mut seen = HashSet::new();
    let mut asked = Vec::with_capacity(ids.len());
    for (number, (id, action)) in ids.iter().zip(actions).enumerate() {
        let id = match id {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return Err(Fault::invalid(format!("trajectory_ids[{number}]: expected a text"))),
        };
        if id.len() > 255 || !seen.insert(id.clone()) {
            return Err(Fault::invalid(format!("trajectory_ids[{number}]: expected at most 255 bytes, each id once")));
        }
        let action = action.as_str().ok_or_else(|| Fault::invalid(format!("actions[{number}]: expected a text")))?;
        let extra = body.get("extra_fields").and_then(|extra| extra.get(number)).and_then(Value::as_object);
        let mut row = extra.cloned().unwrap_or_default();
        row.extend(columns.iter().map(|(name, values)| ((*name).clone(), values[number].clone())));
        let finish = row.get("finish").and_then(Value::as_bool).unwrap_or(false);
        asked.push(Asked { id: format!("verl-tool/{id}"), action: action.to_owned(), finish, row: Value::Object(row) });
    }
    Ok(asked)
}

/// Begins the episodes of trajectories that were not seen before, or whose ids are used again, all or none.
fn begin(env: &EnvServer, asked: &[Asked]) -> Result<(), Fault> {
    let new = asked.iter().filter(|asked| !asked.finish && !env.episodes.is_live(&asked.id));
    let plays: Vec<(String, Play)> = new
        .map(|asked| {
            let rules = env.rules(asked.row["preset"].as_str(), None)?;
            Ok((asked.id.clone(), guest::begin(env, rules, &asked.row)?))
        })
        .collect::<Result<_, Fault>>()?;
    env.episodes.open_named(plays).map(drop)
}
