//! Tokens to vectors.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::device;
use super::parameter::Parameter;
use super::placement::is_host;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};

/// The rows of `weight`, `[vocabulary, hidden]`, that belong to `tokens`.
///
/// # Errors
/// Those of the tensors; tokens outside of the vocabulary.
pub fn embedding(tape: &Tape, weight: &Arc<Parameter>, tokens: &[u32]) -> Result<Value> {
    let (vocabulary, width) = weight.value().dims2()?;
    if let Some(wrong) = tokens.iter().find(|token| **token as usize >= vocabulary) {
        candle_core::bail!("token {wrong} is not one of the {vocabulary} of the vocabulary")
    }
    if !is_host(weight.value()) {
        let tokens = Tensor::from_slice(tokens, tokens.len(), weight.value().device())?;
        let out = device::embedding(weight.value(), &tokens)?;
        return Ok(tape.push(&[], weight.learns(), out, || {
            let weight = weight.clone();
            Box::new(move |gradient| {
                weight.accumulate_rows(&tokens, gradient)?;
                Ok(Vec::new())
            })
        }));
    }
    let mut out = vec![0.0; tokens.len() * width];
    let values = view(weight.value())?;
    let row = |token: u32| token as usize * width..(token as usize + 1) * width;
    out.par_chunks_mut(width).zip(tokens).for_each(|(out, token)| out.copy_from_slice(&values[row(*token)]));
    Ok(tape.push(&[], weight.learns(), tensor(out, (tokens.len(), width))?, || {
        let (weight, tokens) = (weight.clone(), tokens.to_vec());
        Box::new(move |gradient| {
            let gradient = view(gradient)?;
            let gradient = &*gradient;
            weight.accumulate(|sum| {
                for (token, gradient) in tokens.iter().zip(gradient.chunks_exact(width)) {
                    let sum = &mut sum[*token as usize * width..][..width];
                    sum.iter_mut().zip(gradient).for_each(|(sum, gradient)| *sum += gradient);
                }
            })?;
            Ok(Vec::new())
        })
    }))
}
