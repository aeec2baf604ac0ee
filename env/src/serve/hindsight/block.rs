//! `POST /hindsight/v1/block`: what an attempt's siblings, the answer or the evidence tell its teacher.

use std::sync::Arc;

use axum::response::Response;
use hindsearch_retriever::serve::{Fault, Incoming, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::critique::{known, passages};
use crate::Trajectory;
use crate::hindsight::{BetterOptions, Hint, SiblingOptions, Siblings, evidence, gold};
use crate::serve::native::{checked, write};
use crate::serve::{EnvServer, batch};

/// Attempts of an item.
const MOST_ATTEMPTS: usize = 256;

/// The attempts at one task, and whose teacher asks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct BlockItem {
    /// The records of all attempts, of one task.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    attempts: Vec<Trajectory>,
    /// The place of the own one among them, from 0.
    own: usize,
    /// What is told.
    #[serde(default)]
    view: View,
    /// Of `siblings`: which ones, and what of them.
    #[serde(default)]
    options: SiblingOptions,
    /// Of `better`: which one, and what of it.
    #[serde(default)]
    better: BetterOptions,
    /// Where chance comes from.
    #[serde(default)]
    seed: u64,
    /// Tokens of the block at most, as the server counts them; whole attempts are left out.
    #[serde(default)]
    budget: Option<usize>,
    /// The accepted answers, where the server does not have the task.
    #[serde(default)]
    ground_truth: Option<Value>,
    /// Of `evidence`: ids of the passages that hold the answer, where the server does not know them of the task.
    #[serde(default)]
    passages: Option<Vec<String>>,
}

/// What is told.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum View {
    /// Queries and verdicts of the attempts (SD-Search).
    #[default]
    Siblings,
    /// The best other attempt (Search-E1, SDPO).
    Better,
    /// The accepted answers (OPSD).
    Gold,
    /// What the passages say that hold the answer (EviSD).
    Evidence,
}

/// What a teacher is told.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::serve) struct Told {
    /// The text; null where there is nothing to tell, or no room for any of it.
    hint: Option<String>,
    /// Pieces that were left out for lack of room.
    cut: usize,
    /// Whether each attempt is correct: its F1 is above `rho`.
    labels: Vec<bool>,
}

/// Answers each item.
pub(in crate::serve) async fn block(
    env: Arc<EnvServer>,
    service: Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    batch::aside(incoming, move |items| items.iter().map(|item| tell(&env, &service, item)).collect()).await
}

fn tell(env: &EnvServer, service: &Service, item: &Value) -> Result<Arc<str>, Fault> {
    let item: BlockItem = batch::typed(item)?;
    let count = item.attempts.len();
    if !(1..=MOST_ATTEMPTS).contains(&count) {
        return Err(Fault::invalid(format!("attempts: expected 1 to {MOST_ATTEMPTS}, found {count}")));
    }
    let attempts: Vec<Trajectory> = item.attempts.into_iter().map(checked).collect::<Result<_, _>>()?;
    let own = attempts.get(item.own);
    let own = own.ok_or_else(|| Fault::invalid(format!("own: expected a number below {count}, found {}", item.own)))?;
    if let Some(other) = attempts.iter().find(|other| other.task != own.task) {
        let (own, other) = (own.task.escape_debug(), other.task.escape_debug());
        return Err(Fault::invalid(format!("attempts: expected those of one task, found `{own}` and `{other}`")));
    }
    let task = known(env, own, item.ground_truth.as_ref(), item.passages)?;
    let attempts: Vec<&Trajectory> = attempts.iter().collect();
    item.options.check().map_err(|error| Fault::invalid(error.to_string()))?;
    let siblings = Siblings { task: &task, attempts: &attempts, own: item.own };
    let hint = match item.view {
        View::Siblings => siblings.block(&item.options, item.seed),
        View::Better => siblings.better(item.better),
        View::Gold => gold(&task),
        View::Evidence => evidence(&task, passages(service)),
    };
    let mut hint = hint.unwrap_or_else(Hint::default);
    if let Some(budget) = item.budget {
        hint.shorten(|text| env.measure().length(text) <= budget);
    }
    let text = Some(hint.text()).filter(|text| !text.is_empty());
    write(&Told { hint: text, cut: hint.cut(), labels: siblings.labels(item.options.rho) })
}
