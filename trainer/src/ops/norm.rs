//! Root-mean-square normalisation.

use std::sync::Arc;

use candle_core::Result;
use rayon::prelude::*;

use super::device;
use super::linear::sum_rows;
use super::parameter::Parameter;
use super::placement::is_host;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};
use super::wide::{NullaryFnOnce, sum, wide};

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

/// `x / sqrt(mean(x^2) + eps) * weight` over the last `weight.len()` values (Zhang and Sennrich 2019).
///
/// # Errors
/// Those of the tensors.
pub fn rms_norm(tape: &Tape, x: &Value, weight: &Arc<Parameter>, eps: f32) -> Result<Value> {
    let width = weight.value().elem_count();
    if !is_host(&x.tensor) {
        let (shape, rows) = (x.tensor.shape().clone(), x.tensor.reshape(((), width))?);
        let out = device::rms_norm(&rows, weight.value(), f64::from(eps))?.reshape(&shape)?;
        return Ok(tape.push(&[x], weight.learns(), out, || {
            let weight = weight.clone();
            Box::new(move |gradient| {
                let gradient = gradient.reshape(rows.shape())?;
                let (to_x, to_weight) = device::rms_norm_back(&rows, weight.value(), &gradient, f64::from(eps))?;
                if weight.learns() {
                    weight.accumulate_tensor(&to_weight)?;
                }
                Ok(vec![Some(to_x.reshape(&shape)?)])
            })
        }));
    }
    let (input, scale) = (view(&x.tensor)?, view(weight.value())?);
    let scale = &*scale;
    let mut out = vec![0.0; input.len()];
    let normalise = |(out, input): (&mut [f32], &[f32])| {
        let rows = out.chunks_exact_mut(width).zip(input.chunks_exact(width));
        rows.for_each(|(out, x)| wide(Normalise { out, x, scale, eps }));
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
                    let rows = input.chunks_exact(width).zip(gradient.chunks_exact(width));
                    for (out, (x, g)) in out.chunks_exact_mut(width).zip(rows) {
                        wide(Gradients { out, share: &mut share, x, g, scale, eps });
                    }
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

/// Normalises a row.
struct Normalise<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    scale: &'a [f32],
    eps: f32,
}

impl NullaryFnOnce for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let inverse = inverse(self.x, self.eps);
        self.out.iter_mut().zip(self.x.iter().zip(self.scale)).for_each(|(out, (x, scale))| *out = x * inverse * scale);
    }
}

/// The gradient of a row, and its share of the weight's, which is added.
struct Gradients<'a> {
    out: &'a mut [f32],
    share: &'a mut [f32],
    x: &'a [f32],
    g: &'a [f32],
    scale: &'a [f32],
    eps: f32,
}

impl NullaryFnOnce for Gradients<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { out, share, x, g, scale, eps } = self;
        let inverse = inverse(x, eps);
        let mean = sum([x, g, scale], |[x, g, scale]| x * g * scale) / x.len() as f32;
        let back = mean * inverse * inverse;
        for ((out, share), ((x, g), scale)) in out.iter_mut().zip(share).zip(x.iter().zip(g).zip(scale)) {
            *out = inverse * (g * scale - x * back);
            *share += g * x * inverse;
        }
    }
}

#[inline(always)]
fn inverse(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum([x], |[x]| x * x) / x.len() as f32 + eps).sqrt()
}
