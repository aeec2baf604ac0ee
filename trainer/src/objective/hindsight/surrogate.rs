//! How are the likeliest tokens moved towards a teacher within a clip? (OpenClaw-RL)

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::super::aggregate::{Aggregation, Normaliser};
use super::super::metrics::Metrics;
use super::super::tokens::{Tokens, clamp, larger};
use super::super::{LossTerms, Objective};
use super::scope::{Taught, TokenScope, Top, normalised};
use super::teacher::{Side, Support};
use crate::{Error, Result};

/// PPO's clipped surrogate over the few likeliest tokens of the vocabulary: each has the advantage `w d`, where `w` is its share
/// of their probability under the policy that sampled and `d` how much likelier the teacher finds it, in nats, clamped
/// (OpenClaw-RL, arXiv 2603.10165; HindSearch compares itself with it). The loss of a token of the text is the sum over them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Surrogate {
    /// The factor of this term; 0 leaves it out.
    pub weight: f64,
    /// At which tokens of the text.
    pub scope: TokenScope,
    /// What a token of the text weighs.
    pub aggregation: Aggregation,
    /// `d` is cut to plus or minus this. The authors' code has 2 or, by task, 1; HindSearch does not say.
    pub clamp: f64,
    /// How far a ratio may fall below 1.
    pub clip_low: f64,
    /// How far a ratio may rise over 1.
    pub clip_high: f64,
    /// At which tokens of the vocabulary.
    pub support: Support,
}

impl Default for Surrogate {
    fn default() -> Self {
        Self {
            weight: 0.0,
            scope: TokenScope::Query,
            aggregation: Aggregation::TokenMean,
            clamp: 1.0,
            clip_low: 0.2,
            clip_high: 0.28,
            support: Support { k: 4, side: Side::Student },
        }
    }
}

impl Surrogate {
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |field: &str, expected: &str, found: f64| {
            Err(Error::invalid(format!("hindsight.surrogate.{field}"), expected, found.to_string()))
        };
        if self.clamp.is_nan() || self.clamp <= 0.0 {
            return refuse("clamp", "more than 0", self.clamp);
        }
        if !(0.0..=1.0).contains(&self.clip_low) {
            return refuse("clip_low", "0 to 1", self.clip_low);
        }
        if self.clip_high.is_nan() || self.clip_high < 0.0 {
            return refuse("clip_high", "0 or more", self.clip_high);
        }
        self.aggregation.check("hindsight.surrogate.aggregation")?;
        self.support.check("hindsight.surrogate.support")
    }

    /// The loss at each taught token.
    fn of(&self, top: &Top<'_>) -> Result<Tensor> {
        let old = top.old()?;
        let shares = normalised(&old)?.exp()?;
        // Tokens that are not there have the same probability on both sides, and so no advantage.
        let costs = (clamp(&(&top.teacher - &old)?, -self.clamp, self.clamp)? * shares)?.neg()?;
        let ratios = (&top.student - old)?.exp()?;
        let clipped = clamp(&ratios, 1.0 - self.clip_low, 1.0 + self.clip_high)?;
        Ok(larger(&(&costs * ratios)?, &(costs * clipped)?)?.sum(1)?)
    }
}

impl Objective for Surrogate {
    fn name(&self) -> &'static str {
        "surrogate"
    }

    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let taught = Taught::new(tokens, self.scope, self.name())?;
        let top = taught.top(self.support)?;
        let losses = top.spread(&self.of(&top)?)?;
        let weights = taught.weights(normaliser, self.aggregation)?;
        Ok(LossTerms { loss: (losses * weights)?.sum_all()?, metrics: Metrics::default() })
    }
}
