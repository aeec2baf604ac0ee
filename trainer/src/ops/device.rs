//! Which way does an operation go where its tensors are not f32 on the CPU? Each is chosen here, and only here.
//!
//! Shapes, types and formulas are told in `plain.rs`. Tensors that come here are contiguous, though they may begin inside of their
//! storage.

pub(crate) use super::plain::{
    Attended, LogitSlopes, adamw, attention, attention_back, embedding, embedding_back, logits_back, read_logits,
    rms_norm, rms_norm_back, rotary, swiglu, swiglu_back,
};
