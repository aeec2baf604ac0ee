//! What did the teacher say?

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use super::super::tokens::host;
use crate::{Error, Result};

/// Stands in [`TopTokens::ids`] where a token has fewer of them than others.
pub const NO_TOKEN: u32 = u32::MAX;

/// What a teacher said of the needed tokens, `n` of them. Gradients do not reach it.
#[derive(Debug, Clone)]
pub struct Teacher {
    /// Log-probabilities of the sampled tokens, `[n]`.
    pub logprobs: Tensor,
    /// Entropies in nats, `[n]`, to be told.
    pub entropy: Option<Tensor>,
    /// `[n]`: 1 on tokens that it is to speak of, 0 elsewhere. So this says which rows teach (those that failed), and which
    /// of their parts (all, or the first mistake).
    pub mask: Tensor,
    /// Its distributions, for what needs them.
    pub top: Option<TopTokens>,
}

/// Distributions at a few tokens of the vocabulary, `k` for each of the `n` needed ones.
#[derive(Debug, Clone)]
pub struct TopTokens {
    /// Which ones, `[n, k]` u32: no two alike in a line, and [`NO_TOKEN`] where there are fewer.
    pub ids: Tensor,
    /// Their log-probabilities under the teacher, over the whole vocabulary, `[n, k]`.
    pub teacher: Tensor,
    /// Under the current policy: what gradients are asked for.
    pub student: Tensor,
    /// Under the policy that sampled, for the surrogate. For a batch that is used once: `student.detach()`.
    pub old: Option<Tensor>,
}

/// At which tokens of the vocabulary distributions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    /// The likeliest so many.
    pub k: usize,
    /// Of whom.
    pub side: Side,
}

/// Whose likeliest tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The teacher's.
    Teacher,
    /// Those of the policy that sampled.
    Student,
    /// All of both.
    Union,
    /// Those that both have.
    Overlap,
}

impl Support {
    pub(super) fn check(self, what: &str) -> Result<()> {
        if self.k == 0 {
            return Err(Error::invalid(format!("{what}.k"), "1 or more", "0"));
        }
        Ok(())
    }

    /// The most ids that a token can have.
    pub fn width(self) -> usize {
        match self.side {
            Side::Union => 2 * self.k,
            Side::Teacher | Side::Student | Side::Overlap => self.k,
        }
    }
}

impl Teacher {
    /// Refuses shapes that do not fit together.
    pub(in super::super) fn check(&self, n: usize) -> Result<()> {
        let vectors = [
            ("teacher.logprobs", Some(&self.logprobs)),
            ("teacher.entropy", self.entropy.as_ref()),
            ("teacher.mask", Some(&self.mask)),
        ];
        for (name, tensor) in vectors {
            refuse_shape(name, tensor, &[n])?;
        }
        let Some(top) = &self.top else { return Ok(()) };
        let k = top.ids.dims().get(1).copied().unwrap_or_default().max(1);
        let tables = [
            ("teacher.top.ids", Some(&top.ids)),
            ("teacher.top.teacher", Some(&top.teacher)),
            ("teacher.top.student", Some(&top.student)),
            ("teacher.top.old", top.old.as_ref()),
        ];
        for (name, tensor) in tables {
            refuse_shape(name, tensor, &[n, k])?;
        }
        top.check(&host(&self.mask)?)
    }
}

impl TopTokens {
    fn check(&self, mask: &[f32]) -> Result<()> {
        if self.ids.dtype() != DType::U32 {
            return Err(Error::invalid("teacher.top.ids", "u32", format!("{:?}", self.ids.dtype())));
        }
        for (token, mut ids) in self.ids.to_vec2::<u32>()?.into_iter().enumerate().filter(|(i, _)| mask[*i] != 0.0) {
            ids.retain(|id| *id != NO_TOKEN);
            ids.sort_unstable();
            if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
                let found = format!("{} twice at token {token}", twice[0]);
                return Err(Error::invalid("teacher.top.ids", "different ids", found));
            }
        }
        Ok(())
    }
}

fn refuse_shape(name: &str, tensor: Option<&Tensor>, expected: &[usize]) -> Result<()> {
    match tensor.filter(|tensor| tensor.dims() != expected) {
        Some(tensor) => Err(Error::invalid(name, format!("the shape {expected:?}"), format!("{:?}", tensor.dims()))),
        None => Ok(()),
    }
}
