//! How likely did the model find each token? Log-probabilities from hidden states, a few rows of the vocabulary at a time.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::device::{self, LogitSlopes};
use super::likeliest::OtherSlopes;
use super::panels::{Left, Right, multiply};
use super::parameter::Parameter;
use super::placement::{is_host, to_host, widened, wider};
use super::tensor::{tensor, view};
use super::wide::{NullaryFnOnce, exp, greatest, sum, wide};

/// Rows whose logits are there at a time.
pub const LOGIT_ROWS: usize = 256;
/// Logits that are kept for the backward pass at most; others are computed again.
const KEPT: usize = 1 << 25;

/// Log-probabilities of chosen tokens, and what their gradients need.
pub struct Logprobs {
    pub(super) hidden: Tensor,
    pub(super) head: Arc<Parameter>,
    pub(super) targets: Vec<u32>,
    /// 1 / temperature.
    pub(super) sharpness: f32,
    /// `[tokens]`: natural logarithms.
    pub logprobs: Vec<f32>,
    /// `[tokens]`: of the whole distribution, in nats.
    pub entropies: Vec<f32>,
    /// `[tokens]`: logarithm of the sum of e^logit.
    pub(super) normalisers: Vec<f32>,
    /// Logits of the first blocks of rows, as far as they were kept and are not used up.
    kept: Mutex<Vec<Vec<f32>>>,
}

impl Logprobs {
    /// Of `targets[i]` after `hidden[i]`: `hidden` is `[tokens, hidden]`, `head` `[vocabulary, hidden]`. Logits are divided by
    /// `temperature`. No more than 256 rows of logits exist at a time, and on the CPU up to 128 MiB of them, which are kept for
    /// [`Self::backward`].
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
            kept: Mutex::default(),
        };
        if !is_host(hidden) {
            found.read_on_device()?;
            return Ok(found);
        }
        let (mut rows, mut kept, mut spare) = (Vec::with_capacity(tokens), Vec::new(), Vec::new());
        for first in (0..tokens).step_by(LOGIT_ROWS) {
            let logits = found.logits(first, std::mem::take(&mut spare))?;
            let read = |(row, logits): (usize, &[f32])| read(logits, targets[first + row] as usize, found.sharpness);
            rows.par_extend(logits.par_chunks_exact(vocabulary).enumerate().map(read));
            if first * vocabulary + logits.len() <= KEPT {
                kept.push(logits);
            } else {
                spare = logits;
            }
        }
        found.kept = Mutex::new(kept);
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
        self.backward_with(to_logprobs, to_entropies, None)
    }

    /// [`Self::backward`], where the loss has gradients of further tokens' log-probabilities, too: those of [`Self::of`].
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn backward_with(
        &self,
        to_logprobs: &[f32],
        to_entropies: Option<&[f32]>,
        others: Option<&OtherSlopes<'_>>,
    ) -> Result<Tensor> {
        if !is_host(&self.hidden) {
            return self.back_on_device(to_logprobs, to_entropies, others);
        }
        let (tokens, depth) = self.hidden.dims2()?;
        let vocabulary = self.head.value().dims2()?.0;
        let mut out = vec![0.0; tokens * depth];
        let hidden = view(&self.hidden)?;
        let mut spare = Vec::new();
        for first in (0..tokens).step_by(LOGIT_ROWS) {
            let mut logits = self.block(first, std::mem::take(&mut spare))?;
            let rows = logits.par_chunks_exact_mut(vocabulary).enumerate();
            rows.for_each(|(row, logits)| {
                let at = first + row;
                let slope = to_logprobs[at] * self.sharpness;
                let spread = to_entropies.map_or(0.0, |slopes| slopes[at]) * self.sharpness;
                let (sharpness, entropy, normaliser) = (self.sharpness, self.entropies[at], self.normalisers[at]);
                let others = others.map(|others| others.of(at));
                let more = others.iter().flat_map(|others| others.there(vocabulary)).map(|(_, slope)| slope);
                let all = slope + more.sum::<f32>() * sharpness;
                wide(Gradients { logits: &mut *logits, sharpness, normaliser, entropy, slope: all, spread });
                logits[self.targets[at] as usize] += slope;
                for (id, slope) in others.iter().flat_map(|others| others.there(vocabulary)) {
                    logits[id] += slope * sharpness;
                }
            });
            let count = logits.len() / vocabulary;
            let (rows, hidden) = (first * depth..(first + count) * depth, &hidden);
            let left = Left::rows(&logits, vocabulary);
            self.head.with_rows(|head| multiply(left, head, &mut out[rows.clone()], false))?;
            if self.head.learns() {
                let right = Right::rows(&hidden[rows], depth);
                self.head.accumulate(|sum| multiply(Left::columns(&logits, vocabulary), right, sum, true))?;
            }
            spare = logits;
        }
        tensor(out, (tokens, depth))
    }

    /// Those that were kept, and are not any more, or else computed in the place of `spare`.
    pub(super) fn block(&self, first: usize, spare: Vec<f32>) -> Result<Vec<f32>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_mut(first / LOGIT_ROWS).map(std::mem::take).unwrap_or_default();
        if kept.is_empty() { self.logits(first, spare) } else { Ok(kept) }
    }

    /// Puts a block back for the backward pass, where such a one is kept; else it is spare.
    pub(super) fn keep(&self, first: usize, logits: Vec<f32>) -> Vec<f32> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get_mut(first / LOGIT_ROWS) {
            Some(place) => std::mem::replace(place, logits),
            None => logits,
        }
    }

    /// Logits of [`LOGIT_ROWS`] rows from `first` on, or of what is left; in the place of `spare`.
    fn logits(&self, first: usize, spare: Vec<f32>) -> Result<Vec<f32>> {
        let (tokens, depth) = self.hidden.dims2()?;
        let vocabulary = self.head.value().dims2()?.0;
        let rows = first..tokens.min(first + LOGIT_ROWS);
        let hidden = view(&self.hidden)?;
        let left = Left::rows(&hidden[rows.start * depth..rows.end * depth], depth);
        let mut logits = spare;
        logits.resize(rows.len() * vocabulary, 0.0);
        self.head.with_columns(|columns| multiply(left, columns, &mut logits, false))?;
        Ok(logits)
    }
}

