//! How is the policy kept near its reference?

use std::ops::Range;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::aggregate::Normaliser;
use super::metrics::{Metric, Metrics};
use super::tokens::{Needed, TokenCount, Tokens, clamp, host};
use super::{LossTerms, Objective};
use crate::{Error, Result};

/// The divergence of the policy from the reference, estimated at the sampled tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kl {
    /// The factor of this term, beta in the papers; 0 leaves it out.
    pub weight: f64,
    /// How it is estimated.
    pub estimator: KlEstimator,
    /// Where it acts.
    pub form: KlForm,
    /// Estimates of k3 are cut to this, as in Search-R1's code; a huge number for none. No gradient passes where they are.
    pub limit: f64,
}

/// An estimate of KL(policy || reference) from one sampled token, with `d` = log reference - log policy (Schulman 2020,
/// "Approximating KL divergence").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlEstimator {
    /// `-d`: unbiased, of either sign. As a loss its gradient pushes every sampled token down; meant for rewards.
    K1,
    /// `d² / 2`.
    K2,
    /// `exp(d) - d - 1`: never negative, 0 where the policies agree. GRPO (Shao et al. 2024, equation 4).
    #[default]
    K3,
}

/// Where the divergence acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlForm {
    /// A term of the loss: GRPO.
    #[default]
    Loss,
    /// Taken off the reward, before advantages: PPO as in Search-R1. See [`Kl::penalties`].
    Reward,
}

impl Default for Kl {
    /// Search-R1's values for GRPO.
    fn default() -> Self {
        Self { weight: 0.001, estimator: KlEstimator::K3, form: KlForm::Loss, limit: 10.0 }
    }
}

impl Kl {
    pub(super) fn check(&self) -> Result<()> {
        if self.limit.is_nan() || self.limit <= 0.0 {
            return Err(Error::invalid("kl.limit", "more than 0", self.limit.to_string()));
        }
        Ok(())
    }

    /// What each row's reward loses: the weight times the sum of the estimates over the row's needed tokens. 0 for all rows
    /// unless the form is `reward`. `logprobs`, `reference` and `mask` are `[n]`, and `rows` are ranges of them.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a row that leaves them, [`Error::Tensor`] for shapes that differ.
    pub fn penalties(
        &self,
        rows: &[Range<usize>],
        logprobs: &Tensor,
        reference: &Tensor,
        mask: &Tensor,
    ) -> Result<Vec<f64>> {
        if self.form == KlForm::Loss || self.weight == 0.0 {
            return Ok(vec![0.0; rows.len()]);
        }
        let needed = Needed::new(mask)?;
        let estimates: Vec<f64> =
            self.estimates(&needed.constant(logprobs)?, &needed.constant(reference)?)?.to_vec1()?;
        rows.iter()
            .map(|row| {
                let estimates = estimates.get(row.clone()).ok_or_else(|| {
                    Error::invalid("rows", format!("ranges of {} tokens", estimates.len()), format!("{row:?}"))
                })?;
                Ok(self.weight * estimates.iter().sum::<f64>())
            })
            .collect()
    }

    fn estimates(&self, logprobs: &Tensor, reference: &Tensor) -> Result<Tensor> {
        let d = (reference - logprobs)?;
        Ok(match self.estimator {
            KlEstimator::K1 => d.neg()?,
            KlEstimator::K2 => (d.sqr()? * 0.5)?,
            KlEstimator::K3 => {
                // Where |d| > limit + 1, k3 > limit. So this cut changes nothing, but the exponential cannot overflow.
                let reach = (self.limit + 1.0).min(700.0);
                let d = clamp(&d, -reach, reach)?;
                clamp(&((d.exp()? - d)? - 1.0)?, 0.0, self.limit)?
            }
        })
    }
}

impl Objective for Kl {
    fn name(&self) -> &'static str {
        "kl"
    }

    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let Some(reference) = &tokens.reference else {
            return Err(Error::invalid("kl", "log-probabilities under the reference", "none"));
        };
        let needed = Needed::new(&tokens.policy_mask)?;
        let estimates = self.estimates(&needed.of(&tokens.logprobs)?, &needed.constant(reference)?)?;
        let weights = normaliser.policy_weights(&tokens.rows, &tokens.policy_mask)?;
        let mut metrics = Metrics::default();
        let count = TokenCount::of(&tokens.rows, &host(&tokens.policy_mask)?).tokens;
        metrics.add("kl/mean", Metric::Mean { sum: needed.sum(&estimates)?, count });
        Ok(LossTerms { loss: (estimates * weights)?.sum_all()?, metrics })
    }
}
