//! How are the policy's distributions drawn to a teacher's? (SD-Search)

use std::f64::consts::LN_2;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::super::aggregate::{Aggregation, Normaliser};
use super::super::metrics::{Metric, Metrics};
use super::super::tokens::{Tokens, clamp, host, larger, needed};
use super::super::{LossTerms, Objective};
use super::scope::{Taught, TokenScope, Top, normalised};
use super::teacher::{Side, Support};
use crate::Result;

/// The divergence of the teacher's next-token distribution and the policy's, at a few tokens of the vocabulary (SD-Search,
/// arXiv 2605.18299). Gradients go through the policy's probabilities alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Divergence {
    /// The factor of this term, alpha in the paper, where it is 1e-3 after 50 steps; 0 leaves it out.
    pub weight: f64,
    /// At which tokens of the text.
    pub scope: TokenScope,
    /// What a token weighs: in the paper, trajectories that have a query alike.
    pub aggregation: Aggregation,
    /// Which divergence.
    pub distance: Distance,
    /// What stands for the rest of the vocabulary. The paper does not say.
    pub tail: Tail,
    /// At which tokens of the vocabulary; the paper has 50 and does not say whose.
    pub support: Support,
}

/// A divergence of the teacher's distribution T and the policy's S.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// Jensen and Shannon's, `KL(T || M) / 2 + KL(S || M) / 2` with M halfway: symmetric, from 0 to ln 2.
    #[default]
    Jsd,
    /// `KL(T || S)`: the policy covers what the teacher does.
    ForwardKl,
    /// `KL(S || T)`: the policy keeps to what the teacher does.
    ReverseKl,
    /// The mean of the squared differences of the probabilities over the tokens that are there. The rest of the vocabulary
    /// has no part in it. The paper does not say whether it is of probabilities.
    Mse,
}

/// What stands for the tokens of the vocabulary that are not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// One more token with all the remaining probability. The divergence is then at most that of the whole distributions, and
    /// 0 where they are the same.
    #[default]
    Bucket,
    /// Nothing: the probabilities that are there are divided by their sum.
    Renormalise,
    /// Nothing. KL divergences are then not of distributions: they can be below 0, and have a gradient where both agree.
    Drop,
}

/// The least that is taken for remaining probability: log-probabilities in f32 do not tell less.
const LEAST: f64 = 1e-6;

impl Default for Divergence {
    fn default() -> Self {
        Self {
            weight: 0.0,
            scope: TokenScope::Query,
            aggregation: Aggregation::SeqMeanTokenMean,
            distance: Distance::Jsd,
            tail: Tail::Bucket,
            support: Support { k: 50, side: Side::Teacher },
        }
    }
}

impl Divergence {
    pub(super) fn check(&self) -> Result<()> {
        self.aggregation.check("hindsight.divergence.aggregation")?;
        self.support.check("hindsight.divergence.support")
    }

    /// The divergence at each taught token.
    fn of(&self, top: &Top<'_>) -> Result<Tensor> {
        let (teacher, student) = match self.tail {
            Tail::Bucket | Tail::Drop => (top.teacher.clone(), top.student.clone()),
            Tail::Renormalise => (normalised(&top.teacher)?, normalised(&top.student)?),
        };
        let there = self.parts(&teacher, &student)?.sum(1)?;
        match (self.distance, self.tail) {
            (Distance::Mse, _) => {
                let count = top.there.sum(1)?;
                Ok((there / larger(&count, &count.ones_like()?)?)?)
            }
            (_, Tail::Bucket) => Ok((there + self.parts(&remainder(&teacher)?, &remainder(&student)?)?)?),
            _ => Ok(there),
        }
    }

    /// The summands of the divergence, from log-probabilities.
    fn parts(&self, teacher: &Tensor, student: &Tensor) -> Result<Tensor> {
        let (t, s) = (teacher.exp()?, student.exp()?);
        let gap = (teacher - student)?;
        Ok(match self.distance {
            Distance::Jsd => {
                // log(T / M) = ln 2 - softplus(log S - log T), which is exactly 0 where both agree.
                let of_teacher = (t * (LN_2 - softplus(&gap.neg()?)?)?)?;
                let of_student = (s * (LN_2 - softplus(&gap)?)?)?;
                ((of_teacher + of_student)? * 0.5)?
            }
            Distance::ForwardKl => (t * gap)?,
            Distance::ReverseKl => (s * gap.neg()?)?,
            Distance::Mse => (t - s)?.sqr()?,
        })
    }
}

/// The logarithm of the remaining probability, one a token. Where there is next to none, the value is cut but the gradient is not: it
/// balances that of the other tokens, so that a policy that is sure can be drawn to what is not there.
fn remainder(logprobs: &Tensor) -> Result<Tensor> {
    let left = (1.0 - logprobs.exp()?.sum(1)?)?;
    let value = clamp(&left.detach(), LEAST, 1.0)?;
    Ok((value + (&left - left.detach())?)?.log()?)
}

/// `ln(1 + exp(x))`, that neither overflows nor has a kink.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let largest = x.detach().relu()?;
    let sum = (largest.neg()?.exp()? + (x - &largest)?.exp()?)?;
    Ok((sum.log()? + largest)?)
}

impl Objective for Divergence {
    fn name(&self) -> &'static str {
        "divergence"
    }

    /// Metrics: mean and maximum over the tokens.
    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let taught = Taught::new(tokens, self.scope, self.name())?;
        let top = taught.top(self.support)?;
        let losses = top.spread(&self.of(&top)?)?;
        let values: Vec<f64> = host(&losses)?;
        let (mut sum, mut max, mut count) = (0.0, f64::NEG_INFINITY, 0.0);
        for i in needed(&(0..values.len()), taught.mask()) {
            (sum, count) = (sum + values[i], count + 1.0);
            max = if max.is_nan() || max >= values[i] { max } else { values[i] };
        }
        let mut metrics = Metrics::default();
        metrics.add("hindsight/divergence_mean", Metric::Mean { sum, count });
        metrics.add("hindsight/divergence_max", Metric::Max(max));
        Ok(LossTerms { loss: (losses * taught.weights(normaliser, self.aggregation)?)?.sum_all()?, metrics })
    }
}
