//! How is a trajectory imitated?

use serde::{Deserialize, Serialize};

use super::aggregate::Normaliser;
use super::metrics::Metrics;
use super::tokens::{Needed, Tokens};
use super::{LossTerms, Objective};
use crate::Result;

/// Minus the log-probability of what the policy wrote; advantages play no part. Off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Supervised {
    /// The factor of this term; 0 leaves it out.
    pub weight: f64,
}

impl Objective for Supervised {
    fn name(&self) -> &'static str {
        "supervised"
    }

    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let losses = Needed::new(&tokens.policy_mask)?.of(&tokens.logprobs)?.neg()?;
        let weights = normaliser.policy_weights(&tokens.rows, &tokens.policy_mask)?;
        Ok(LossTerms { loss: (losses * weights)?.sum_all()?, metrics: Metrics::default() })
    }
}
