//! How is an operation computed where no kernel is? In candle's own operations: on any device, in f32, bf16 or f64.
//!
//! `T` is the type of the tensors. Sums, norms, exponentials and logarithms are taken in `S`: f64 where `T` is f64, else f32.

mod attention;

use candle_core::{D, DType, Result, Tensor};

pub(crate) use attention::{Attended, attention, attention_back};

use super::adamw::{AdamWNumbers, Updating};
use super::placement::widened;

/// `x / sqrt(mean(x^2) + eps) * weight`: `x` is `[rows, width]` of T, `weight` `[width]` of T. Gives `[rows, width]` of T.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let wide = widened(x)?;
    wide.broadcast_mul(&inverse(&wide, eps)?)?.broadcast_mul(&widened(weight)?)?.to_dtype(x.dtype())
}

/// Gradients of `x`, `[rows, width]` of T, and of the weight, `[width]` of S.
pub(crate) fn rms_norm_back(x: &Tensor, weight: &Tensor, gradient: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    let (wide, gradient) = (widened(x)?, widened(gradient)?);
    let inverse = inverse(&wide, eps)?;
    let scaled = gradient.broadcast_mul(&widened(weight)?)?;
    let mean = (wide.mul(&scaled)?.sum_keepdim(1)? / x.dim(1)? as f64)?;
    let back = mean.mul(&inverse)?.mul(&inverse)?;
    let to_x = scaled.sub(&wide.broadcast_mul(&back)?)?.broadcast_mul(&inverse)?;
    let to_weight = gradient.mul(&wide)?.broadcast_mul(&inverse)?.sum(0)?;
    Ok((to_x.to_dtype(x.dtype())?, to_weight))
}

/// `1 / sqrt(mean(x^2) + eps)` of each row, `[rows, 1]`.
fn inverse(wide: &Tensor, eps: f64) -> Result<Tensor> {
    wide.sqr()?.sum_keepdim(1)?.affine(1.0 / wide.dim(1)? as f64, eps)?.sqrt()?.recip()
}

/// Turns `x`, `[tokens, heads * dim]` of T, by angles whose cosines and sines are `[tokens, dim / 2]` of S; value i of a head is
/// paired with value i + dim / 2. `back` turns the other way, which is also the gradient. Gives `[tokens, heads * dim]` of T.
pub(crate) fn rotary(x: &Tensor, cosines: &Tensor, sines: &Tensor, back: bool) -> Result<Tensor> {
    let (tokens, half) = cosines.dims2()?;
    let halves = widened(x)?.reshape((tokens, (), 2, half))?;
    let (left, right) = (halves.narrow(2, 0, 1)?, halves.narrow(2, 1, 1)?);
    let cosines = cosines.reshape((tokens, 1, 1, half))?;
    let sines = if back { sines.neg()? } else { sines.clone() }.reshape((tokens, 1, 1, half))?;
    let first = left.broadcast_mul(&cosines)?.sub(&right.broadcast_mul(&sines)?)?;
    let second = right.broadcast_mul(&cosines)?.add(&left.broadcast_mul(&sines)?)?;
    Tensor::cat(&[first, second], 2)?.reshape(x.shape())?.to_dtype(x.dtype())
}

/// `silu(gate) * up`, of one shape and T.
pub(crate) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let wide = widened(gate)?;
    wide.mul(&sigmoid(&wide)?)?.mul(&widened(up)?)?.to_dtype(gate.dtype())
}

/// Gradients of gate and up, in T.
pub(crate) fn swiglu_back(gate: &Tensor, up: &Tensor, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
    let (g, u, d) = (widened(gate)?, widened(up)?, widened(gradient)?);
    let s = sigmoid(&g)?;
    let to_up = d.mul(&g)?.mul(&s)?;
    // silu'(x) = s (1 + x (1 - s))
    let slope = s.mul(&g.mul(&s.affine(-1.0, 1.0)?)?.affine(1.0, 1.0)?)?;
    let to_gate = d.mul(&u)?.mul(&slope)?;
    Ok((to_gate.to_dtype(gate.dtype())?, to_up.to_dtype(gate.dtype())?))
}

fn sigmoid(x: &Tensor) -> Result<Tensor> {
    x.neg()?.exp()?.affine(1.0, 1.0)?.recip()
}

/// Rows of `weight`, `[vocabulary, hidden]` of T, that belong to `tokens`, `[tokens]` of u32. Gives `[tokens, hidden]` of T.
pub(crate) fn embedding(weight: &Tensor, tokens: &Tensor) -> Result<Tensor> {
    weight.index_select(tokens, 0)
}

