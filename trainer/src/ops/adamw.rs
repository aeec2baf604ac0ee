//! The numbers of one update of AdamW, and the tensors of one weight that it changes on a device.

use candle_core::Tensor;

/// One update's numbers, rounded to f32 where torch rounds them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamWNumbers {
    /// What gradients are multiplied with.
    pub scale: f32,
    /// The share of a weight that stays.
    pub keep: f32,
    /// 1 - beta1.
    pub beta1_rest: f32,
    pub beta2: f32,
    /// 1 - beta2.
    pub beta2_rest: f32,
    /// sqrt(1 - beta2^t).
    pub root_correction: f32,
    pub epsilon: f32,
    /// rate / (1 - beta1^t).
    pub step: f32,
}

/// Tensors of one shape that an update changes in place. All but `copy` are f32, or f64 where the weight is.
pub(crate) struct Updating<'a> {
    /// The weight as the optimiser knows it.
    pub master: &'a Tensor,
    /// The weight in the type that the model computes in, where that is another one.
    pub copy: Option<&'a Tensor>,
    /// Only read.
    pub gradient: &'a Tensor,
    pub first: &'a Tensor,
    pub second: &'a Tensor,
}
