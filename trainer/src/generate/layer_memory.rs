//! Keys and values of one layer of one sequence that grow token by token, as tensors where the weights are.

use candle_core::{Result, Tensor};

/// Rows by which the tensors grow.
const ROWS: usize = 256;

/// What one layer remembers of a sequence.
#[derive(Default)]
pub(super) struct LayerMemory {
    /// Keys and values, `[rows, kv_heads * dim]` each, of which the first `length` are filled; nothing before the first token.
    stored: Option<[Tensor; 2]>,
    length: usize,
    /// Whether another sequence reads the same tensors: they are copied before more is written.
    shared: bool,
}

impl LayerMemory {
    /// Some more tokens. Gives keys and values of all.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn push(&mut self, keys: &Tensor, values: &Tensor) -> Result<[Tensor; 2]> {
        let length = self.length + keys.dim(0)?;
        let stored = match self.stored.take() {
            Some(stored) if !self.shared && length <= stored[0].dim(0)? => stored,
            known => {
                let grown = |new: &Tensor, at: usize| {
                    let room = Tensor::zeros((length.next_multiple_of(ROWS), new.dim(1)?), new.dtype(), new.device())?;
                    if let Some(known) = known.as_ref().filter(|_| self.length > 0) {
                        room.slice_set(&known[at].narrow(0, 0, self.length)?, 0, 0)?;
                    }
                    Ok::<_, candle_core::Error>(room)
                };
                [grown(keys, 0)?, grown(values, 1)?]
            }
        };
        stored[0].slice_set(keys, 0, self.length)?;
        stored[1].slice_set(values, 0, self.length)?;
        let all = [stored[0].narrow(0, 0, length)?, stored[1].narrow(0, 0, length)?];
        *self = Self { stored: Some(stored), length, shared: false };
        Ok(all)
    }

    /// The first `count` tokens, for another sequence. Nothing is copied until it goes on.
    pub fn prefix(&self, count: usize) -> Self {
        Self { stored: self.stored.clone(), length: self.length.min(count), shared: true }
    }
}
