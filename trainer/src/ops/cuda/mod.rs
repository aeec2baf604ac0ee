//! How is an operation computed on an NVIDIA GPU? By kernels that are compiled at run time (NVRTC), each with the signature of its
//! stand-in in `plain`.
//!
//! `*.cu` hold the kernels, for f32 and bf16, with sums in f32; no sum depends on the order in which threads come. A row's numbers
//! do not depend on the rows beside it, but those of candle's matrix products may.

mod attention;
mod launch;
mod library;
mod signature;
mod sources;

use candle_core::{DType, Result, Tensor};

use super::adamw::{AdamWNumbers, Updating};
use super::plain::LogitSlopes;
use launch::Call;
use sources::Form;

pub(crate) use attention::{attention, attention_back, serves_heads};
pub(crate) use sources::{ADAMW, EMBEDDING, LOGITS, NORM, ROTARY, SWIGLU, Source};

/// Values that a block sums up, of each of which a thread takes one in turn.
const SQUARES: usize = 1 << 13;
/// Rows that share a sum of a normalisation's weight, at least, and the most sums.
const SHARE: usize = 64;
const SHARES: usize = 256;

/// Whether a source has kernels for elements like those of `tensor`, where it is.
pub(crate) fn serves(source: &Source, tensor: &Tensor) -> bool {
    tensor.device().is_cuda() && Form::of(tensor.dtype()).is_some_and(|form| library::compiles(source, form))
}

fn form(tensor: &Tensor) -> Result<Form> {
    Form::of(tensor.dtype()).ok_or_else(|| candle_core::Error::Msg(format!("no kernel is for {:?}", tensor.dtype())))
}

/// The tensors that a kernel wrote, of which there are as many.
fn written<const N: usize>(tensors: Vec<Tensor>) -> Result<[Tensor; N]> {
    tensors.try_into().map_err(|_| candle_core::Error::Msg("a kernel wrote another number of tensors".into()))
}

/// As [`super::plain::rms_norm`].
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let call = Call::new(&NORM, "rms_norm", form(x)?, x).reads(x, rows * width)?.reads(weight, width)?;
    let [out] = written(call.writes((rows, width), x.dtype())?.u32(width)?.f32(eps).launch([rows, 1])?)?;
    Ok(out)
}

/// As [`super::plain::rms_norm_back`].
pub(crate) fn rms_norm_back(x: &Tensor, weight: &Tensor, gradient: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    let (rows, width) = x.dims2()?;
    let (form, count) = (form(x)?, rows * width);
    let call = Call::new(&NORM, "rms_norm_back", form, x).reads(x, count)?.reads(weight, width)?;
    let call = call.reads(gradient, count)?.writes((rows, width), x.dtype())?.writes(rows, DType::F32)?;
    let [to_x, inverses] = written(call.u32(width)?.f32(eps).launch([rows, 1])?)?;
    let share = SHARE.max(rows.div_ceil(SHARES));
    let blocks = rows.div_ceil(share);
    let call = Call::new(&NORM, "rms_norm_shares", form, x).reads(x, count)?.reads(gradient, count)?;
    let call = call.reads(&inverses, rows)?.writes((blocks, width), DType::F32)?;
    let call = call.u32(rows)?.u32(width)?.u32(share)?;
    let [shares] = written(call.launch([width.div_ceil(32), blocks])?)?;
    let call = Call::new(&NORM, "rms_norm_weight", form, x).reads(&shares, blocks * width)?;
    let call = call.writes(width, DType::F32)?.u32(blocks)?.u32(width)?;
    let [to_weight] = written(call.launch([width.div_ceil(256), 1])?)?;
    Ok((to_x, to_weight))
}

/// As [`super::plain::rotary`].
pub(crate) fn rotary(x: &Tensor, cosines: &Tensor, sines: &Tensor, back: bool) -> Result<Tensor> {
    let (tokens, half) = cosines.dims2()?;
    let count = x.elem_count();
    let width = count / tokens.max(1);
    if half == 0 || !width.is_multiple_of(2 * half) {
        candle_core::bail!("expected heads of {} values, found {width} of a token", 2 * half)
    }
    let call = Call::new(&ROTARY, "rotary", form(x)?, x).reads(x, tokens * width)?;
    let call = call.reads(cosines, tokens * half)?.reads(sines, tokens * half)?.writes(x.shape(), x.dtype())?;
    let call = call.u32(width)?.u32(half)?.f32(if back { -1.0 } else { 1.0 });
    let [out] = written(call.launch([tokens, 1])?)?;
    Ok(out)
}

/// Blocks of 256 threads, each of which takes 16 bytes.
fn packs(tensor: &Tensor) -> [usize; 2] {
    [tensor.elem_count().div_ceil(256 * 16 / tensor.dtype().size_in_bytes()), 1]
}

