//! What does each token take from those before it? Causal attention within segments, in blocks of queries.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::device::{self, Attended};
use super::panels::{Left, Panels, Right, multiply_here};
use super::placement::is_host;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};
use super::wide::{NullaryFnOnce, exp, greatest, sum, wide};

/// Queries of a block.
const BLOCK: usize = 32;

/// How a model's heads are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; `heads / kv_heads` heads of queries share one (Ainslie et al. 2023).
    pub kv_heads: usize,
    /// Values of a head.
    pub dim: usize,
}

impl Heads {
    fn scale(self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    /// Which head of keys a head of queries reads.
    pub(crate) fn kv(self, head: usize) -> usize {
        head * self.kv_heads / self.heads
    }
}

/// Which rows belong together: the last query sees all keys, the one before all but the last, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    /// Rows of queries.
    pub queries: Range<usize>,
    /// Rows of keys and values, as many at least.
    pub keys: Range<usize>,
}

/// Keys and values that queries of one head look at.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    /// `[dim, keys]`.
    pub keys: &'a Panels,
    /// Row-major, from the head's first value on; `stride` values from row to row.
    pub values: &'a [f32],
    pub stride: usize,
}

impl Heads {
    /// `out = softmax(q k^T / sqrt(dim)) v` for some queries of one head; query `i` sees the first `visible(i)` keys. A row's bits
    /// depend on its query and the keys that it sees alone.
    pub(crate) fn attend(
        self,
        memory: Memory<'_>,
        queries: Left<'_>,
        visible: impl Fn(usize) -> usize,
        out: &mut [f32],
    ) {
        let mut weights = Vec::new();
        let sums = self.weights(memory, queries, &visible, &mut weights);
        let keys = weights.len() / queries.rows.max(1);
        let values = Right::Rows { data: memory.values, depth: keys, width: self.dim, stride: memory.stride };
        multiply_here(Left::rows(&weights, keys), values, out, false);
        for (out, sum) in out.chunks_exact_mut(self.dim).zip(sums) {
            out.iter_mut().for_each(|value| *value /= sum);
        }
    }

    /// `e^(score - greatest score)` of each query and key, 0 where it is not seen; and their sums.
    fn weights(
        self,
        memory: Memory<'_>,
        queries: Left<'_>,
        visible: &impl Fn(usize) -> usize,
        weights: &mut Vec<f32>,
    ) -> Vec<f32> {
        let keys = (0..queries.rows).map(visible).max().unwrap_or(0);
        weights.clear();
        weights.resize(queries.rows * keys, 0.0);
        multiply_here(queries, Right::Panels(memory.keys, keys), weights, false);
        let scale = self.scale();
        let softmax = |(row, weights): (usize, &mut [f32])| {
            let (seen, hidden) = weights.split_at_mut(visible(row));
            hidden.fill(0.0);
            wide(Exponentials { scores: seen, scale })
        };
        weights.chunks_exact_mut(keys.max(1)).enumerate().map(softmax).collect()
    }
}

/// Causal attention: `q` is `[tokens, heads * dim]`, `k` and `v` are `[tokens, kv_heads * dim]`; a token sees those before it in
/// its segment, and itself. `segments` follow each other and hold all tokens.
///
/// Nothing of the size `[tokens, tokens]` is kept: the backward pass computes the weights again (Dao et al. 2022).
///
/// # Errors
/// Those of the tensors.
pub fn attention(tape: &Tape, [q, k, v]: [&Value; 3], heads: Heads, segments: &Arc<[Range<usize>]>) -> Result<Value> {
    if !is_host(&q.tensor) {
        return attention_on_device(tape, [q, k, v], heads, segments);
    }
    let out = forward([&q.tensor, &k.tensor, &v.tensor], heads, segments)?;
    let out = tensor(out, q.tensor.shape().clone())?;
    Ok(tape.push(&[q, k, v], false, out.clone(), || {
        let saved = [q, k, v].map(|value| value.tensor.clone());
        let segments = segments.clone();
        Box::new(move |gradient| backward(&saved, &out, gradient, heads, &segments))
    }))
}

