//! How likely did the model find each token? Log-probabilities from hidden states, a few rows of the vocabulary at a time.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::panels::{Left, Right, multiply};
use super::parameter::Parameter;
use super::tensor::{tensor, view};
use super::wide::{exp, sum, wide};

/// Rows whose logits are there at a time.
const ROWS: usize = 128;

/// Log-probabilities of chosen tokens, and what their gradients need.
pub struct Logprobs {
    hidden: Tensor,
    head: Arc<Parameter>,
    targets: Vec<u32>,
    /// 1 / temperature.
    sharpness: f32,
    /// `[tokens]`: natural logarithms.
    pub logprobs: Vec<f32>,
    /// `[tokens]`: of the whole distribution, in nats.
    pub entropies: Vec<f32>,
    /// `[tokens]`: logarithm of the sum of e^logit.
    normalisers: Vec<f32>,
}

impl Logprobs {
    /// Of `targets[i]` after `hidden[i]`: `hidden` is `[tokens, hidden]`, `head` `[vocabulary, hidden]`. Logits are divided by
    /// `temperature`. No more than 128 rows of logits exist at a time.
    ///
    /// # Errors
    /// Those of the tensors; targets outside of the vocabulary.
    pub fn new(hidden: &Tensor, head: &Arc<Parameter>, targets: &[u32], temperature: f32) -> Result<Self> {
        let (vocabulary, _) = head.value().dims2()?;
        let (tokens, _) = hidden.dims2()?;
        if targets.len() != tokens || targets.iter().any(|target| *target as usize >= vocabulary) {
            candle_core::bail!("expected {tokens} tokens below {vocabulary}, found {} tokens", targets.len())
        }
        let mut found = Self {
            hidden: hidden.clone(),
            head: head.clone(),
            targets: targets.to_vec(),
            sharpness: 1.0 / temperature,
            logprobs: Vec::with_capacity(tokens),
            entropies: Vec::with_capacity(tokens),
            normalisers: Vec::with_capacity(tokens),
        };
        let mut rows = Vec::with_capacity(tokens);
        found.each(|logits, first| {
            let read =
                |(row, logits): (usize, &mut [f32])| read(logits, targets[first + row] as usize, found.sharpness);
            rows.par_extend(logits.par_chunks_exact_mut(vocabulary).enumerate().map(read));
            Ok(())
        })?;
        for (logprob, entropy, normaliser) in rows {
            found.logprobs.push(logprob);
            found.entropies.push(entropy);
            found.normalisers.push(normaliser);
        }
        Ok(found)
    }

    /// The gradient of the hidden states, `[tokens, hidden]`; that of the head is added to its accumulator. `to_logprobs` and
    /// `to_entropies` are the loss's gradients, one a token; those of entropies may be left out.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn backward(&self, to_logprobs: &[f32], to_entropies: Option<&[f32]>) -> Result<Tensor> {
        let (tokens, depth) = self.hidden.dims2()?;
        let vocabulary = self.head.value().dims2()?.0;
        let mut out = vec![0.0; tokens * depth];
        let hidden = view(&self.hidden)?;
        self.each(|logits, first| {
            let rows = logits.par_chunks_exact_mut(vocabulary).enumerate();
            rows.for_each(|(row, logits)| {
                let at = first + row;
                let (slope, normaliser) = (to_logprobs[at] * self.sharpness, self.normalisers[at]);
                let entropy = self.entropies[at];
                let spread = to_entropies.map_or(0.0, |slopes| slopes[at]) * self.sharpness;
                wide(|| {
                    for logit in logits.iter_mut() {
                        let logprob = *logit * self.sharpness - normaliser;
                        // d logprob / d logit = [target] - p; d entropy / d logit = -p (log p + entropy)
                        *logit = -exp(logprob) * (slope + spread * (logprob + entropy));
                    }
                });
                logits[self.targets[at] as usize] += slope;
            });
            let count = logits.len() / vocabulary;
            let (rows, hidden) = (first * depth..(first + count) * depth, &hidden);
            let left = Left::rows(logits, vocabulary);
            self.head.with_rows(|head| multiply(left, head, &mut out[rows.clone()], false))?;
            if self.head.learns() {
                let right = Right::rows(&hidden[rows], depth);
                self.head.accumulate(|sum| multiply(Left::columns(logits, vocabulary), right, sum, true))?;
            }
            Ok(())
        })?;
        tensor(out, (tokens, depth))
    }

    /// Computes the logits of some rows at a time, and hands them on with the first row's number.
    fn each(&self, mut work: impl FnMut(&mut [f32], usize) -> Result<()>) -> Result<()> {
        let (_, depth) = self.hidden.dims2()?;
        let vocabulary = self.head.value().dims2()?.0;
        let (hidden, head) = (view(&self.hidden)?, self.head.packed()?);
        let mut logits = Vec::new();
        for (number, rows) in hidden.chunks(ROWS * depth).enumerate() {
            logits.clear();
            logits.resize(rows.len() / depth * vocabulary, 0.0);
            multiply(Left::rows(rows, depth), Right::Panels(&head, vocabulary), &mut logits, false);
            work(&mut logits, number * ROWS)?;
        }
        Ok(())
    }
}

/// A token's log-probability, the distribution's entropy, and the logarithm of the sum. The logits are spoilt.
pub(crate) fn read(logits: &mut [f32], target: usize, sharpness: f32) -> (f32, f32, f32) {
    let chosen = logits.get(target).copied().unwrap_or(f32::NEG_INFINITY) * sharpness;
    wide(|| {
        let greatest = logits.iter().fold(f32::NEG_INFINITY, |most, logit| most.max(*logit)) * sharpness;
        // e^x and x e^x of x = logit - greatest.
        let total = sum(logits.len(), |i| exp(logits[i] * sharpness - greatest));
        let mean = sum(logits.len(), |i| {
            let x = logits[i] * sharpness - greatest;
            exp(x) * x.max(-100.0)
        }) / total;
        let normaliser = greatest + total.ln();
        (chosen - normaliser, total.ln() - mean, normaliser)
    })
}

/// `e^(logit * sharpness - the greatest)` of each logit.
pub(crate) fn exponentials(logits: &[f32], sharpness: f32) -> Vec<f32> {
    wide(|| {
        let greatest = logits.iter().fold(f32::NEG_INFINITY, |most, logit| most.max(*logit)) * sharpness;
        logits.iter().map(|logit| exp(logit * sharpness - greatest)).collect()
    })
}