/// As [`super::plain::swiglu`].
pub(crate) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let count = gate.elem_count();
    let call = Call::new(&SWIGLU, "swiglu", form(gate)?, gate).reads(gate, count)?.reads(up, count)?;
    let [out] = written(call.writes(gate.shape(), gate.dtype())?.u64(count).launch(packs(gate))?)?;
    Ok(out)
}

/// As [`super::plain::swiglu_back`].
pub(crate) fn swiglu_back(gate: &Tensor, up: &Tensor, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
    let (count, shape, dtype) = (gate.elem_count(), gate.shape(), gate.dtype());
    let call = Call::new(&SWIGLU, "swiglu_back", form(gate)?, gate).reads(gate, count)?.reads(up, count)?;
    let call = call.reads(gradient, count)?.writes(shape, dtype)?.writes(shape, dtype)?.u64(count);
    let [to_gate, to_up] = written(call.launch(packs(gate))?)?;
    Ok((to_gate, to_up))
}

/// As [`super::plain::embedding`].
pub(crate) fn embedding(weight: &Tensor, tokens: &Tensor) -> Result<Tensor> {
    let ((vocabulary, width), count) = (weight.dims2()?, tokens.dims1()?);
    let call = Call::new(&EMBEDDING, "embedding", form(weight)?, weight).reads(weight, vocabulary * width)?;
    let call = call.reads(tokens, count)?.writes((count, width), weight.dtype())?.u32(vocabulary)?.u32(width)?;
    let [out] = written(call.launch([count, 1])?)?;
    Ok(out)
}

/// As [`super::plain::embedding_back`].
pub(crate) fn embedding_back(sum: &Tensor, tokens: &Tensor, gradient: &Tensor) -> Result<()> {
    let ((vocabulary, width), count) = (sum.dims2()?, tokens.dims1()?);
    let call = Call::new(&EMBEDDING, "embedding_back", form(gradient)?, gradient).reads(gradient, count * width)?;
    let call = call.reads(tokens, count)?.changes(sum, vocabulary * width)?;
    call.u32(count)?.u32(vocabulary)?.u32(width)?.launch([count, 1]).map(drop)
}

/// As [`super::plain::read_logits`].
pub(crate) fn read_logits(logits: &Tensor, targets: &Tensor, sharpness: f64) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, vocabulary) = logits.dims2()?;
    let call = Call::new(&LOGITS, "read_logits", form(logits)?, logits).reads(logits, rows * vocabulary)?;
    let call = call.reads(targets, rows)?.writes(rows, DType::F32)?.writes(rows, DType::F32)?;
    let call = call.writes(rows, DType::F32)?.u32(vocabulary)?.f32(sharpness);
    let [logprobs, entropies, normalisers] = written(call.launch([rows, 1])?)?;
    Ok((logprobs, entropies, normalisers))
}

/// As [`super::plain::logits_back`].
pub(crate) fn logits_back(logits: &Tensor, slopes: &LogitSlopes<'_>) -> Result<Tensor> {
    let (rows, vocabulary) = logits.dims2()?;
    let mut call = Call::new(&LOGITS, "logits_back", form(logits)?, logits).reads(logits, rows * vocabulary)?;
    let LogitSlopes { targets, normalisers, entropies, to_logprobs, to_entropies, sharpness } = *slopes;
    for tensor in [targets, normalisers, entropies, to_logprobs, to_entropies] {
        call = call.reads(tensor, rows)?;
    }
    let call = call.writes((rows, vocabulary), logits.dtype())?.u32(vocabulary)?.f32(sharpness);
    let [out] = written(call.launch([rows, 1])?)?;
    Ok(out)
}

/// As [`super::plain::adamw`].
pub(crate) fn adamw(weight: &Updating<'_>, n: &AdamWNumbers) -> Result<()> {
    let count = weight.master.elem_count();
    let form = form(weight.copy.unwrap_or(weight.master))?;
    let call = Call::new(&ADAMW, "adamw", form, weight.master).changes(weight.master, count)?;
    let call = call.reads(weight.gradient, count)?.changes(weight.first, count)?.changes(weight.second, count)?;
    let mut call = match weight.copy {
        Some(copy) => call.changes(copy, count)?,
        None => call.nothing(),
    };
    call = call.u64(count);
    let rest = [n.beta1_rest, n.beta2, n.beta2_rest, n.root_correction, n.epsilon, n.step];
    for number in [n.scale, n.keep].into_iter().chain(rest) {
        call = call.f32(number.into());
    }
    call.launch([count.div_ceil(256), 1]).map(drop)
}

/// As [`super::plain::sum_of_squares`].
pub(crate) fn sum_of_squares(tensor: &Tensor) -> Result<f64> {
    let count = tensor.elem_count();
    let blocks = count.div_ceil(SQUARES).min(1024);
    let call = Call::new(&ADAMW, "squares", form(tensor)?, tensor).reads(tensor, count)?;
    let [sums] = written(call.writes(blocks, DType::F64)?.u64(count).launch([blocks, 1])?)?;
    Ok(sums.to_vec1::<f64>()?.into_iter().sum())
}
