//! A resources server of NeMo Gym (`NVIDIA-NeMo/Gym`), for both of its kinds of agents: those that call tools (`seed_session`,
//! `search_passages`, `verify`) and those that step (`reset`, `step`). A session is a cookie, which every answer sets anew, for
//! the agents keep only the last answer's. Agents that are configured with host and port ask at the root, others under
//! `/nemo-gym`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use hindsearch_retriever::serve::{Code, Fault, Incoming, Service};
use serde_json::{Map, Value, json};

use super::lists::written;
use super::native::turn_of;
use super::play::{Outcome, Play};
use super::{EnvServer, batch, guest, native};
use crate::preset::Grammar;
use crate::rules::Message;
use crate::trajectory::{Author, Role, Span};

const COOKIE: &str = "hindsearch_session";
/// The tool under its own name, and as it is called where nothing else has that name.
pub(super) const TOOLS: [&str; 2] = ["search_passages", "search"];
/// What the policy is told when it may search no more.
const NO_MORE: &str = "No searches are left. Give the final answer now.";
/// Where NeMo Gym numbers rows.
const TASK_INDEX: &str = "_ng_task_index";

/// `POST /seed_session`.
pub(super) async fn seed_session(env: Arc<EnvServer>, _: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (row, incoming) = row(incoming).await?;
    let id = open(&env, &incoming.headers, &row)?.0;
    with_cookie(&id, &json!({}))
}

/// `POST /search_passages`: the tool.
pub(super) async fn search(env: Arc<EnvServer>, service: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (arguments, incoming) = row(incoming).await?;
    let query = arguments["query"].as_str().ok_or_else(|| Fault::invalid("query: expected a text"))?.to_owned();
    // Whoever asks without a session gets one, as in NeMo Gym.
    let id = match session(&incoming.headers).filter(|id| env.episodes.get(id).is_ok()) {
        Some(id) => id,
        None => open(&env, &incoming.headers, &json!({}))?.0,
    };
    let text = if turn_of(&env, &id).await?.play.trajectory.stop.is_some() {
        NO_MORE.to_owned()
    } else {
        let say =
            |episode: &super::episodes::Episode| Ok(Message::text(episode.play.rules.preset().grammar.asking(&query)));
        let outcome = guest::play(&env, &service, &id, incoming.deadline(1), say).await?;
        if outcome.info.index.is_some() { outcome.observation.trim().to_owned() } else { NO_MORE.to_owned() }
    };
    with_cookie(&id, &json!({ "result": text }))
}

/// `POST /verify`: what the response earns. The row comes back without its answers.
pub(super) async fn verify(env: Arc<EnvServer>, _: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (row, incoming) = row(incoming).await?;
    let rules = env.rules(row["preset"].as_str(), None)?;
    let output = output(&row)?;
    let task = guest::task_of(&env, &row)?;
    let preset = rules.preset();
    let trajectory = native::written(&rules, spans(&preset.grammar, output));
    let reward = preset.reward.score(preset, task.gold(), &trajectory);
    let calls = output.iter().filter(|item| item["type"] == "function_call").count();
    let mut answer = shown(row);
    answer.insert("reward".into(), reward.total.into());
    let parts: BTreeMap<&str, f64> = reward.terms.iter().map(|term| (term.name.as_str(), term.value)).collect();
    answer.insert("reward_components".into(), json!(parts));
    answer.insert("tool_calls".into(), calls.into());
    let id = session(&incoming.headers);
    if let Some(id) = &id {
        if let Ok(episode) = turn_of(&env, id).await {
            answer.insert("searches".into(), episode.play.trajectory.searches().into());
        }
        env.episodes.close(id);
    }
    with_cookie(id.as_deref().unwrap_or_default(), &Value::Object(answer))
}

/// `POST /reset`: an episode that is stepped.
pub(super) async fn reset(env: Arc<EnvServer>, _: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (row, incoming) = row(incoming).await?;
    let (id, play) = open(&env, &incoming.headers, &row)?;
    // A row mostly has its prompt already; then there is nothing to add.
    let input = &row["responses_create_params"]["input"];
    let has_prompt =
        input.as_str().is_some_and(|text| !text.is_empty()) || input.as_array().is_some_and(|list| !list.is_empty());
    let prompt: Vec<String> = play.messages().into_iter().map(|message| message.content).collect();
    let observation = (!has_prompt).then(|| prompt.join("\n\n"));
    with_cookie(&id, &json!({ "observation": observation, "info": { "task_id": play.trajectory.task } }))
}

/// `POST /step`.
pub(super) async fn step(env: Arc<EnvServer>, service: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (row, incoming) = row(incoming).await?;
    let output = output(&row)?.to_vec();
    let id =
        session(&incoming.headers).ok_or_else(|| Fault::invalid("no session; send `reset` first, and its cookie"))?;
    let call = output.iter().find(|item| item["type"] == "function_call");
    let call = call.and_then(|item| item["call_id"].as_str()).map(str::to_owned);
    let cut_off = row["response"]["incomplete_details"]["reason"] == "max_output_tokens";
    let say = |episode: &super::episodes::Episode| {
        let spans = spans(&episode.play.rules.preset().grammar, &output);
        let said = spans.into_iter().filter(|span| span.author == Author::Policy);
        Ok(Message { cut_off, ..Message::text(said.map(|span| span.text).collect::<String>()) })
    };
    let outcome = guest::play(&env, &service, &id, incoming.deadline(1), say).await?;
    if outcome.terminated || outcome.truncated {
        env.episodes.close(&id);
    }
    with_cookie(&id, &stepped(outcome, call))
}

