//! Root-mean-square normalisation.

use std::sync::Arc;

use candle_core::Result;
use rayon::prelude::*;

use super::linear::sum_rows;
use super::parameter::Parameter;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};
use super::wide::{sum, wide};

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

/// `x / sqrt(mean(x^2) + eps) * weight` over the last `weight.len()` values (Zhang and Sennrich 2019).
///
/// # Errors
/// Those of the tensors.
pub fn rms_norm(tape: &Tape, x: &Value, weight: &Arc<Parameter>, eps: f32) -> Result<Value> {
    let width = weight.value().elem_count();
    let (input, scale) = (view(&x.tensor)?, view(weight.value())?);
    let scale = &*scale;
    let mut out = vec![0.0; input.len()];
    let normalise = |(out, input): (&mut [f32], &[f32])| {
        wide(|| {
            for (out, x) in out.chunks_exact_mut(width).zip(input.chunks_exact(width)) {
                let inverse = inverse(x, eps);
                for i in 0..width {
                    out[i] = x[i] * inverse * scale[i];
                }
            }
        });
    };
    out.par_chunks_mut(ROWS * width).zip(input.par_chunks(ROWS * width)).for_each(normalise);
    drop(input);
    Ok(tape.push(&[x], weight.learns(), tensor(out, x.tensor.shape().clone())?, || {
        let (x, weight) = (x.tensor.clone(), weight.clone());
        Box::new(move |gradient| {
            let (input, gradient) = (view(&x)?, view(gradient)?);
            let scale = view(weight.value())?;
            let scale = &*scale;
            let mut out = vec![0.0; input.len()];
            let chunks = out.par_chunks_mut(ROWS * width);
            let chunks = chunks.zip(input.par_chunks(ROWS * width).zip(gradient.par_chunks(ROWS * width)));
            // The weight's share of each chunk, summed in order below.
            let shares: Vec<Vec<f32>> = chunks
                .map(|(out, (input, gradient))| {
                    let mut share = vec![0.0; width];
                    wide(|| {
                        let rows = input.chunks_exact(width).zip(gradient.chunks_exact(width));
                        for (out, (x, g)) in out.chunks_exact_mut(width).zip(rows) {
                            let inverse = inverse(x, eps);
                            let mean = sum(width, |i| x[i] * g[i] * scale[i]) / width as f32;
                            let back = mean * inverse * inverse;
                            for i in 0..width {
                                out[i] = inverse * (g[i] * scale[i] - x[i] * back);
                                share[i] += g[i] * x[i] * inverse;
                            }
                        }
                    });
                    share
                })
                .collect();
            if weight.learns() {
                weight.accumulate(sum_rows(&shares.concat()))?;
            }
            Ok(vec![Some(tensor(out, x.shape().clone())?)])
        })
    }))
}

#[inline(always)]
fn inverse(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum(x.len(), |i| x[i] * x[i]) / x.len() as f32 + eps).sqrt()
}
