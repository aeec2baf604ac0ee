//! How are tokens that a teacher finds likelier made likelier? (HindSearch)

use serde::{Deserialize, Serialize};

use super::super::aggregate::{Aggregation, Normaliser};
use super::super::metrics::{Metric, Metrics};
use super::super::tokens::{Tokens, clamp, host, needed};
use super::super::{LossTerms, Objective};
use super::scope::{Taught, TokenScope};
use crate::{Error, Result};

/// Clamped on-policy distillation: the loss of a sampled token is `-w s`, where `s` and `t` are its log-probabilities under
/// policy and teacher, and `w` is `t - s`, clamped between 0 and `clamp` (HindSearch, arXiv 2608.01597). So no token is made
/// less likely, and what the teacher finds less likely is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Distillation {
    /// The factor of this term, lambda in the paper, where it is 0.01; 0 leaves it out.
    pub weight: f64,
    /// At which tokens.
    pub scope: TokenScope,
    /// What a token weighs. The mean over tokens is a reading of the paper; `seq-mean-token-mean` makes trajectories alike.
    pub aggregation: Aggregation,
    /// The largest `w`; the smallest is 0.
    pub clamp: f64,
    /// Whether `w` is a coefficient without a gradient. The paper does not say; with one, the rarest tokens are pulled most.
    pub detach: bool,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { weight: 0.0, scope: TokenScope::Query, aggregation: Aggregation::TokenMean, clamp: 1.0, detach: true }
    }
}

impl Distillation {
    pub(super) fn check(&self) -> Result<()> {
        if self.clamp.is_nan() || self.clamp <= 0.0 {
            return Err(Error::invalid("hindsight.distillation.clamp", "more than 0", self.clamp.to_string()));
        }
        self.aggregation.check("hindsight.distillation.aggregation")
    }
}

impl Objective for Distillation {
    fn name(&self) -> &'static str {
        "distillation"
    }

    /// Metrics: the share of `w` that reached the clamp.
    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let taught = Taught::new(tokens, self.scope, self.name())?;
        let (student, teacher) = taught.sampled()?;
        let gap = (teacher - if self.detach { student.detach() } else { student.clone() })?;
        let losses = (clamp(&gap, 0.0, self.clamp)? * student)?.neg()?;
        let loss = (losses * taught.weights(normaliser, self.aggregation)?)?.sum_all()?;

        let gaps: Vec<f64> = host(&gap)?;
        let (mut sum, mut count) = (0.0, 0.0);
        for i in needed(&(0..gaps.len()), taught.mask()) {
            // Of a gap that is not a number it is not known, either.
            sum += if gaps[i].is_nan() { gaps[i] } else { f64::from(u8::from(gaps[i] >= self.clamp)) };
            count += 1.0;
        }
        let mut metrics = Metrics::default();
        metrics.add("hindsight/clamp_saturation", Metric::Mean { sum, count });
        Ok(LossTerms { loss, metrics })
    }
}
