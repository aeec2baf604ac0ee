//! What the bodies of NeMo Gym's and verl-tool's routes are, as JSON Schemas for the description of the service.

use hindsearch_retriever::serve::schema;
use serde_json::{Value, json};

use super::guest::ANSWERS;
use super::play::Info;

/// A row of a data set, whose other fields are kept: a task that the server has, or a question with accepted answers under any of
/// the names that rows have for them.
fn row_with(more: &Value, required: &[&str]) -> Value {
    let mut fields = json!({
        "task_id": { "type": "string", "description": "A task that the server has; then the row needs nothing else" },
        "question": { "type": "string", "description": "What is asked, where no `task_id` is given" },
        "preset": { "type": "string", "description": "The preset; the server's own where none is named" },
    });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(ANSWERS.map(|name| {
            let about = "Accepted answers: one of these fields holds them, as text, as a list of texts, or as the data set nests them";
            (name.to_owned(), json!({ "type": ["string", "array", "object"], "description": about }))
        }));
        fields.extend(more.clone());
    }
    json!({ "type": "object", "additionalProperties": true, "required": required, "properties": fields })
}

/// The body of NeMo Gym's `seed_session` and `reset`.
pub(super) fn nemo_row() -> Value {
    row_with(
        &json!({
            "overrides": { "type": "object", "description": "Fields of the preset that are to be others" },
            "responses_create_params": {
                "type": "object",
                "description": "The request to the model; where its `input` holds a prompt, `reset` adds none",
                "properties": { "input": { "type": ["string", "array"], "items": { "type": "object" } } },
            },
        }),
        &[],
    )
}

/// The body of NeMo Gym's `verify`: the row with what the model answered.
pub(super) fn nemo_answered_row() -> Value {
    row_with(&json!({ "response": response() }), &["response"])
}

/// The body of NeMo Gym's `step`.
pub(super) fn nemo_step() -> Value {
    json!({ "type": "object", "required": ["response"], "properties": { "response": response() } })
}

/// A response of OpenAI's Responses interface.
fn response() -> Value {
    json!({
        "type": "object", "required": ["output"],
        "properties": {
            "output": {
                "type": "array",
                "description": "What was said and done, in order: messages, calls of tools and what they gave; other items are passed over",
                "items": { "type": "object", "properties": {
                    "type": { "type": "string", "description": "`message`, `function_call` or `function_call_output`" },
                    "role": { "type": "string" },
                    "content": { "type": ["string", "array"], "items": { "type": "object" } },
                    "arguments": { "type": "string", "description": "JSON with the `query`" },
                    "call_id": { "type": "string" },
                    "output": {},
                } },
            },
            "incomplete_details": {
                "type": ["object", "null"],
                "properties": { "reason": { "type": "string", "description": "`max_output_tokens` where a limit cut it off" } },
            },
        },
    })
}

/// What `seed_session` answers: nothing but a cookie.
pub(super) fn nemo_session() -> Value {
    json!({ "type": "object", "description": "Empty; the session is the cookie `hindsearch_session`, which later requests send" })
}

/// What `verify` answers.
pub(super) fn nemo_verified() -> Value {
    json!({
        "type": "object", "required": ["reward", "reward_components", "tool_calls"], "additionalProperties": true,
        "description": "The row without its accepted answers, and what the response earns",
        "properties": {
            "reward": { "type": "number" },
            "reward_components": { "type": "object", "additionalProperties": { "type": "number" }, "description": "The value of each term" },
            "tool_calls": { "type": "integer", "minimum": 0 },
            "searches": { "type": "integer", "minimum": 0, "description": "Those of the session, where there is one" },
        },
    })
}

/// What `reset` answers.
pub(super) fn nemo_begun() -> Value {
    json!({
        "type": "object", "required": ["observation", "info"],
        "properties": {
            "observation": { "type": ["string", "null"], "description": "The prompt; null where the row holds one" },
            "info": { "type": "object", "required": ["task_id"], "properties": { "task_id": { "type": "string" } } },
        },
    })
}

