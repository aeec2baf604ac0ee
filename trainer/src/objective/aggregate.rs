//! How do the losses of tokens become one number?

use std::ops::Range;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::hindsight::TokenScope;
use super::tokens::{TokenCount, Totals, host, needed};
use crate::{Error, Result};

/// What a token weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// All tokens alike: the mean over tokens. Search-R1; DAPO (Yu et al. 2025, section 3.3).
    #[default]
    TokenMean,
    /// All rows alike: the mean over rows of the mean over a row's tokens. GRPO (Shao et al. 2024, equation 3); GSPO.
    SeqMeanTokenMean,
    /// The mean over rows of the sum over a row's tokens: the log-probability of a whole response. RLOO.
    SeqMeanTokenSum,
    /// As `seq-mean-token-sum`, divided by this constant length. Dr. GRPO (Liu et al. 2025, section 3.2).
    FixedLength(f64),
}

impl Aggregation {
    pub(super) fn check(self, what: &str) -> Result<()> {
        match self {
            Self::FixedLength(length) if !(length.is_finite() && length > 0.0) => {
                Err(Error::invalid(format!("{what}.fixed-length"), "more than 0 tokens", length.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// What means are taken over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole optimiser batch, however it is split.
    #[default]
    Global,
    /// Each micro-batch, and then the micro-batches: Search-R1's code. Tokens of a micro-batch with few of them weigh more.
    MicroBatch,
}

/// What turns token losses into a micro-batch's share of the loss.
#[derive(Debug, Clone, Copy)]
pub struct Normaliser {
    /// What a token weighs.
    pub aggregation: Aggregation,
    /// What means are taken over.
    pub scope: Scope,
    /// What the optimiser batch holds.
    pub totals: Totals,
}

impl Normaliser {
    /// The weight of each token under the policy mask, `[n]` f64: 0 where the mask is 0.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the totals do not include this micro-batch.
    pub fn policy_weights(&self, rows: &[Range<usize>], mask: &Tensor) -> Result<Tensor> {
        self.weights(rows, mask, self.totals.policy)
    }

    /// As [`policy_weights`](Self::policy_weights), under the query mask.
    ///
    /// # Errors
    /// As there.
    pub fn query_weights(&self, rows: &[Range<usize>], mask: &Tensor) -> Result<Tensor> {
        self.weights(rows, mask, self.totals.query)
    }

    /// As [`policy_weights`](Self::policy_weights), for what a teacher speaks of within a scope; `mask` is of just that.
    ///
    /// # Errors
    /// As there.
    pub fn taught_weights(&self, rows: &[Range<usize>], mask: &Tensor, scope: TokenScope) -> Result<Tensor> {
        let batch = match scope {
            TokenScope::Query => self.totals.taught_query,
            TokenScope::Policy => self.totals.taught_policy,
        };
        self.weights(rows, mask, batch)
    }

    fn weights(&self, rows: &[Range<usize>], mask: &Tensor, batch: TokenCount) -> Result<Tensor> {
        let values = host::<f32>(mask)?;
        let own = TokenCount::of(rows, &values);
        if own.tokens > batch.tokens || own.rows > batch.rows || self.totals.micro_batches < 1.0 {
            let expected = format!("at least the {} tokens and {} rows of a micro-batch", own.tokens, own.rows);
            return Err(Error::invalid("totals", expected, format!("{:?}", self.totals)));
        }
        let (all, parts) = match self.scope {
            Scope::Global => (batch, 1.0),
            Scope::MicroBatch => (own, self.totals.micro_batches),
        };
        let mut weights = vec![0.0; values.len()];
        for row in rows {
            let divisor = match self.aggregation {
                Aggregation::TokenMean => all.tokens,
                Aggregation::SeqMeanTokenMean => all.rows * needed(row, &values).count() as f64,
                Aggregation::SeqMeanTokenSum => all.rows,
                Aggregation::FixedLength(length) => all.rows * length,
            };
            needed(row, &values).for_each(|token| weights[token] = 1.0 / (parts * divisor));
        }
        Ok(Tensor::from_vec(weights, values.len(), mask.device())?)
    }
}
