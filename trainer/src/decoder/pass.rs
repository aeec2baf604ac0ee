//! A pass over packed sequences, forwards and back.

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;

use super::Decoder;
use crate::Result;
use crate::ops::{Angles, Tape, Value, attention, embedding};

/// Sequences one after the other, without padding.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    /// The tokens of all of them.
    pub tokens: Vec<u32>,
    /// Where each sequence stands among the tokens.
    pub segments: Vec<Range<usize>>,
}

impl Packed {
    /// Adds a sequence.
    pub fn push(&mut self, tokens: &[u32]) {
        let first = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.segments.push(first..self.tokens.len());
    }

    fn positions(&self) -> Vec<u32> {
        self.segments.iter().flat_map(|segment| 0..segment.len() as u32).collect()
    }
}

/// What a backward pass needs.
pub struct Pass<'a> {
    decoder: &'a Decoder,
    /// `[rows, hidden]`: the last hidden states of the rows that were asked for.
    hidden: Value,
    angles: Arc<Angles>,
    segments: Arc<[Range<usize>]>,
    kept: Kept,
}

enum Kept {
    /// All that was computed.
    All(Tape),
    /// What went into each block; the rest is computed again (Chen et al. 2016).
    Inputs { tokens: Vec<u32>, inputs: Vec<Tensor>, last: Tape, input: Value },
}

impl Decoder {
    /// Runs all sequences, and gives the last hidden states of `rows`, which count the tokens of all of them. With `recompute`
    /// only the input of each block is kept, for a third more work and far less memory; the numbers are the same.
    ///
    /// # Errors
    /// Those of the tensors; tokens outside of the vocabulary.
    pub fn forward(&self, packed: &Packed, rows: &[u32], recompute: bool) -> Result<Pass<'_>> {
        let segments: Arc<[Range<usize>]> = packed.segments.clone().into();
        let angles = self.angles(&packed.positions());
        if !recompute {
            let tape = Tape::new();
            let mut x = embedding(&tape, &self.embedding, &packed.tokens)?;
            for layer in 0..self.blocks.len() {
                x = self.block(layer, &tape, &x, &angles, &segments)?;
            }
            let hidden = self.last(&tape, &x, rows)?;
            return Ok(Pass { decoder: self, hidden, angles, segments, kept: Kept::All(tape) });
        }
        let off = Tape::off();
        let mut inputs = Vec::with_capacity(self.blocks.len());
        let mut x = embedding(&off, &self.embedding, &packed.tokens)?;
        for layer in 0..self.blocks.len() {
            inputs.push(x.tensor.clone());
            x = self.block(layer, &off, &x, &angles, &segments)?;
        }
        let last = Tape::new();
        let input = last.leaf(x.tensor);
        let hidden = self.last(&last, &input, rows)?;
        let kept = Kept::Inputs { tokens: packed.tokens.clone(), inputs, last, input };
        Ok(Pass { decoder: self, hidden, angles, segments, kept })
    }

    fn block(
        &self,
        layer: usize,
        tape: &Tape,
        x: &Value,
        angles: &Arc<Angles>,
        segments: &Arc<[Range<usize>]>,
    ) -> Result<Value> {
        let heads = self.heads();
        Ok(self.blocks[layer].forward(tape, x, angles, &mut |qkv| attention(tape, qkv, heads, segments))?)
    }
}

impl Pass<'_> {
    /// `[rows, hidden]`.
    pub fn hidden(&self) -> &Tensor {
        &self.hidden.tensor
    }

    /// Adds the gradients of all weights that learn to their accumulators; `gradient` is that of [`Self::hidden`].
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn backward(self, gradient: Tensor) -> Result<()> {
        let decoder = self.decoder;
        let (tokens, inputs, last, input) = match self.kept {
            Kept::All(tape) => return Ok(tape.backward(&self.hidden, gradient, None).map(drop)?),
            Kept::Inputs { tokens, inputs, last, input } => (tokens, inputs, last, input),
        };
        let mut gradient = last.backward(&self.hidden, gradient, Some(&input))?;
        for (layer, x) in inputs.into_iter().enumerate().rev() {
            let Some(slope) = gradient else { return Ok(()) };
            let tape = Tape::new();
            let x = tape.leaf(x);
            let out = decoder.block(layer, &tape, &x, &self.angles, &self.segments)?;
            gradient = tape.backward(&out, slope, Some(&x))?;
        }
        if let (Some(gradient), true) = (gradient, decoder.embedding.learns()) {
            let tape = Tape::new();
            let out = embedding(&tape, &decoder.embedding, &tokens)?;
            tape.backward(&out, gradient, None)?;
        }
        Ok(())
    }
}
