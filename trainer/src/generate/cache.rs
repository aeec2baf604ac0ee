//! Keys and values of the tokens that a sequence has read, so that each token is read once.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use crate::decoder::Decoder;
use crate::ops::{HeadMemory, Heads, head_memory};

/// Products from which on a second thread is worth while.
const WORTH: usize = 1 << 18;

/// What one sequence has read.
#[derive(Clone)]
pub(super) struct Cache {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// One a layer and head of keys, layer by layer.
    memories: Vec<HeadMemory>,
    kv_heads: usize,
}

impl Cache {
    pub fn new(decoder: &Decoder) -> Self {
        let heads = decoder.heads();
        let memories = (0..decoder.config().layers * heads.kv_heads).map(|_| head_memory(heads.dim)).collect();
        Self { tokens: Vec::new(), memories, kv_heads: heads.kv_heads }
    }

    /// A copy that has read the first `count` tokens alone.
    pub fn prefix(&self, count: usize) -> Self {
        let memories = self.memories.iter().map(|memory| memory.prefix(count)).collect();
        Self { tokens: self.tokens[..count.min(self.tokens.len())].to_vec(), memories, kv_heads: self.kv_heads }
    }
}

/// New tokens of a sequence.
pub(super) struct Reading<'a> {
    pub cache: &'a mut Cache,
    pub tokens: Vec<u32>,
}

/// Reads the new tokens of all sequences; gives the logits after each sequence's last one, `[sequences, vocabulary]`.
pub(super) fn read(decoder: &Decoder, readings: &mut [Reading<'_>]) -> crate::Result<Tensor> {
    let heads = decoder.heads();
    let tokens: Vec<u32> = readings.iter().flat_map(|reading| reading.tokens.iter().copied()).collect();
    let positions = readings.iter().flat_map(|reading| {
        let first = reading.cache.tokens.len() as u32;
        first..first + reading.tokens.len() as u32
    });
    let positions: Vec<u32> = positions.collect();
    let x = decoder.infer(&tokens, &positions, &mut |layer, [q, k, v]| {
        attend(heads, layer, readings, [&q.tensor, &k.tensor, &v.tensor])
    })?;
    let mut end = 0;
    let last = readings.iter_mut().map(|reading| {
        end += reading.tokens.len() as u32;
        reading.cache.tokens.append(&mut reading.tokens);
        end - 1
    });
    let last: Vec<u32> = last.collect();
    decoder.logits(&decoder.finish(&x, &last)?)
}

/// Remembers keys and values, and lets each new token look at all before it and at itself.
fn attend(heads: Heads, layer: usize, readings: &mut [Reading<'_>], [q, k, v]: [&Tensor; 3]) -> Result<Tensor> {
    let (q, k, v) = (crate::ops::view(q)?, crate::ops::view(k)?, crate::ops::view(v)?);
    let (width, kv_width) = (heads.heads * heads.dim, heads.kv_heads * heads.dim);
    let (q, k, v) = (&*q, &*k, &*v);
    let mut first = 0;
    let mut tasks = Vec::new();
    let mut work = 0;
    for reading in readings.iter_mut() {
        let count = reading.tokens.len();
        let before = reading.cache.tokens.len();
        work += count * (before + count) * width;
        let kv_heads = reading.cache.kv_heads;
        let memories = reading.cache.memories.chunks_mut(kv_heads).nth(layer).into_iter().flatten();
        tasks.extend(memories.enumerate().map(|(kv, memory)| (first..first + count, kv, memory)));
        first += count;
    }
    let group = heads.heads / heads.kv_heads;
    let run = |(tokens, kv, memory): (std::ops::Range<usize>, usize, &mut HeadMemory)| {
        for token in tokens.clone() {
            let place = token * kv_width + kv * heads.dim;
            memory.push(&k[place..place + heads.dim], &v[place..place + heads.dim]);
        }
        let queries = &q[tokens.start * width..tokens.end * width];
        (tokens, kv, memory.attend(heads, queries, kv * group..(kv + 1) * group))
    };
    let outs: Vec<_> =
        if work > WORTH { tasks.into_par_iter().map(run).collect() } else { tasks.into_iter().map(run).collect() };
    let mut out = vec![0.0; q.len()];
    for (tokens, kv, part) in outs {
        let columns = kv * group * heads.dim..(kv + 1) * group * heads.dim;
        let rows = out[tokens.start * width..tokens.end * width].chunks_exact_mut(width);
        rows.zip(part.chunks_exact(columns.len())).for_each(|(out, part)| out[columns.clone()].copy_from_slice(part));
    }
    crate::ops::tensor(out, (q.len() / width.max(1), width))
}
