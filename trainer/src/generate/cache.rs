//! Keys and values of the tokens that a sequence has read, so that each token is read once.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::layer_memory::LayerMemory;
use crate::decoder::Decoder;
use crate::ops::{HeadMemory, Heads, Segment, attention_on_device, head_memory, is_host};

/// Products from which on a second thread is worth while.
const WORTH: usize = 1 << 18;

/// What one sequence has read.
pub(super) struct Cache {
    /// The tokens.
    pub tokens: Vec<u32>,
    memories: Memories,
}

enum Memories {
    /// One a layer and head of keys, layer by layer.
    Heads(Vec<HeadMemory>),
    /// One a layer, where the weights are not f32 in host memory.
    Layers(Vec<LayerMemory>),
}

impl Cache {
    pub fn new(decoder: &Decoder) -> Self {
        let heads = decoder.heads();
        let layers = decoder.config().layers;
        let memories = if decoder.placement().is_host() {
            Memories::Heads((0..layers * heads.kv_heads).map(|_| head_memory(heads.dim)).collect())
        } else {
            Memories::Layers((0..layers).map(|_| LayerMemory::default()).collect())
        };
        Self { tokens: Vec::new(), memories }
    }

    /// A copy that has read the first `count` tokens alone.
    pub fn prefix(&self, count: usize) -> Self {
        let memories = match &self.memories {
            Memories::Heads(heads) => Memories::Heads(heads.iter().map(|memory| memory.prefix(count)).collect()),
            Memories::Layers(layers) => Memories::Layers(layers.iter().map(|memory| memory.prefix(count)).collect()),
        };
        Self { tokens: self.tokens[..count.min(self.tokens.len())].to_vec(), memories }
    }
}

/// New tokens of a sequence.
pub(super) struct Reading<'a> {
    pub cache: &'a mut Cache,
    pub tokens: Vec<u32>,
}

/// Reads the new tokens of all sequences; gives the logits after each sequence's last one, `[sequences, vocabulary]`.
pub(super) fn read(decoder: &Decoder, readings: &mut [Reading<'_>]) -> crate::Result<Tensor> {
    let x = go_on(decoder, readings)?;
    let mut end = 0;
    let last = readings.iter_mut().map(|reading| {
        end += reading.tokens.len() as u32;
        reading.cache.tokens.append(&mut reading.tokens);
        end - 1
    });
    let last: Vec<u32> = last.collect();
    decoder.logits(&decoder.finish(&x, &last)?)
}

/// The hidden states of the new tokens of all sequences, one after the other, before the last norm.
pub(super) fn go_on(decoder: &Decoder, readings: &mut [Reading<'_>]) -> crate::Result<Tensor> {
    let heads = decoder.heads();
    let tokens: Vec<u32> = readings.iter().flat_map(|reading| reading.tokens.iter().copied()).collect();
    let positions = readings.iter().flat_map(|reading| {
        let first = reading.cache.tokens.len() as u32;
        first..first + reading.tokens.len() as u32
    });
    let positions: Vec<u32> = positions.collect();
    decoder.infer(&tokens, &positions, &mut |layer, [q, k, v]| {
        attend(heads, layer, readings, [&q.tensor, &k.tensor, &v.tensor])
    })
}

/// Remembers keys and values, and lets each new token look at all before it and at itself.
fn attend(heads: Heads, layer: usize, readings: &mut [Reading<'_>], [q, k, v]: [&Tensor; 3]) -> Result<Tensor> {
    if !is_host(q) {
        return attend_in_layers(heads, layer, readings, [q, k, v]);
    }
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
        let memories = match &mut reading.cache.memories {
            Memories::Heads(memories) => memories.as_mut_slice(),
            Memories::Layers(_) => &mut [],
        };
        let memories = memories.chunks_mut(heads.kv_heads).nth(layer).into_iter().flatten();
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

/// The same, where keys and values of each sequence are tensors.
fn attend_in_layers(
    heads: Heads,
    layer: usize,
    readings: &mut [Reading<'_>],
    [q, k, v]: [&Tensor; 3],
) -> Result<Tensor> {
    let (mut first, mut outs) = (0, Vec::with_capacity(readings.len()));
    for reading in readings {
        let count = reading.tokens.len();
        let memory = match &mut reading.cache.memories {
            Memories::Layers(layers) => layers.get_mut(layer),
            Memories::Heads(_) => None,
        };
        let Some(memory) = memory else { candle_core::bail!("a sequence that was begun on another device") };
        let part = |tensor: &Tensor| tensor.narrow(0, first, count);
        let [keys, values] = memory.push(&part(k)?, &part(v)?)?;
        let segment = Segment { queries: 0..count, keys: 0..keys.dim(0)? };
        outs.push(attention_on_device([&part(q)?, &keys, &values], heads, &[segment])?.0);
        first += count;
    }
    Tensor::cat(&outs, 0)
}
