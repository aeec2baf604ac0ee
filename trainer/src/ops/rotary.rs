//! Where a token stands: queries and keys turned by angles that grow with the position.

use std::sync::{Arc, OnceLock};

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::device;
use super::placement::{is_host, wider};
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};
use super::wide::{NullaryFnOnce, wide};

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

/// Cosines and sines of each token of a batch: rotary embedding (Su et al. 2021), halves as Hugging Face pairs them.
pub struct Angles {
    /// Half the values of a head.
    half: usize,
    /// `[tokens, half]`.
    cosines: Vec<f32>,
    sines: Vec<f32>,
    /// Both on the device of whoever asked first.
    tensors: OnceLock<[Tensor; 2]>,
}

impl Angles {
    /// For tokens at these positions; `frequencies` are radians a position, one for each pair of values of a head.
    pub fn new(frequencies: &[f32], positions: &[u32]) -> Arc<Self> {
        let angles = positions.iter().flat_map(|position| frequencies.iter().map(|f| *position as f32 * f));
        let (sines, cosines) = angles.map(f32::sin_cos).unzip();
        Arc::new(Self { half: frequencies.len(), cosines, sines, tensors: OnceLock::new() })
    }

    /// `[tokens, half]` each, where `x` is, in the type of its sums.
    fn beside(&self, x: &Tensor) -> Result<[Tensor; 2]> {
        let dtype = wider(x.dtype());
        let fits = |[known, _]: &&[Tensor; 2]| known.dtype() == dtype && known.device().same_device(x.device());
        if let Some(known) = self.tensors.get().filter(fits) {
            return Ok(known.clone());
        }
        let upload = |values: &[f32]| {
            let shape = (values.len() / self.half.max(1), self.half);
            Tensor::from_slice(values, shape, x.device())?.to_dtype(dtype)
        };
        let both = [upload(&self.cosines)?, upload(&self.sines)?];
        self.tensors.get_or_init(|| both.clone());
        Ok(both)
    }

    /// Turns all heads of all rows, forwards or back.
    fn turn(&self, input: &[f32], back: bool) -> Vec<f32> {
        let tokens = self.cosines.len() / self.half.max(1);
        let width = input.len() / tokens.max(1);
        let mut out = vec![0.0; input.len()];
        if out.is_empty() {
            return out;
        }
        let angles = self.cosines.par_chunks(ROWS * self.half).zip(self.sines.par_chunks(ROWS * self.half));
        let rows = out.par_chunks_mut(ROWS * width).zip(input.par_chunks(ROWS * width)).zip(angles);
        let sign = if back { -1.0 } else { 1.0 };
        rows.for_each(|((out, input), (cosines, sines))| {
            let angles = cosines.chunks_exact(self.half).zip(sines.chunks_exact(self.half));
            let rows = out.chunks_exact_mut(width).zip(input.chunks_exact(width));
            rows.zip(angles).for_each(|((out, x), (cosines, sines))| wide(Turn { out, x, cosines, sines, sign }));
        });
        out
    }
}

/// Turns all heads of a row.
struct Turn<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    cosines: &'a [f32],
    sines: &'a [f32],
    sign: f32,
}

impl NullaryFnOnce for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let half = self.cosines.len();
        for (out, x) in self.out.chunks_exact_mut(2 * half).zip(self.x.chunks_exact(2 * half)) {
            let ((left, right), (x, y)) = (out.split_at_mut(half), x.split_at(half));
            let angles = self.cosines.iter().zip(self.sines);
            let pairs = left.iter_mut().zip(right).zip(x.iter().zip(y));
            for (((left, right), (x, y)), (cosine, sine)) in pairs.zip(angles) {
                let sine = self.sign * sine;
                *left = x * cosine - y * sine;
                *right = y * cosine + x * sine;
            }
        }
    }
}

/// Turns `x`, `[tokens, heads * head_dim]`, by the angles of its tokens.
///
/// # Errors
/// Those of the tensors.
pub fn rotary(tape: &Tape, x: &Value, angles: &Arc<Angles>) -> Result<Value> {
    if !is_host(&x.tensor) {
        let [cosines, sines] = angles.beside(&x.tensor)?;
        let out = device::rotary(&x.tensor, &cosines, &sines, false)?;
        return Ok(tape.push(&[x], false, out, || {
            Box::new(move |gradient| Ok(vec![Some(device::rotary(gradient, &cosines, &sines, true)?)]))
        }));
    }
    let out = angles.turn(&view(&x.tensor)?, false);
    Ok(tape.push(&[x], false, tensor(out, x.tensor.shape().clone())?, || {
        let angles = angles.clone();
        Box::new(move |gradient| Ok(vec![Some(tensor(angles.turn(&view(gradient)?, true), gradient.shape().clone())?)]))
    }))
}