fn attention_on_device(tape: &Tape, [q, k, v]: [&Value; 3], heads: Heads, segments: &[Range<usize>]) -> Result<Value> {
    let segments: Vec<Segment> =
        segments.iter().map(|segment| Segment { queries: segment.clone(), keys: segment.clone() }).collect();
    let (out, normalisers) = device::attention([&q.tensor, &k.tensor, &v.tensor], heads, &segments)?;
    Ok(tape.push(&[q, k, v], false, out.clone(), || {
        let [q, k, v] = [q, k, v].map(|value| value.tensor.clone());
        Box::new(move |gradient| {
            let from = Attended { q: &q, k: &k, v: &v, out: &out, normalisers: &normalisers };
            Ok(device::attention_back(&from, gradient, heads, &segments)?.map(Some).into())
        })
    }))
}

fn forward([q, k, v]: [&Tensor; 3], heads: Heads, segments: &[Range<usize>]) -> Result<Vec<f32>> {
    let (q, k, v) = (view(q)?, view(k)?, view(v)?);
    let (q, k, v) = (&*q, &*k, &*v);
    let (width, kv_width) = (heads.heads * heads.dim, heads.kv_heads * heads.dim);
    let pairs: Vec<(&Range<usize>, usize)> =
        segments.iter().flat_map(|segment| (0..heads.kv_heads).map(move |kv| (segment, kv))).collect();
    let keys: Vec<Panels> = pairs
        .par_iter()
        .map(|(segment, kv)| Panels::of_rows(&k[head(segment, *kv, heads, kv_width)], heads.dim, kv_width))
        .collect();
    let mut out = vec![0.0; q.len()];
    let mut blocks = Vec::new();
    let mut rest = out.as_mut_slice();
    for (number, segment) in segments.iter().enumerate() {
        for first in segment.clone().step_by(BLOCK) {
            let tokens = first..segment.end.min(first + BLOCK);
            let (block, others) = rest.split_at_mut(tokens.len() * width);
            blocks.push((number, tokens, block));
            rest = others;
        }
    }
    blocks.into_par_iter().for_each(|(number, tokens, block)| {
        let segment = &segments[number];
        let mut part = vec![0.0; tokens.len() * heads.dim];
        for at in 0..heads.heads {
            let kv = heads.kv(at);
            let memory = Memory {
                keys: &keys[number * heads.kv_heads + kv],
                values: &v[head(segment, kv, heads, kv_width)],
                stride: kv_width,
            };
            let queries = rows(&q[head(&tokens, at, heads, width)], tokens.len(), heads.dim, width);
            heads.attend(memory, queries, |row| tokens.start + row + 1 - segment.start, &mut part);
            for (out, part) in block.chunks_exact_mut(width).zip(part.chunks_exact(heads.dim)) {
                out[at * heads.dim..][..heads.dim].copy_from_slice(part);
            }
        }
    });
    Ok(out)
}

/// `e^(score - greatest score)` in place of each score; gives their sum.
struct Exponentials<'a> {
    scores: &'a mut [f32],
    scale: f32,
}

impl NullaryFnOnce for Exponentials<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        let greatest = greatest(self.scores);
        self.scores.iter_mut().for_each(|score| *score = exp((*score - greatest) * self.scale));
        sum([self.scores], |[score]| score)
    }
}

/// Weights that add up to 1, and in place of their gradients those of the scores: p (dp - sum(p dp)), where sum(p dp) is
/// out . gradient.
struct ScoreGradients<'a> {
    weights: &'a mut [f32],
    slopes: &'a mut [f32],
    out: &'a [f32],
    gradient: &'a [f32],
    total: f32,
    scale: f32,
}

impl NullaryFnOnce for ScoreGradients<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mean = sum([self.out, self.gradient], |[out, gradient]| out * gradient);
        for (weight, slope) in self.weights.iter_mut().zip(self.slopes) {
            *weight /= self.total;
            *slope = *weight * (*slope - mean) * self.scale;
        }
    }
}

/// Where the values of a head stand, from its first token's to its last's.
fn head(tokens: &Range<usize>, head: usize, heads: Heads, width: usize) -> Range<usize> {
    let first = tokens.start * width + head * heads.dim;
    first..if tokens.is_empty() { first } else { first + (tokens.len() - 1) * width + heads.dim }
}

fn rows(data: &[f32], rows: usize, depth: usize, stride: usize) -> Left<'_> {
    Left { data, rows, depth, stride, transposed: false }
}

