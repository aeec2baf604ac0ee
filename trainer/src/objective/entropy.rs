//! How is the policy kept from growing too sure too soon?

use serde::{Deserialize, Serialize};

use super::aggregate::Normaliser;
use super::metrics::Metrics;
use super::tokens::{Needed, Tokens};
use super::{LossTerms, Objective};
use crate::{Error, Result};

/// A bonus for entropy: the loss of a token is minus its entropy (Mnih et al. 2016, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entropy {
    /// The factor of this term; 0 leaves it out.
    pub weight: f64,
}

impl Default for Entropy {
    /// Search-R1's value, which its scripts leave on.
    fn default() -> Self {
        Self { weight: 0.001 }
    }
}

impl Objective for Entropy {
    fn name(&self) -> &'static str {
        "entropy"
    }

    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let Some(entropy) = &tokens.entropy else {
            return Err(Error::invalid("entropy", "entropies under the current policy", "none"));
        };
        let losses = Needed::new(&tokens.policy_mask)?.of(entropy)?.neg()?;
        let weights = normaliser.policy_weights(&tokens.rows, &tokens.policy_mask)?;
        Ok(LossTerms { loss: (losses * weights)?.sum_all()?, metrics: Metrics::default() })
    }
}
