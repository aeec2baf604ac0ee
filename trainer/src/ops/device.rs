//! Which way does an operation go where its tensors are not f32 on the CPU? Each is chosen here, and only here.
//!
//! Shapes, types and formulas are told in `plain`. Tensors that come here are contiguous, though they may begin inside of their
//! storage. On an NVIDIA GPU each goes to a kernel of `cuda` that is compiled for its type, where there is one; else, to `plain`.

use candle_core::{Result, Tensor};

use super::adamw::{AdamWNumbers, Updating};
use super::attention::{Heads, Segment};
#[cfg(feature = "cuda")]
use super::cuda;
use super::plain;

pub(crate) use super::plain::{Attended, LogitSlopes};

/// Operations that go to the same function of `cuda`, where that serves tensors like the one named, or of `plain`.
macro_rules! operations {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $out:ty, $source:ident for $tensor:expr;)*) => {$(
        pub(crate) fn $name($($argument: $kind),*) -> Result<$out> {
            #[cfg(feature = "cuda")]
            if cuda::serves(&cuda::$source, $tensor) {
                return cuda::$name($($argument),*);
            }
            plain::$name($($argument),*)
        }
    )*};
}

operations! {
    rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Tensor, NORM for x;
    rms_norm_back(x: &Tensor, weight: &Tensor, gradient: &Tensor, eps: f64) -> (Tensor, Tensor), NORM for x;
    rotary(x: &Tensor, cosines: &Tensor, sines: &Tensor, back: bool) -> Tensor, ROTARY for x;
    swiglu(gate: &Tensor, up: &Tensor) -> Tensor, SWIGLU for gate;
    swiglu_back(gate: &Tensor, up: &Tensor, gradient: &Tensor) -> (Tensor, Tensor), SWIGLU for gate;
    embedding(weight: &Tensor, tokens: &Tensor) -> Tensor, EMBEDDING for weight;
    embedding_back(sum: &Tensor, tokens: &Tensor, gradient: &Tensor) -> (), EMBEDDING for gradient;
    read_logits(logits: &Tensor, targets: &Tensor, sharpness: f64) -> (Tensor, Tensor, Tensor), LOGITS for logits;
    logits_back(logits: &Tensor, slopes: &LogitSlopes<'_>) -> Tensor, LOGITS for logits;
    adamw(weight: &Updating<'_>, numbers: &AdamWNumbers) -> (), ADAMW for weight.copy.unwrap_or(weight.master);
    sum_of_squares(tensor: &Tensor) -> f64, ADAMW for tensor;
}

pub(crate) fn attention(qkv: [&Tensor; 3], heads: Heads, segments: &[Segment]) -> Result<(Tensor, Tensor)> {
    #[cfg(feature = "cuda")]
    if cuda::serves_heads(qkv[0], heads.dim) {
        return cuda::attention(qkv, heads, segments);
    }
    plain::attention(qkv, heads, segments)
}

pub(crate) fn attention_back(
    from: &Attended<'_>,
    gradient: &Tensor,
    heads: Heads,
    segments: &[Segment],
) -> Result<[Tensor; 3]> {
    #[cfg(feature = "cuda")]
    if cuda::serves_heads(from.q, heads.dim) {
        return cuda::attention_back(from, gradient, heads, segments);
    }
    plain::attention_back(from, gradient, heads, segments)
}