fn backward(
    [q, k, v]: &[Tensor; 3],
    out: &Tensor,
    gradient: &Tensor,
    heads: Heads,
    segments: &[Range<usize>],
) -> Result<Vec<Option<Tensor>>> {
    let shapes = [q, k, v].map(|tensor| tensor.shape().clone());
    let (q, k, v, out, gradient) = (view(q)?, view(k)?, view(v)?, view(out)?, view(gradient)?);
    let pass = Pass { heads, q: &q, k: &k, v: &v, out: &out, gradient: &gradient };
    let (width, kv_width) = (heads.heads * heads.dim, heads.kv_heads * heads.dim);
    let pairs: Vec<(&Range<usize>, usize)> =
        segments.iter().flat_map(|segment| (0..heads.heads).map(move |head| (segment, head))).collect();
    let parts: Vec<[Vec<f32>; 3]> = pairs.par_iter().map(|(segment, head)| pass.head(segment, *head)).collect();
    let mut gradients = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]];
    for ((segment, head), parts) in pairs.iter().zip(&parts) {
        let columns = [(*head, width), (heads.kv(*head), kv_width), (heads.kv(*head), kv_width)];
        for ((gradient, part), (head, width)) in gradients.iter_mut().zip(parts).zip(columns) {
            let rows = gradient[segment.start * width..segment.end * width].chunks_exact_mut(width);
            for (sum, part) in rows.zip(part.chunks_exact(heads.dim)) {
                sum[head * heads.dim..][..heads.dim].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
    }
    let tensors = gradients.into_iter().zip(shapes).map(|(values, shape)| tensor(values, shape).map(Some));
    tensors.collect()
}

/// What the backward pass of a head needs.
struct Pass<'a> {
    heads: Heads,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    out: &'a [f32],
    gradient: &'a [f32],
}

impl Pass<'_> {
    /// Gradients of a head's queries, and its shares of those of keys and values; `[tokens, dim]` each.
    fn head(&self, segment: &Range<usize>, at: usize) -> [Vec<f32>; 3] {
        let heads = self.heads;
        let (dim, width, kv_width) = (heads.dim, heads.heads * heads.dim, heads.kv_heads * heads.dim);
        let of_kv = head(segment, heads.kv(at), heads, kv_width);
        let (k, v) = (&self.k[of_kv.clone()], &self.v[of_kv]);
        let keys = Panels::of_rows(k, dim, kv_width);
        let values = Panels::of_rows(v, dim, kv_width);
        let memory = Memory { keys: &keys, values: v, stride: kv_width };
        let mut sums = [(); 3].map(|()| vec![0.0; segment.len() * dim]);
        let (mut weights, mut slopes) = (Vec::new(), Vec::new());
        for first in segment.clone().step_by(BLOCK) {
            let tokens = first..segment.end.min(first + BLOCK);
            let block = head(&tokens, at, heads, width);
            let before = first - segment.start;
            let visible = |row: usize| before + row + 1;
            let queries = rows(&self.q[block.clone()], tokens.len(), dim, width);
            let gradients = rows(&self.gradient[block.clone()], tokens.len(), dim, width);
            let totals = heads.weights(memory, queries, &visible, &mut weights);
            let keys = before + tokens.len();
            slopes.clear();
            slopes.resize(weights.len(), 0.0);
            multiply_here(gradients, Right::Panels(&values, keys), &mut slopes, false);
            let outs = self.out[block.clone()].chunks(width).zip(self.gradient[block.clone()].chunks(width));
            let blocks = weights.chunks_exact_mut(keys).zip(slopes.chunks_exact_mut(keys));
            for ((weights, slopes), ((out, gradient), total)) in blocks.zip(outs.zip(totals)) {
                let (out, gradient) = (&out[..dim], &gradient[..dim]);
                wide(ScoreGradients { weights, slopes, out, gradient, total, scale: heads.scale() });
            }
            let [to_q, to_k, to_v] = &mut sums;
            let data = |data, stride| Right::Rows { data, depth: tokens.len(), width: dim, stride };
            let right = Right::Rows { data: k, depth: keys, width: dim, stride: kv_width };
            multiply_here(Left::rows(&slopes, keys), right, &mut to_q[before * dim..keys * dim], false);
            let queries = data(&self.q[block.clone()], width);
            multiply_here(Left::columns(&slopes, keys), queries, &mut to_k[..keys * dim], true);
            let gradients = data(&self.gradient[block], width);
            multiply_here(Left::columns(&weights, keys), gradients, &mut to_v[..keys * dim], true);
        }
        sums
    }
}
