//! `x W^T + b`: most of the work of a model.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::panels::{Left, Right, multiply};
use super::parameter::Parameter;
use super::placement::{is_host, widened};
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};

/// `x W^T + b`: `x` is `[tokens, in]`, the weight `[out, in]`, the bias `[out]`.
///
/// # Errors
/// Those of the tensors.
pub fn linear(tape: &Tape, x: &Value, weight: &Arc<Parameter>, bias: Option<&Arc<Parameter>>) -> Result<Value> {
    let (tokens, depth) = x.tensor.dims2()?;
    let (width, _) = weight.value().dims2()?;
    if !is_host(&x.tensor) {
        return linear_on_device(tape, x, weight, bias);
    }
    let mut out = vec![0.0; tokens * width];
    let input = view(&x.tensor)?;
    weight.with_columns(|columns| multiply(Left::rows(&input, depth), columns, &mut out, false))?;
    drop(input);
    if let Some(bias) = bias {
        let bias = view(bias.value())?;
        out.par_chunks_mut(width).for_each(|row| row.iter_mut().zip(&*bias).for_each(|(out, bias)| *out += bias));
    }
    let learns = weight.learns() || bias.is_some_and(|bias| bias.learns());
    Ok(tape.push(&[x], learns, tensor(out, (tokens, width))?, || {
        let (input, weight, bias) = (x.tensor.clone(), weight.clone(), bias.cloned());
        let wanted = x.wants();
        Box::new(move |gradient| {
            if let Some(bias) = bias.filter(|bias| bias.learns()) {
                bias.accumulate(sum_rows(&view(gradient)?))?;
            }
            if weight.learns() {
                let (gradient, input) = (view(gradient)?, view(&input)?);
                let (gradient, input) = (&*gradient, &*input);
                weight
                    .accumulate(|sum| multiply(Left::columns(gradient, width), Right::rows(input, depth), sum, true))?;
            }
            if !wanted {
                return Ok(vec![None]);
            }
            let mut out = vec![0.0; tokens * depth];
            let gradient = view(gradient)?;
            weight.with_rows(|rows| multiply(Left::rows(&gradient, width), rows, &mut out, false))?;
            Ok(vec![Some(tensor(out, (tokens, depth))?)])
        })
    }))
}

/// The products are candle's: cuBLAS's on a GPU.
fn linear_on_device(tape: &Tape, x: &Value, weight: &Arc<Parameter>, bias: Option<&Arc<Parameter>>) -> Result<Value> {
    let mut out = x.tensor.matmul(&weight.value().t()?)?;
    if let Some(bias) = bias {
        out = out.broadcast_add(bias.value())?;
    }
    let learns = weight.learns() || bias.is_some_and(|bias| bias.learns());
    Ok(tape.push(&[x], learns, out, || {
        let (input, weight, bias) = (x.tensor.clone(), weight.clone(), bias.cloned());
        let wanted = x.wants();
        Box::new(move |gradient| {
            if let Some(bias) = bias.filter(|bias| bias.learns()) {
                bias.accumulate_tensor(&widened(gradient)?.sum(0)?)?;
            }
            if weight.learns() {
                weight.accumulate_tensor(&gradient.t()?.matmul(&input)?)?;
            }
            Ok(vec![if wanted { Some(gradient.matmul(weight.value())?) } else { None }])
        })
    }))
}

/// Adds all rows to a sum.
pub(super) fn sum_rows(rows: &[f32]) -> impl FnOnce(&mut [f32]) + Send + '_ {
    |sum| rows.chunks_exact(sum.len()).for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value))
}

/// `a + scale * b`, of one shape: an adapter beside a frozen weight.
///
/// # Errors
/// Those of the tensors.
pub fn add_scaled(tape: &Tape, a: &Value, b: &Value, scale: f32) -> Result<Value> {
    if !is_host(&a.tensor) {
        let scaled = move |b: &Tensor| b * f64::from(scale);
        let out = a.tensor.add(&scaled(&b.tensor)?)?;
        return Ok(tape.push(&[a, b], false, out, || {
            Box::new(move |gradient| Ok(vec![Some(gradient.clone()), Some(scaled(gradient)?)]))
        }));
    }
    let scaled = move |b: &Tensor| -> Result<Vec<f32>> { Ok(view(b)?.iter().map(|b| scale * b).collect()) };
    let mut out = scaled(&b.tensor)?;
    out.iter_mut().zip(&*view(&a.tensor)?).for_each(|(out, a)| *out += a);
    Ok(tape.push(&[a, b], false, tensor(out, a.tensor.shape().clone())?, || {
        Box::new(move |gradient| {
            let scaled = tensor(scaled(gradient)?, gradient.shape().clone())?;
            Ok(vec![Some(gradient.clone()), Some(scaled)])
        })
    }))
}
