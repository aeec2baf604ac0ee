//! How are tokens of good rollouts made more likely? (GRPO, PPO, GSPO, REINFORCE)

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::aggregate::Normaliser;
use super::metrics::{Metric, Metrics};
use super::tokens::{Needed, Tokens, clamp, host, larger, needed};
use super::{LossTerms, Objective};
use crate::{Error, Result};

/// The clipped surrogate `max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))` of each token, A the advantage and r the ratio
/// of the current policy to the one that sampled (Schulman et al. 2017, equation 7).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyGradient {
    /// The factor of this term; 0 leaves it out.
    pub weight: f64,
    /// What the ratio is of.
    pub ratio: Ratio,
    /// How far a ratio may fall below 1.
    pub clip_low: f64,
    /// How far a ratio may rise over 1; more than `clip_low` is DAPO's clip-higher (Yu et al. 2025, section 3.1).
    pub clip_high: f64,
    /// Where A < 0, the loss is at most `-A` times this: dual clip (Ye et al. 2020, section 4.3, where it is 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dual_clip: Option<f64>,
    /// Logarithms of ratios are cut to plus or minus this (verl: 20, and 10 for GSPO). No gradient passes where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_ratio_limit: Option<f64>,
}

/// What the ratio of the current policy to the sampling one is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// The token's probabilities: PPO, GRPO.
    #[default]
    Token,
    /// The row's probabilities, as a mean over its tokens; each token carries its own gradient: GSPO (Zheng et al. 2025,
    /// section 4.3).
    Sequence,
    /// Nothing: the loss is `-A` times the log-probability, and what sampled is not asked for. REINFORCE.
    None,
}

impl Default for PolicyGradient {
    /// Search-R1's values.
    fn default() -> Self {
        Self { weight: 1.0, ratio: Ratio::Token, clip_low: 0.2, clip_high: 0.2, dual_clip: None, log_ratio_limit: None }
    }
}