/// On a device logits are always computed again: those that could be kept are few beside a large vocabulary.
impl Logprobs {
    fn read_on_device(&mut self) -> Result<()> {
        let head = widened(self.head.value())?;
        for first in (0..self.targets.len()).step_by(LOGIT_ROWS) {
            let part = self.part(first, &head)?;
            let (logprobs, entropies, normalisers) =
                device::read_logits(&part.logits, &part.targets, f64::from(self.sharpness))?;
            self.logprobs.extend(to_host(&logprobs)?);
            self.entropies.extend(to_host(&entropies)?);
            self.normalisers.extend(to_host(&normalisers)?);
        }
        Ok(())
    }

    fn back_on_device(
        &self,
        to_logprobs: &[f32],
        to_entropies: Option<&[f32]>,
        others: Option<&OtherSlopes<'_>>,
    ) -> Result<Tensor> {
        let mut outs = Vec::new();
        let nothing = vec![0.0; self.targets.len()];
        let vocabulary = self.head.value().dims2()?.0;
        let more =
            |row: usize| others.map_or(0.0, |others| others.of(row).there(vocabulary).map(|(_, slope)| slope).sum());
        let all: Vec<f32> = to_logprobs.iter().enumerate().map(|(row, slope)| slope + more(row)).collect();
        let head = widened(self.head.value())?;
        for first in (0..self.targets.len()).step_by(LOGIT_ROWS) {
            let part = self.part(first, &head)?;
            let count = part.targets.elem_count();
            let upload = |values: &[f32]| {
                let values = Tensor::from_slice(&values[first..first + count], count, self.hidden.device())?;
                values.to_dtype(wider(self.hidden.dtype()))
            };
            let slopes = LogitSlopes {
                targets: &part.targets,
                normalisers: &upload(&self.normalisers)?,
                entropies: &upload(&self.entropies)?,
                to_logprobs: &upload(&all)?,
                to_entropies: &upload(to_entropies.unwrap_or(&nothing))?,
                sharpness: f64::from(self.sharpness),
            };
            let gradient = device::logits_back(&part.logits, &slopes)?;
            // That has given the target the slopes of all.
            let gradient = match others {
                Some(others) => others.moved(&gradient, &self.targets, first, self.sharpness)?,
                None => gradient,
            };
            let gradient = gradient.to_dtype(self.hidden.dtype())?;
            outs.push(gradient.matmul(self.head.value())?);
            if self.head.learns() {
                self.head.accumulate_tensor(&gradient.t()?.matmul(&part.hidden)?)?;
            }
        }
        Tensor::cat(&outs, 0)
    }

