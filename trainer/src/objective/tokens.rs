//! What does an objective see of a micro-batch, and how are masked tokens kept out?

use std::ops::Range;

use candle_core::{DType, Tensor, WithDType};

use super::hindsight::{Teacher, TokenScope};
use crate::{Error, Result};

/// The needed tokens of a micro-batch, one row (sequence) after the other. All tensors are `[n]`, n the number of tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Row i's tokens; together they are `0..n`.
    pub rows: Vec<Range<usize>>,
    /// Log-probabilities of the sampled tokens under the current policy: what gradients are asked for.
    pub logprobs: Tensor,
    /// Entropies in nats under the current policy, with a gradient of their own.
    pub entropy: Option<Tensor>,
    /// Log-probabilities under the policy that sampled them. For a batch that is used once: `logprobs.detach()`.
    pub old: Tensor,
    /// Log-probabilities under the reference policy.
    pub reference: Option<Tensor>,
    /// 1 on tokens that the policy sampled, 0 elsewhere.
    pub policy_mask: Tensor,
    /// 1 on tokens inside a search query, 0 elsewhere.
    pub query_mask: Tensor,
    /// The advantage of the token's row.
    pub advantages: Tensor,
    /// What a teacher said that knew more.
    pub teacher: Option<Teacher>,
}

impl Tokens {
    /// Refuses shapes that do not fit together.
    pub(super) fn check(&self) -> Result<()> {
        let n = self.logprobs.elem_count();
        let tensors = [
            ("logprobs", Some(&self.logprobs)),
            ("entropy", self.entropy.as_ref()),
            ("old", Some(&self.old)),
            ("reference", self.reference.as_ref()),
            ("policy_mask", Some(&self.policy_mask)),
            ("query_mask", Some(&self.query_mask)),
            ("advantages", Some(&self.advantages)),
        ];
        for (name, tensor) in tensors {
            if let Some(tensor) = tensor.filter(|tensor| tensor.dims() != [n]) {
                return Err(Error::invalid(
                    name,
                    format!("the shape [{n}] of logprobs"),
                    format!("{:?}", tensor.dims()),
                ));
            }
        }
        let mut end = 0;
        for (i, row) in self.rows.iter().enumerate() {
            if row.start != end || row.end < row.start {
                return Err(Error::invalid(format!("row {i}"), format!("a range from {end} on"), format!("{row:?}")));
            }
            end = row.end;
        }
        if end != n {
            return Err(Error::invalid("rows", format!("{n} tokens, as in logprobs"), format!("{end}")));
        }
        self.teacher.as_ref().map_or(Ok(()), |teacher| teacher.check(n))
    }
}

/// How much of a batch a mask needs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenCount {
    /// Tokens with mask 1.
    pub tokens: f64,
    /// Rows with at least one of them.
    pub rows: f64,
}

impl TokenCount {
    /// Counts what `mask` needs of `rows`; what a row has beyond the mask's end is not needed.
    pub fn of(rows: &[Range<usize>], mask: &[f32]) -> Self {
        let counts = || rows.iter().map(|row| needed(row, mask).count());
        Self { tokens: counts().sum::<usize>() as f64, rows: counts().filter(|&tokens| tokens > 0).count() as f64 }
    }

    fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.rows += other.rows;
    }
}

/// Which tokens of a row the mask needs.
pub(super) fn needed(row: &Range<usize>, mask: &[f32]) -> impl Iterator<Item = usize> {
    row.clone().filter(|&token| mask.get(token).is_some_and(|&value| value != 0.0))
}

/// What a whole optimiser batch holds, counted before its first micro-batch, so that the sum over micro-batches does not
/// depend on how the batch is split.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Under the policy masks.
    pub policy: TokenCount,
    /// Under the query masks.
    pub query: TokenCount,
    /// Of the policy mask, what a teacher speaks of.
    pub taught_policy: TokenCount,
    /// Of the query mask, what a teacher speaks of.
    pub taught_query: TokenCount,
    /// Micro-batches.
    pub micro_batches: f64,
}

impl Totals {
    /// Counts one more micro-batch.
    pub fn add(&mut self, rows: &[Range<usize>], policy_mask: &[f32], query_mask: &[f32]) {
        self.policy.add(TokenCount::of(rows, policy_mask));
        self.query.add(TokenCount::of(rows, query_mask));
        self.micro_batches += 1.0;
    }

    /// Counts what a teacher speaks of in a micro-batch, beside [`add`](Self::add).
    pub fn add_taught(&mut self, rows: &[Range<usize>], policy_mask: &[f32], query_mask: &[f32], teacher_mask: &[f32]) {
        for (scope, count) in
            [(TokenScope::Policy, &mut self.taught_policy), (TokenScope::Query, &mut self.taught_query)]
        {
            count.add(TokenCount::of(rows, &scope.mask(policy_mask, query_mask, teacher_mask)));
        }
    }
}

/// Lets through what a mask needs, as f64.
pub(super) struct Needed {
    mask: Tensor,
    others: Tensor,
}

impl Needed {
    pub(super) fn new(mask: &Tensor) -> Result<Self> {
        Self::or(0.0, mask)
    }

    /// With this number, which must be finite, instead of 0 where the mask is 0.
    pub(super) fn or(other: f64, mask: &Tensor) -> Result<Self> {
        Ok(Self { others: Tensor::full(other, mask.shape(), mask.device())?, mask: mask.ne(0.0)? })
    }

    /// `x` where the mask is 1 and 0 elsewhere, in value and in gradient, whatever `x` holds there. An infinity in a needed
    /// token becomes NaN, so that no limit further on can hide it.
    pub(super) fn of(&self, x: &Tensor) -> Result<Tensor> {
        let kept = self.mask.where_cond(&x.to_dtype(DType::F64)?, &self.others)?;
        let zero_or_nan = (kept.detach() * 0.0)?;
        Ok((kept + zero_or_nan)?)
    }

    /// As [`of`](Self::of), without a gradient.
    pub(super) fn constant(&self, x: &Tensor) -> Result<Tensor> {
        self.of(&x.detach())
    }

    /// The sum of the needed values.
    pub(super) fn sum(&self, x: &Tensor) -> Result<f64> {
        Ok(self.constant(x)?.sum_all()?.to_scalar()?)
    }
}

// candle's `clamp`, `minimum` and `maximum` can swallow a NaN, and at a bound their gradient is a half where torch's `clamp` has
// 1. These two keep NaN and do as torch's. They compare detached values, because a gradient cannot go through a comparison.

/// `x` cut to `low..=high`; no gradient where it is cut. NaN stays.
pub(super) fn clamp(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    let value = x.detach();
    let bounded = value.lt(low)?.where_cond(&constant(x, low)?, x)?;
    Ok(value.gt(high)?.where_cond(&constant(x, high)?, &bounded)?)
}

/// The larger of two, element by element. NaN stays where `b` is NaN whenever `a` is.
pub(super) fn larger(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.detach().ge(&b.detach())?.where_cond(a, b)?)
}

fn constant(like: &Tensor, value: f64) -> Result<Tensor> {
    Ok(Tensor::full(value, like.shape(), like.device())?)
}

/// The numbers of a vector, converted.
pub(super) fn host<T: WithDType>(x: &Tensor) -> Result<Vec<T>> {
    Ok(x.detach().to_dtype(T::DTYPE)?.to_vec1()?)
}
