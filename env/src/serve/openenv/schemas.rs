//! What the bodies of OpenEnv's routes are, as JSON Schemas; `/openenv/schema` gives three of them to clients.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// An action has exactly one required field, so that adapters can take a policy's plain text for it.
static ACTION: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "title": "SearchAction", "type": "object", "additionalProperties": false, "required": ["text"],
        "properties": {
            "text": { "title": "Text", "type": "string", "description": "What the policy wrote" },
            "metadata": { "title": "Metadata", "type": "object", "additionalProperties": true },
        },
    })
});

static OBSERVATION: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "title": "SearchObservation", "type": "object", "additionalProperties": false, "required": ["text"],
        "properties": {
            "text": { "title": "Text", "type": "string", "description": "The prompt; after a step what it brought" },
            "done": { "title": "Done", "type": "boolean", "default": false },
            "reward": { "title": "Reward", "anyOf": [{ "type": "number" }, { "type": "null" }], "default": null },
            "metadata": { "title": "Metadata", "type": "object", "additionalProperties": true },
        },
    })
});

/// The state of a session.
pub(in crate::serve) static STATE: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "title": "State", "type": "object", "additionalProperties": true,
        "properties": {
            "episode_id": { "title": "Episode Id", "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null },
            "step_count": { "title": "Step Count", "type": "integer", "minimum": 0, "default": 0 },
        },
    })
});

/// A reset.
pub(in crate::serve) static RESET: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "seed": { "type": ["integer", "null"], "minimum": 0, "description": "Chooses the task where none is named" },
            "episode_id": { "type": ["string", "null"], "maxLength": 255, "description": "What the session is called in its state" },
            "task_id": { "type": ["string", "null"] },
            "task": { "type": ["object", "null"], "description": "A task of the client's own, as a row of a data set" },
            "preset": { "type": ["string", "null"] },
            "overrides": { "type": ["object", "null"] },
            "sample": { "type": ["integer", "null"], "minimum": 0 },
        },
    })
});

/// A step over HTTP.
pub(in crate::serve) static STEP: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object", "required": ["action", "episode_id"],
        "properties": {
            "action": &*ACTION,
            "episode_id": { "type": "string", "description": "As the reset's `observation.metadata` gave it" },
            "timeout_s": { "type": ["number", "null"], "exclusiveMinimum": 0 },
            "request_id": { "type": ["string", "null"], "maxLength": 255 },
        },
    })
});

/// What a reset and a step answer.
pub(in crate::serve) static ANSWER: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object", "required": ["observation", "reward", "done"],
        "properties": {
            "observation": &*OBSERVATION,
            "reward": { "type": ["number", "null"] },
            "done": { "type": "boolean" },
        },
    })
});

/// What `/openenv/schema` answers.
pub(in crate::serve) static SCHEMAS: LazyLock<Value> =
    LazyLock::new(|| json!({ "action": &*ACTION, "observation": &*OBSERVATION, "state": &*STATE }));

/// What `/openenv/health` answers.
pub(in crate::serve) static HEALTH: LazyLock<Value> = LazyLock::new(|| json!({ "status": "healthy" }));

/// What `/openenv/metadata` answers.
pub(in crate::serve) static METADATA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "name": "hindsearch", "version": env!("CARGO_PKG_VERSION"),
        "description": "Questions that are answered with the help of a search engine",
    })
});
