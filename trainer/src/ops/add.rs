//! Sums of two values: residual streams, and gradients that meet.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::placement::is_host;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};

/// Values that a thread takes at a time.
const CHUNK: usize = 1 << 15;

/// `a + b`, of one shape.
pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !is_host(a) {
        return a.add(b);
    }
    let (left, right) = (view(a)?, view(b)?);
    let mut out = vec![0.0; left.len()];
    let chunks = out.par_chunks_mut(CHUNK).zip(left.par_chunks(CHUNK).zip(right.par_chunks(CHUNK)));
    chunks.for_each(|(out, (a, b))| out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a + b));
    tensor(out, a.shape().clone())
}

/// `a + b`, of one shape.
///
/// # Errors
/// Those of the tensors.
pub fn residual(tape: &Tape, a: &Value, b: &Value) -> Result<Value> {
    let out = add(&a.tensor, &b.tensor)?;
    Ok(tape.push(&[a, b], false, out, || Box::new(|gradient| Ok(vec![Some(gradient.clone()), Some(gradient.clone())]))))
}