fn stepped(outcome: Outcome, call: Option<String>) -> Value {
    let Outcome { observation, reward, terminated, truncated, info, .. } = outcome;
    let mut info = json!(info);
    let mut observation = Some(observation).filter(|text| !text.is_empty());
    if let Some((call, text)) = call.zip(observation.as_ref()) {
        // A call is answered as a call.
        info["tool_outputs"] = json!([{ "call_id": call, "output": json!({ "result": text.trim() }).to_string() }]);
        observation = None;
    }
    let reward = reward.unwrap_or(0.0);
    json!({ "observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info })
}

/// `POST /aggregate_metrics`: means, lowest and highest values of all numbers, of all rows and of each task's.
pub(super) async fn aggregate(_: Arc<EnvServer>, _: Arc<Service>, incoming: Incoming) -> Result<Response, Fault> {
    let (body, _incoming) = row(incoming).await?;
    let Some(rows) = body["verify_responses"].as_array() else {
        return Err(Fault::invalid("verify_responses: expected a list"));
    };
    let mut tasks: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    for row in rows {
        tasks.entry(row[TASK_INDEX].as_i64().unwrap_or(0)).or_default().push(row);
    }
    let all = statistics(&rows.iter().collect::<Vec<_>>());
    let groups = tasks.into_iter().map(|(index, rows)| {
        let mut group = statistics(&rows);
        group.insert(TASK_INDEX.into(), index.into());
        Value::Object(group)
    });
    let key = all.iter().filter(|(name, _)| name.starts_with("mean/"));
    let key: Map<String, Value> = key.map(|(name, value)| (name.clone(), value.clone())).collect();
    written(&json!({ "group_level_metrics": groups.collect::<Vec<_>>(), "agent_metrics": all, "key_metrics": key }))
}

fn statistics(rows: &[&Value]) -> Map<String, Value> {
    let mut columns: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, value) in rows.iter().filter_map(|row| row.as_object()).flatten() {
        let number = value.as_f64().or_else(|| value.as_bool().map(|holds| f64::from(u8::from(holds))));
        if let Some(number) = number.filter(|_| !name.starts_with('_')) {
            columns.entry(name).or_default().push(number);
        }
    }
    let statistics = columns.into_iter().flat_map(|(name, values)| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        [("mean", mean), ("min", lowest), ("max", highest)]
            .map(|(kind, value)| (format!("{kind}/{name}"), value.into()))
    });
    statistics.collect()
}

/// A new session for a row; the one of the cookie ends.
fn open(env: &EnvServer, headers: &HeaderMap, row: &Value) -> Result<(String, Play), Fault> {
    let rules = env.rules(row["preset"].as_str(), row.get("overrides"))?;
    let play = guest::begin(env, rules, row)?;
    if let Some(before) = session(headers) {
        env.episodes.close(&before);
    }
    let id = env.episodes.open(vec![play.clone()])?.into_iter().next();
    Ok((id.ok_or_else(|| Fault::internal("an episode without an id"))?, play))
}

fn session(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let mut own = pairs.filter(|(name, value)| *name == COOKIE && !value.is_empty());
    own.next().map(|(_, value)| value.trim_matches('"').to_owned())
}

fn with_cookie(id: &str, body: &Value) -> Result<Response, Fault> {
    let mut response = written(body)?;
    if !id.is_empty() {
        let cookie = HeaderValue::from_str(&format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Lax"));
        let cookie = cookie.map_err(|_| Fault::new(Code::InvalidInput, "the session's cookie is not one of ours"))?;
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn row(incoming: Incoming) -> Result<(Value, Incoming), Fault> {
    let (body, incoming) = batch::json(incoming).await?;
    if body.is_object() { Ok((body, incoming)) } else { Err(Fault::invalid("body: expected an object")) }
}

fn output(row: &Value) -> Result<&[Value], Fault> {
    let output = row["response"]["output"].as_array().map(Vec::as_slice);
    output.ok_or_else(|| Fault::invalid("response.output: expected a list of what was said and done"))
}

/// A row without anything in which an answer may stand.
fn shown(row: Value) -> Map<String, Value> {
    let Value::Object(mut row) = row else { return Map::new() };
    row.retain(|name, _| !guest::ANSWERS.contains(&name.as_str()) && name != "extra_info" && name != "metadata");
    row
}

/// The output of OpenAI's Responses interface as a record has it: what the policy said, its calls in the recipe's words, and what
/// came back.
fn spans(grammar: &Grammar, output: &[Value]) -> Vec<Span> {
    let span = |item: &Value| match item["type"].as_str() {
        Some("function_call") => {
            let arguments = item["arguments"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let query = arguments.as_ref().and_then(|arguments| arguments["query"].as_str());
            let said = grammar.asking(query.or(item["arguments"].as_str()).unwrap_or_default());
            Some(Span::new(Author::Policy, Role::Assistant, said))
        }
        Some("function_call_output") => {
            let text = item["output"].as_str().map_or_else(|| item["output"].to_string(), str::to_owned);
            Some(Span::new(Author::Environment, Role::Tool, text))
        }
        // A message whose type is not said.
        Some("message") | None => {
            let text = match &item["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
                _ => return None,
            };
            let (author, role) = match item["role"].as_str() {
                Some("assistant") | None => (Author::Policy, Role::Assistant),
                _ => (Author::Environment, Role::User),
            };
            Some(Span::new(author, role, text))
        }
        _ => None,
    };
    output.iter().filter_map(span).collect()
}