    /// [`LOGIT_ROWS`] rows from `first` on, or what is left.
    pub(super) fn part(&self, first: usize, head: &Tensor) -> Result<Part> {
        let count = LOGIT_ROWS.min(self.targets.len() - first);
        let hidden = self.hidden.narrow(0, first, count)?;
        let logits = wide_logits(&hidden, head)?;
        let targets = Tensor::from_slice(&self.targets[first..first + count], count, self.hidden.device())?;
        Ok(Part { hidden, logits, targets })
    }
}

/// Logits in the type of sums: near 30, bf16 tells no difference below 0.125.
pub(crate) fn wide_logits(hidden: &Tensor, head: &Tensor) -> Result<Tensor> {
    widened(hidden)?.matmul(&widened(head)?.t()?)
}

/// Some rows, on a device.
pub(super) struct Part {
    hidden: Tensor,
    pub(super) logits: Tensor,
    targets: Tensor,
}

/// Turns a row of logits into their gradients; the target's still lacks `slope`.
struct Gradients<'a> {
    logits: &'a mut [f32],
    sharpness: f32,
    normaliser: f32,
    entropy: f32,
    /// The loss's gradients of the log-probability and of the entropy, times the sharpness.
    slope: f32,
    spread: f32,
}

impl NullaryFnOnce for Gradients<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for logit in self.logits {
            let logprob = *logit * self.sharpness - self.normaliser;
            // d logprob / d logit = [target] - p; d entropy / d logit = -p (log p + entropy)
            *logit = -exp(logprob) * (self.slope + self.spread * (logprob + self.entropy));
        }
    }
}

/// A token's log-probability, the distribution's entropy, and the logarithm of the sum.
pub(crate) fn read(logits: &[f32], target: usize, sharpness: f32) -> (f32, f32, f32) {
    let chosen = logits.get(target).copied().unwrap_or(f32::NEG_INFINITY) * sharpness;
    let [greatest, total, weighed] = wide(Sums { logits, sharpness });
    let normaliser = greatest + total.ln();
    (chosen - normaliser, total.ln() - weighed / total, normaliser)
}

/// The greatest of `logit * sharpness`, and the sums of e^x and x e^x of x, which is how far each lies below it.
struct Sums<'a> {
    logits: &'a [f32],
    sharpness: f32,
}

impl NullaryFnOnce for Sums<'_> {
    type Output = [f32; 3];

    #[inline(always)]
    fn call(self) -> [f32; 3] {
        let greatest = greatest(self.logits) * self.sharpness;
        let below = |logit| logit * self.sharpness - greatest;
        let total = sum([self.logits], |[logit]| exp(below(logit)));
        let weighed = sum([self.logits], |[logit]| exp(below(logit)) * below(logit).max(-100.0));
        [greatest, total, weighed]
    }
}

/// `e^(logit * sharpness - the greatest)` of each logit.
pub(crate) fn exponentials(logits: &[f32], sharpness: f32) -> Vec<f32> {
    let mut out = logits.to_vec();
    wide(Exponentials { logits: &mut out, sharpness });
    out
}

struct Exponentials<'a> {
    logits: &'a mut [f32],
    sharpness: f32,
}

impl NullaryFnOnce for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let greatest = greatest(self.logits) * self.sharpness;
        self.logits.iter_mut().for_each(|logit| *logit = exp(*logit * self.sharpness - greatest));
    }
}
