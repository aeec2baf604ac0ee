//! Keys and values of one head that grow token by token, for inference.

use std::ops::Range;

use super::attention::{Heads, Memory};
use super::panels::{Left, Panels};

/// Queries of a block.
const BLOCK: usize = 32;

/// What one head remembers of a sequence.
#[derive(Clone)]
pub(crate) struct HeadMemory {
    keys: Panels,
    values: Vec<f32>,
    dim: usize,
}

/// A memory of nothing yet.
pub(crate) fn head_memory(dim: usize) -> HeadMemory {
    HeadMemory { keys: Panels::empty(dim), values: Vec::new(), dim }
}

impl HeadMemory {
    /// One more token.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        self.keys.push(key);
        self.values.extend_from_slice(value);
    }

    /// A copy of the first tokens.
    pub fn prefix(&self, count: usize) -> Self {
        let values = self.values[..self.values.len().min(count * self.dim)].to_vec();
        Self { keys: self.keys.prefix(count), values, dim: self.dim }
    }

    /// What the last tokens take from all before them and from themselves: `queries` are the rows of those tokens, `[tokens,
    /// heads * dim]`, of which the heads named look here. Gives `[tokens, named heads * dim]`.
    pub fn attend(&self, heads: Heads, queries: &[f32], named: Range<usize>) -> Vec<f32> {
        let (dim, width) = (self.dim, heads.heads * self.dim);
        let tokens = queries.len() / width;
        let before = self.keys.width() - tokens;
        let memory = Memory { keys: &self.keys, values: &self.values, stride: dim };
        let mut out = vec![0.0; tokens * named.len() * dim];
        if tokens == 1 {
            // The heads of one token are rows that follow each other.
            let left = Left {
                data: &queries[named.start * dim..],
                rows: named.len(),
                depth: dim,
                stride: dim,
                transposed: false,
            };
            heads.attend(memory, left, |_| before + 1, &mut out);
            return out;
        }
        let mut part = vec![0.0; BLOCK * dim];
        for first in (0..tokens).step_by(BLOCK) {
            let count = BLOCK.min(tokens - first);
            for (number, head) in named.clone().enumerate() {
                let data = &queries[first * width + head * dim..];
                let left = Left { data, rows: count, depth: dim, stride: width, transposed: false };
                let part = &mut part[..count * dim];
                heads.attend(memory, left, |row| before + first + row + 1, part);
                let rows = out[first * named.len() * dim..].chunks_exact_mut(named.len() * dim);
                rows.zip(part.chunks_exact(dim))
                    .for_each(|(out, part)| out[number * dim..][..dim].copy_from_slice(part));
            }
        }
        out
    }
}