/// What `step` answers.
pub(super) fn nemo_stepped() -> Value {
    let mut info = schema::<Info>();
    info["properties"]["tool_outputs"] = json!({
        "type": "array", "description": "The answer to a call of the tool, which stands here and not in `observation`",
        "items": { "type": "object", "properties": { "call_id": { "type": "string" }, "output": { "type": "string" } } },
    });
    json!({
        "type": "object", "required": ["observation", "reward", "terminated", "truncated", "info"],
        "properties": {
            "observation": { "type": ["string", "null"], "description": "What was added to the context; null where nothing was" },
            "reward": { "type": "number", "description": "0 while the episode goes on" },
            "terminated": { "type": "boolean", "description": "Whether the policy ended it" },
            "truncated": { "type": "boolean", "description": "Whether a limit ended it" },
            "info": info,
        },
    })
}

/// The body of `aggregate_metrics`.
pub(super) fn nemo_rows() -> Value {
    json!({
        "type": "object", "required": ["verify_responses"],
        "properties": { "verify_responses": {
            "type": "array", "items": { "type": "object" },
            "description": "Answers of `verify`; `_ng_task_index` tells which are of one task",
        } },
    })
}

/// What `aggregate_metrics` answers.
pub(super) fn nemo_statistics() -> Value {
    let numbers = || json!({ "type": "object", "additionalProperties": { "type": "number" } });
    json!({
        "type": "object", "required": ["group_level_metrics", "agent_metrics", "key_metrics"],
        "properties": {
            "agent_metrics": { "description": "`mean/NAME`, `min/NAME` and `max/NAME` of every number, over all rows", "allOf": [numbers()] },
            "key_metrics": { "description": "The means among them", "allOf": [numbers()] },
            "group_level_metrics": { "type": "array", "items": numbers(), "description": "The same for each task" },
        },
    })
}

/// The body of the search tool.
pub(super) fn nemo_query() -> Value {
    let query = json!({ "type": "string", "description": "What to look for" });
    json!({ "type": "object", "required": ["query"], "properties": { "query": query } })
}

/// What the search tool answers.
pub(super) fn nemo_found() -> Value {
    let about = "The passages as the preset shows them, or that no searches are left";
    json!({ "type": "object", "required": ["result"], "properties": { "result": { "type": "string", "description": about } } })
}

/// The body of verl-tool's `get_observation`.
pub(super) fn verl_actions() -> Value {
    let list = |items: Value, about: &str| json!({ "type": "array", "items": items, "description": about });
    let id = json!({ "type": ["string", "integer"], "maxLength": 255 });
    json!({
        "type": "object", "required": ["trajectory_ids", "actions"],
        "additionalProperties": { "type": "array", "description": "A further column of the rows: a value for each trajectory" },
        "properties": {
            "trajectory_ids": list(id, "Ids that the client chose, each once; a new one begins an episode"),
            "actions": list(json!({ "type": "string" }), "What each policy wrote, in the order of the ids"),
            "finish": list(json!({ "type": "boolean" }), "Whether the client has ended the trajectory"),
            "extra_fields": list(row_with(&json!({}), &[]), "A row for each trajectory: its question or task, read when it begins"),
        },
    })
}

/// What verl-tool's `get_observation` answers.
pub(super) fn verl_observations() -> Value {
    let list = |items: Value, about: &str| json!({ "type": "array", "items": items, "description": about });
    let failed = json!({
        "type": "object", "required": ["obs", "error"],
        "properties": { "obs": { "type": "string" }, "error": { "type": "string", "description": "What went wrong" } },
    });
    json!({
        "type": "object", "required": ["observations", "dones", "valids"],
        "description": "One entry a trajectory in each list, in the order of the ids",
        "properties": {
            "observations": list(json!({ "anyOf": [{ "type": "string" }, failed] }), "What is added to the context"),
            "dones": list(json!({ "type": "boolean" }), "Whether the episode is over"),
            "valids": list(json!({ "type": "boolean" }), "Whether the message was an action"),
        },
    })
}
