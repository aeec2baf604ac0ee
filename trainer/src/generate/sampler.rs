//! Which token comes next? Seeded sampling that looks at one row of logits alone.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::ops::{exponentials, read_logits};
use crate::{Error, Result};

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the likeliest token.
    pub temperature: f64,
    /// Nucleus: the likeliest tokens that together reach this probability (Holtzman et al. 2020); 1 is all. Log-probabilities
    /// are those of the whole distribution, so anything below 1 biases what is learnt from them.
    pub top_p: f64,
    /// The likeliest tokens, as many; 0 is all.
    pub top_k: usize,
    /// Tokens at least this likely beside the likeliest (Nguyen et al. 2024); 0 is all.
    pub min_p: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0 }
    }
}

impl Sampling {
    /// The likeliest token each time.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// # Errors
    /// [`Error::InvalidInput`] for numbers that mean nothing.
    pub fn check(&self) -> Result<()> {
        let refuse = |name: &str, expected: &str, found: f64| Err(Error::invalid(name, expected, found.to_string()));
        if !(self.temperature == 0.0 || (0.01..=100.0).contains(&self.temperature)) {
            return refuse("sampling.temperature", "0, or 0.01 to 100", self.temperature);
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("sampling.top_p", "above 0, up to 1", self.top_p);
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return refuse("sampling.min_p", "0 to 1", self.min_p);
        }
        Ok(())
    }

    /// 1 / temperature; of greedy choices log-probabilities are told at temperature 1.
    fn sharpness(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { 1.0 / self.temperature as f32 }
    }

    /// A token, and its log-probability among all of them.
    pub fn sample(&self, logits: &[f32], random: &mut impl Rng) -> (u32, f32) {
        let token = if self.temperature == 0.0 { likeliest(logits) } else { self.draw(logits, random) };
        let (logprob, ..) = read_logits(logits, token, self.sharpness());
        (token as u32, logprob)
    }

    fn draw(&self, logits: &[f32], random: &mut impl Rng) -> usize {
        let weights = exponentials(logits, self.sharpness());
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let point = random.random::<f64>();
        if self.top_p == 1.0 && self.top_k == 0 && self.min_p == 0.0 {
            return pick(weights.iter().copied().enumerate(), point * total);
        }
        // What is left out here could not be in the nucleus: all of it together is less likely than 1 - top_p.
        let least = (total * (1.0 - self.top_p) / weights.len() as f64).max(self.min_p) as f32;
        let mut kept: Vec<(usize, f32)> =
            weights.into_iter().enumerate().filter(|(_, weight)| *weight >= least).collect();
        // The likeliest first; of equals the first token.
        kept.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.top_k > 0 {
            kept.truncate(self.top_k);
        }
        let mut reached = 0.0;
        let nucleus = kept.iter().position(|(_, weight)| {
            reached += f64::from(*weight);
            reached >= self.top_p * total
        });
        kept.truncate(nucleus.map_or(kept.len(), |last| last + 1));
        let total: f64 = kept.iter().map(|(_, weight)| f64::from(*weight)).sum();
        pick(kept.into_iter(), point * total)
    }
}

/// The first token at which the sum of the weights exceeds `point`.
fn pick(weights: impl Iterator<Item = (usize, f32)>, point: f64) -> usize {
    let mut sum = 0.0;
    let mut last = 0;
    for (token, weight) in weights {
        sum += f64::from(weight);
        if weight > 0.0 {
            last = token;
            if sum > point {
                break;
            }
        }
    }
    last
}

/// The greatest logit's place, the first of equals.
fn likeliest(logits: &[f32]) -> usize {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|logit| *logit == greatest).unwrap_or(0)
}
