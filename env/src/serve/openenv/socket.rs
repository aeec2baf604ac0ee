//! `/openenv/ws`: a session, which is an episode at a time, as long as the socket is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use hindsearch_retriever::serve::{Code, Fault, Service};
use serde_json::{Map, Value, json};

use super::{begin, begun, message, nothing, stepped, told};
use crate::serve::native::turn_of;
use crate::serve::{EnvServer, guest};

/// Bytes of a message. A policy's turn has a few thousand.
const LARGEST: usize = 1 << 20;
/// Time for a client to take an answer.
const SENDING: Duration = Duration::from_secs(30);

/// Opens a session.
pub(in crate::serve) async fn open(
    env: Arc<EnvServer>,
    State(service): State<Arc<Service>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Fault> {
    let upgrade =
        upgrade.map_err(|refusal| Fault::invalid(format!("expected a WebSocket: {}", refusal.body_text())))?;
    let upgrade = upgrade.max_message_size(LARGEST).max_frame_size(LARGEST);
    Ok(upgrade.on_upgrade(move |socket| converse(Session { env, service, episode: None }, socket)))
}

struct Session {
    env: Arc<EnvServer>,
    service: Arc<Service>,
    /// The id in the table, and what the client calls it.
    episode: Option<(String, String)>,
}

/// An answer, and whether it is the last one.
struct Reply {
    body: Value,
    last: bool,
}

async fn converse(mut session: Session, mut socket: WebSocket) {
    let service = Arc::clone(&session.service);
    let idle = session.env.episodes.idle();
    loop {
        let received = tokio::select! {
            received = tokio::time::timeout(idle, socket.recv()) => received,
            () = service.draining() => break,
        };
        // Silence, the end, or something that is no WebSocket.
        let Ok(Some(Ok(message))) = received else { break };
        let reply = match message {
            Message::Text(text) => session.answer(text.as_str()).await,
            Message::Binary(_) => Some(refuse("INVALID_JSON", &Fault::invalid("expected a text, found bytes"))),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => break,
        };
        // The client said farewell.
        let Some(Reply { body, last }) = reply else { break };
        let sent = tokio::time::timeout(SENDING, socket.send(Message::Text(body.to_string().into()))).await;
        if last || !matches!(sent, Ok(Ok(()))) {
            break;
        }
    }
    drop(session);
    // A client that is gone cannot be told.
    let _ = tokio::time::timeout(SENDING, socket.send(Message::Close(None))).await;
}

impl Session {
    /// The answer to a message; none to a farewell.
    async fn answer(&mut self, text: &str) -> Option<Reply> {
        let message: Value = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return Some(refuse("INVALID_JSON", &Fault::invalid(format!("not JSON: {error}")))),
        };
        let data = match &message["data"] {
            Value::Null => Ok(Map::new()),
            Value::Object(data) => Ok(data.clone()),
            _ => Err(invalid(&Fault::invalid("data: expected an object"))),
        };
        let done = match (message["type"].as_str(), data) {
            (Some("close"), _) => return None,
            (Some("reset" | "step" | "mcp"), Err(refusal)) => Err(refusal),
            (Some("reset"), Ok(data)) => self.reset(&data).map(|data| reply("observation", data)),
            (Some("step"), Ok(data)) => self.step(&data).await.map(|data| reply("observation", data)),
            (Some("state"), _) => self.state().await.map(|data| reply("state", data)),
            (Some("mcp"), Ok(data)) => Ok(reply("mcp", no_tools(&data))),
            _ => Err(refuse("UNKNOWN_TYPE", &Fault::invalid("type: expected reset, step, state, close or mcp"))),
        };
        Some(done.unwrap_or_else(|refusal| refusal))
    }

    fn reset(&mut self, data: &Map<String, Value>) -> Result<Value, Reply> {
        let _under_way = self.service.enter_message().map_err(|fault| failed(&fault))?;
        let play = begin(&self.env, data).map_err(|fault| invalid(&fault))?;
        self.end();
        let opened = self.env.episodes.open(vec![play.clone()]);
        let ids =
            opened.map_err(|fault| if fault.code == Code::Overloaded { self.full(&fault) } else { failed(&fault) })?;
        let id = ids.into_iter().next().ok_or_else(|| failed(&Fault::internal("an episode without an id")))?;
        let name = data.get("episode_id").and_then(Value::as_str).unwrap_or(&id).to_owned();
        let answer = begun(&name, &play);
        self.episode = Some((id, name));
        Ok(answer)
    }

    fn full(&self, fault: &Fault) -> Reply {
        let mut reply = refuse("CAPACITY_REACHED", fault);
        let (active, most) = self.env.episodes.places();
        reply.body["data"]["active_sessions"] = active.into();
        reply.body["data"]["max_sessions"] = most.into();
        reply.end()
    }

    async fn step(&mut self, data: &Map<String, Value>) -> Result<Value, Reply> {
        let _under_way = self.service.enter_message().map_err(|fault| failed(&fault))?;
        let message = message(data).map_err(|fault| invalid(&fault))?;
        let Some((id, _)) = &self.episode else {
            return Err(failed(&Fault::invalid("no episode; send a reset first")));
        };
        let until = Instant::now() + self.service.options().limits.deadline;
        let played = guest::play(&self.env, &self.service, id, until, |_| Ok(message)).await;
        played.map(|outcome| stepped(&outcome)).map_err(|fault| match fault.code {
            Code::NotFound => refuse("SESSION_ERROR", &fault).end(),
            _ => failed(&fault),
        })
    }

    async fn state(&self) -> Result<Value, Reply> {
        let Some((id, name)) = &self.episode else { return Ok(nothing()) };
        let episode = turn_of(&self.env, id).await.map_err(|fault| refuse("SESSION_ERROR", &fault).end())?;
        Ok(told(name, &episode.play))
    }

    fn end(&mut self) {
        if let Some((id, _)) = self.episode.take() {
            self.env.episodes.close(&id);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn reply(kind: &str, data: Value) -> Reply {
    Reply { body: json!({ "type": kind, "data": data }), last: false }
}

fn refuse(code: &str, fault: &Fault) -> Reply {
    reply("error", json!({ "code": code, "message": fault.message }))
}

/// A message, or the fields in it, that cannot be used.
fn invalid(fault: &Fault) -> Reply {
    let (place, problem) = fault.message.split_once(": ").unwrap_or(("", &fault.message));
    let mut reply = refuse("VALIDATION_ERROR", fault);
    reply.body["data"]["errors"] = json!([{ "type": "value_error", "loc": [place], "msg": problem }]);
    reply
}

/// Something that could not be done.
fn failed(fault: &Fault) -> Reply {
    refuse("EXECUTION_ERROR", fault)
}

impl Reply {
    /// The session ends with it.
    fn end(self) -> Self {
        Self { last: true, ..self }
    }
}

/// Tools are at `/mcp`, where the whole protocol is spoken.
fn no_tools(request: &Map<String, Value>) -> Value {
    let message = "this environment has no tools; ask `/mcp`";
    let id = request.get("id").unwrap_or(&Value::Null);
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": message } })
}
