//! `POST /hindsight/v1/align`: the teacher's prompt, the shared response, and its masks.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::Trajectory;
use crate::hindsight::AlignOptions;
use crate::serve::batch;
use crate::serve::native::{checked, write};
use crate::serve::server::fault;

/// Bytes of a hint.
const LONGEST_HINT: usize = 1 << 20;

/// An episode and what its teacher is told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct AlignItem {
    /// The record; its spans behind the prompt have `tokens`, and those of the policy `ends`, too.
    #[schemars(with = "serde_json::Map<String, Value>")]
    trajectory: Trajectory,
    /// What the teacher is told, as `critique` and `block` give it; nothing where it is not given.
    #[serde(default)]
    hint: String,
    /// Where it stands, and which tokens are learnt from.
    #[serde(default)]
    options: AlignOptions,
}

/// Answers each item.
pub(in crate::serve) async fn align(incoming: Incoming) -> Result<Response, Fault> {
    batch::aside(incoming, |items| items.iter().map(one).collect()).await
}

fn one(item: &Value) -> Result<Arc<str>, Fault> {
    let AlignItem { trajectory, hint, options } = batch::typed(item)?;
    if hint.len() > LONGEST_HINT {
        return Err(Fault::invalid(format!("hint: expected at most {LONGEST_HINT} bytes, found {}", hint.len())));
    }
    let aligned = crate::hindsight::align(&checked(trajectory)?, &hint, &options).map_err(|error| fault(&error))?;
    write(&aligned)
}