impl PolicyGradient {
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |field: &str, expected: &str, found: f64| {
            Err(Error::invalid(format!("policy-gradient.{field}"), expected, found.to_string()))
        };
        if !(0.0..=1.0).contains(&self.clip_low) {
            return refuse("clip_low", "0 to 1", self.clip_low);
        }
        if self.clip_high.is_nan() || self.clip_high < 0.0 {
            return refuse("clip_high", "0 or more", self.clip_high);
        }
        if let Some(limit) = self.dual_clip.filter(|limit| limit.is_nan() || *limit <= 1.0) {
            return refuse("dual_clip", "more than 1", limit);
        }
        if let Some(limit) = self.log_ratio_limit.filter(|limit| limit.is_nan() || *limit <= 0.0) {
            return refuse("log_ratio_limit", "more than 0", limit);
        }
        Ok(())
    }

    /// The losses of the tokens, from log-probabilities and ratios (none for [`Ratio::None`]).
    fn losses(&self, logprobs: &Tensor, ratios: Option<&Tensor>, advantages: &Tensor) -> Result<Tensor> {
        let costs = advantages.neg()?;
        let Some(ratios) = ratios else { return Ok((costs * logprobs)?) };
        let clipped = clamp(ratios, 1.0 - self.clip_low, 1.0 + self.clip_high)?;
        let losses = larger(&(&costs * ratios)?, &(&costs * clipped)?)?;
        let Some(limit) = self.dual_clip else { return Ok(losses) };
        let ceiling = (&costs * limit)?;
        // Over the ceiling, where A < 0; for others the ceiling is no bound.
        let over = (losses.detach().gt(&ceiling)? * costs.gt(0.0)?)?;
        Ok(over.where_cond(&ceiling, &losses)?)
    }

    /// The ratios, whose gradients are those of tokens.
    fn ratios(&self, tokens: &Tokens, logprobs: &Tensor, old: &Tensor) -> Result<Option<Tensor>> {
        let log_ratios = match self.ratio {
            Ratio::None => return Ok(None),
            Ratio::Token => (logprobs - old)?,
            // The value is the row's, for the difference of a number and itself is 0; the gradient is the token's.
            Ratio::Sequence => ((logprobs - logprobs.detach())? + row_means(tokens, &(logprobs.detach() - old)?)?)?,
        };
        let bounded = match self.log_ratio_limit {
            Some(limit) => clamp(&log_ratios, -limit, limit)?,
            None => log_ratios,
        };
        Ok(Some(bounded.exp()?))
    }

    fn metrics(&self, tokens: &Tokens, ratios: &Tensor, old_less_new: &Tensor) -> Result<Metrics> {
        let mask = host::<f32>(&tokens.policy_mask)?;
        let (ratios, advantages, kl) =
            (host::<f64>(ratios)?, host::<f64>(&tokens.advantages)?, host::<f64>(old_less_new)?);
        let (mut low, mut high, mut dual, mut count) = (0.0, 0.0, 0.0, 0.0);
        let (mut sum, mut max, mut kl_sum) = (0.0, f64::NEG_INFINITY, 0.0);
        for i in needed(&(0..mask.len()), &mask) {
            let (ratio, advantage) = (ratios[i], advantages[i]);
            count += 1.0;
            sum += ratio;
            kl_sum += kl[i];
            max = if max.is_nan() || max >= ratio { max } else { ratio };
            low += f64::from(advantage < 0.0 && ratio < 1.0 - self.clip_low);
            high += f64::from(advantage > 0.0 && ratio > 1.0 + self.clip_high);
            dual += f64::from(advantage < 0.0 && self.dual_clip.is_some_and(|limit| ratio > limit));
        }
        let mut metrics = Metrics::default();
        let means = [
            ("policy/clip_low_fraction", low),
            ("policy/clip_high_fraction", high),
            ("policy/dual_clip_fraction", dual),
            ("policy/ratio_mean", sum),
            ("policy/approx_kl", kl_sum),
        ];
        means.into_iter().for_each(|(name, sum)| metrics.add(name, Metric::Mean { sum, count }));
        metrics.add("policy/ratio_max", Metric::Max(max));
        Ok(metrics)
    }
}

impl Objective for PolicyGradient {
    fn name(&self) -> &'static str {
        "policy-gradient"
    }

    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms> {
        let needed = Needed::new(&tokens.policy_mask)?;
        let logprobs = needed.of(&tokens.logprobs)?;
        let advantages = needed.constant(&tokens.advantages)?;
        let old = match self.ratio {
            Ratio::None => logprobs.detach(),
            Ratio::Token | Ratio::Sequence => needed.constant(&tokens.old)?,
        };
        let ratios = self.ratios(tokens, &logprobs, &old)?;
        let losses = self.losses(&logprobs, ratios.as_ref(), &advantages)?;
        let weights = normaliser.policy_weights(&tokens.rows, &tokens.policy_mask)?;
        let metrics = match &ratios {
            Some(ratios) => self.metrics(tokens, ratios, &(old - logprobs.detach())?)?,
            None => Metrics::default(),
        };
        Ok(LossTerms { loss: (losses * weights)?.sum_all()?, metrics })
    }
}

/// The mean over the needed tokens of each row, at all of them: `[n]`, without a gradient.
fn row_means(tokens: &Tokens, x: &Tensor) -> Result<Tensor> {
    let (mask, x) = (host::<f32>(&tokens.policy_mask)?, host::<f64>(x)?);
    let mut means = vec![0.0; x.len()];
    for row in &tokens.rows {
        let mean = needed(row, &mask).map(|i| x[i]).sum::<f64>() / needed(row, &mask).count() as f64;
        needed(row, &mask).for_each(|i| means[i] = mean);
    }
    Ok(Tensor::from_vec(means, x.len(), tokens.policy_mask.device())?)
}
