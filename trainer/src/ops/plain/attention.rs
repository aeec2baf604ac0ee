//! Attention in candle's own operations, on any device: a block of queries at a time, so that little of the size of queries times
//! keys is there at once.

use std::ops::Range;

use candle_core::{D, Result, Tensor};

use crate::ops::attention::{Heads, Segment};
use crate::ops::placement::widened;

/// Queries of a block.
const BLOCK: usize = 256;

/// Causal attention: `q` is `[queries, heads * dim]`, `k` and `v` are `[keys, kv_heads * dim]`, all of T. The queries of segments
/// follow each other and are all; the last query of a segment sees its last key, the one before all but that, and so on. Gives
/// `[queries, heads * dim]` of T, and the logarithms of the sums of e^score, `[heads, queries]` of S.
pub(crate) fn attention([q, k, v]: [&Tensor; 3], heads: Heads, segments: &[Segment]) -> Result<(Tensor, Tensor)> {
    let (mut outs, mut normalisers) = (Vec::new(), Vec::new());
    for segment in segments {
        let keys = rows(k, &segment.keys, heads.kv_heads)?;
        let values = rows(v, &segment.keys, heads.kv_heads)?;
        for queries in blocks(&segment.queries) {
            let scores = heads.scores(&grouped(q, &queries, heads)?, &keys, segment, &queries)?;
            let greatest = scores.max_keepdim(D::Minus1)?;
            let weights = scores.broadcast_sub(&greatest)?.exp()?;
            let total = weights.sum_keepdim(D::Minus1)?;
            normalisers.push(greatest.add(&total.log()?)?.reshape((heads.heads, queries.len()))?);
            let out = weights.broadcast_div(&total)?.matmul(&values)?;
            outs.push(ungrouped(&out, queries.len(), heads)?);
        }
    }
    Ok((Tensor::cat(&outs, 0)?.to_dtype(q.dtype())?, Tensor::cat(&normalisers, 1)?))
}

/// What [`attention`] was given and gave; its backward pass needs them. The keys of segments follow each other, too, and are all.
pub(crate) struct Attended<'a> {
    pub q: &'a Tensor,
    pub k: &'a Tensor,
    pub v: &'a Tensor,
    pub out: &'a Tensor,
    pub normalisers: &'a Tensor,
}

/// Gradients of q, k and v, of their shapes and T.
pub(crate) fn attention_back(
    from: &Attended<'_>,
    gradient: &Tensor,
    heads: Heads,
    segments: &[Segment],
) -> Result<[Tensor; 3]> {
    let (mut to_q, mut to_k, mut to_v) = (Vec::new(), Vec::new(), Vec::new());
    for segment in segments {
        let keys = rows(from.k, &segment.keys, heads.kv_heads)?;
        let values = rows(from.v, &segment.keys, heads.kv_heads)?;
        let (mut key_sum, mut value_sum) = (keys.zeros_like()?, values.zeros_like()?);
        for queries in blocks(&segment.queries) {
            let count = queries.len();
            let asked = grouped(from.q, &queries, heads)?;
            let (out, slope) = (grouped(from.out, &queries, heads)?, grouped(gradient, &queries, heads)?);
            let normalisers = from.normalisers.narrow(1, queries.start, count)?.contiguous()?;
            let normalisers = normalisers.reshape((heads.kv_heads, (), 1))?;
            let weights = heads.scores(&asked, &keys, segment, &queries)?.broadcast_sub(&normalisers)?.exp()?;
            // The scores' gradients: p (dp - sum(p dp)), where sum(p dp) is out . gradient.
            let mean = out.mul(&slope)?.sum_keepdim(D::Minus1)?;
            let to_weights = slope.matmul(&values.t()?)?;
            let to_scores = (weights.mul(&to_weights.broadcast_sub(&mean)?)? * heads.wide_scale())?;
            to_q.push(ungrouped(&to_scores.matmul(&keys)?, count, heads)?);
            key_sum = key_sum.add(&to_scores.t()?.matmul(&asked)?)?;
            value_sum = value_sum.add(&weights.t()?.matmul(&slope)?)?;
        }
        to_k.push(together(&key_sum, heads.dim)?);
        to_v.push(together(&value_sum, heads.dim)?);
    }
    let narrowed = |parts: Vec<Tensor>| Tensor::cat(&parts, 0)?.to_dtype(from.q.dtype());
    Ok([narrowed(to_q)?, narrowed(to_k)?, narrowed(to_v)?])
}

impl Heads {
    fn wide_scale(self) -> f64 {
        1.0 / (self.dim as f64).sqrt()
    }

    /// `[kv_heads, group * queries, keys]` of S, minus infinity where a query sees nothing.
    fn scores(self, asked: &Tensor, keys: &Tensor, segment: &Segment, queries: &Range<usize>) -> Result<Tensor> {
        let (count, width) = (queries.len(), segment.keys.len());
        let before = width - segment.queries.len() + queries.start - segment.queries.start;
        let hidden = (0..count)
            .flat_map(|row| (0..width).map(move |key| if key > before + row { f64::NEG_INFINITY } else { 0.0 }));
        let hidden = Tensor::from_vec(hidden.collect::<Vec<f64>>(), (1, 1, count, width), asked.device())?;
        let scores = (asked.matmul(&keys.t()?)? * self.wide_scale())?;
        let grouped = scores.reshape((self.kv_heads, (), count, width))?;
        grouped.broadcast_add(&hidden.to_dtype(asked.dtype())?)?.reshape((self.kv_heads, (), width))
    }
}

fn blocks(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    range.clone().step_by(BLOCK).map(move |first| first..end.min(first + BLOCK))
}

/// Some rows of `[rows, heads * dim]` as `[heads, rows, dim]` of S.
fn rows(tensor: &Tensor, range: &Range<usize>, heads: usize) -> Result<Tensor> {
    let rows = widened(&tensor.narrow(0, range.start, range.len())?)?;
    rows.reshape((range.len(), heads, ()))?.transpose(0, 1)?.contiguous()
}

/// Some rows of queries as `[kv_heads, group * rows, dim]` of S: those that read one head of keys below each other.
fn grouped(tensor: &Tensor, range: &Range<usize>, heads: Heads) -> Result<Tensor> {
    rows(tensor, range, heads.heads)?.reshape((heads.kv_heads, (), heads.dim))
}

/// The way back from [`grouped`]: `[rows, heads * dim]`.
fn ungrouped(tensor: &Tensor, count: usize, heads: Heads) -> Result<Tensor> {
    together(&tensor.reshape((heads.heads, count, heads.dim))?, heads.dim)
}

/// From `[heads, rows, dim]` to `[rows, heads * dim]`.
fn together(tensor: &Tensor, dim: usize) -> Result<Tensor> {
    let (heads, rows, _) = tensor.dims3()?;
    tensor.transpose(0, 1)?.contiguous()?.reshape((rows, heads * dim))
}
