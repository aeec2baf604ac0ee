//! OpenEnv's routes beside the socket.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming, Readiness, Service};
use serde_json::{Map, Value};

use super::{begin, begun, message, nothing, stepped, told};
use crate::serve::lists::written;
use crate::serve::native::turn_of;
use crate::serve::{EnvServer, batch, guest, openenv};

/// `POST /openenv/reset`.
pub(in crate::serve) async fn reset(
    env: Arc<EnvServer>,
    _: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let (data, _incoming) = object(incoming).await?;
    let play = begin(&env, &data)?;
    let ids = env.episodes.open(vec![play.clone()])?;
    let id = ids.first().ok_or_else(|| Fault::internal("an episode without an id"))?;
    written(&begun(id, &play))
}

/// `POST /openenv/step`.
pub(in crate::serve) async fn step(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let (data, incoming) = object(incoming).await?;
    let action = data.get("action").and_then(Value::as_object);
    let action = action.ok_or_else(|| Fault::invalid("action: expected an object"))?;
    let id = data.get("episode_id").and_then(Value::as_str).ok_or_else(|| {
        Fault::invalid("episode_id: expected the one in `observation.metadata` of the reset; or open a session at `ws`")
    })?;
    let message = message(action)?;
    let outcome = guest::play(&env, &service, id, incoming.deadline(1), |_| Ok(message)).await?;
    written(&stepped(&outcome))
}

/// `GET /openenv/state`.
pub(in crate::serve) async fn state(
    env: Arc<EnvServer>,
    _: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let Some(id) = incoming.parameter("episode_id") else { return written(&nothing()) };
    let episode = turn_of(&env, &id).await?;
    written(&told(&id, &episode.play))
}

/// `GET /openenv/schema`.
pub(in crate::serve) async fn described(_: Arc<EnvServer>, _: Arc<Service>, _: Incoming) -> Result<Response, Fault> {
    written(&*openenv::SCHEMAS)
}

/// `GET /openenv/metadata`.
pub(in crate::serve) async fn metadata(_: Arc<EnvServer>, _: Arc<Service>, _: Incoming) -> Result<Response, Fault> {
    written(&*openenv::METADATA)
}

/// `GET /openenv/health`.
pub(in crate::serve) async fn health(_: Arc<EnvServer>, service: Arc<Service>, _: Incoming) -> Result<Response, Fault> {
    match service.readiness() {
        Readiness::Ready => written(&*openenv::HEALTH),
        Readiness::NotReady(reason) => Err(Fault::unavailable(reason)),
    }
}

/// The fields of a body; an empty one has none.
async fn object(incoming: Incoming) -> Result<(Map<String, Value>, Incoming), Fault> {
    if incoming.body.is_empty() {
        return Ok((Map::new(), incoming));
    }
    match batch::json(incoming).await? {
        (Value::Object(fields), incoming) => Ok((fields, incoming)),
        _ => Err(Fault::invalid("body: expected an object")),
    }
}