/// Adds the rows of `gradient`, `[tokens, hidden]` of T, to the rows of `sum`, `[vocabulary, hidden]` of S, in place.
pub(crate) fn embedding_back(sum: &Tensor, tokens: &Tensor, gradient: &Tensor) -> Result<()> {
    let places = tokens.unsqueeze(1)?.broadcast_as(gradient.shape())?.contiguous()?;
    sum.scatter_add_set(&places, &widened(gradient)?.contiguous()?, 0)
}

/// Of `logits`, `[rows, vocabulary]` of T, each times `sharpness`, and `targets`, `[rows]` of u32: the target's log-probability, the
/// distribution's entropy, and the logarithm of the sum of e^logit; `[rows]` of S each.
pub(crate) fn read_logits(logits: &Tensor, targets: &Tensor, sharpness: f64) -> Result<(Tensor, Tensor, Tensor)> {
    let sharp = (widened(logits)? * sharpness)?;
    let chosen = sharp.gather(&targets.unsqueeze(1)?, 1)?.squeeze(1)?;
    let greatest = sharp.max_keepdim(1)?;
    let below = sharp.broadcast_sub(&greatest)?;
    let weights = below.exp()?;
    let total = weights.sum(1)?;
    let weighed = weights.mul(&below.maximum(-100.0)?)?.sum(1)?;
    let normalisers = greatest.squeeze(1)?.add(&total.log()?)?;
    let entropies = total.log()?.sub(&weighed.div(&total)?)?;
    Ok((chosen.sub(&normalisers)?, entropies, normalisers))
}

/// What [`logits_back`] needs beside the logits; `[rows]` each.
pub(crate) struct LogitSlopes<'a> {
    /// u32.
    pub targets: &'a Tensor,
    /// As [`read_logits`] gave them, in S.
    pub normalisers: &'a Tensor,
    /// As [`read_logits`] gave them, in S.
    pub entropies: &'a Tensor,
    /// The loss's gradients of the log-probabilities, in S.
    pub to_logprobs: &'a Tensor,
    /// The loss's gradients of the entropies, in S.
    pub to_entropies: &'a Tensor,
    /// What logits are multiplied with.
    pub sharpness: f64,
}

/// The gradient of `logits`, `[rows, vocabulary]` of T.
pub(crate) fn logits_back(logits: &Tensor, slopes: &LogitSlopes<'_>) -> Result<Tensor> {
    let column = |tensor: &Tensor| tensor.unsqueeze(1);
    let logprobs = (widened(logits)? * slopes.sharpness)?.broadcast_sub(&column(slopes.normalisers)?)?;
    let slope = (column(slopes.to_logprobs)? * slopes.sharpness)?;
    let spread = (column(slopes.to_entropies)? * slopes.sharpness)?;
    // d logprob / d logit = [target] - p; d entropy / d logit = -p (log p + entropy)
    let inner = logprobs.broadcast_add(&column(slopes.entropies)?)?.broadcast_mul(&spread)?.broadcast_add(&slope)?;
    let out = logprobs.exp()?.mul(&inner)?.neg()?;
    out.scatter_add(&column(slopes.targets)?, &slope, 1)?.to_dtype(logits.dtype())
}

/// One update of a weight in place, as `optim.rs` makes it.
pub(crate) fn adamw(weight: &Updating<'_>, n: &AdamWNumbers) -> Result<()> {
    let by = |tensor: &Tensor, number: f32| tensor * f64::from(number);
    let gradient = by(weight.gradient, n.scale)?;
    let first = weight.first.add(&by(&gradient.sub(weight.first)?, n.beta1_rest)?)?;
    let second = by(weight.second, n.beta2)?.add(&by(&gradient, n.beta2_rest)?.mul(&gradient)?)?;
    // A true division, where candle would multiply with the reciprocal.
    let correction = Tensor::new(n.root_correction, second.device())?.to_dtype(second.dtype())?;
    let root = (second.sqrt()?.broadcast_div(&correction)? + f64::from(n.epsilon))?;
    let value = by(weight.master, n.keep)?.sub(&by(&first.div(&root)?, n.step)?)?;
    if let Some(copy) = weight.copy {
        copy.slice_set(&value.to_dtype(copy.dtype())?, 0, 0)?;
    }
    weight.master.slice_set(&value, 0, 0)?;
    weight.first.slice_set(&first, 0, 0)?;
    weight.second.slice_set(&second, 0, 0)
}

/// The sum of the squares of all values of a tensor of S: of each row on the device, of the rows in f64.
pub(crate) fn sum_of_squares(tensor: &Tensor) -> Result<f64> {
    let rows = tensor.sqr()?.sum(D::Minus1)?.flatten_all()?.to_dtype(DType::F64)?;
    Ok(rows.to_vec1::<f64>()?.into_iter().sum())
}
