//! Where are tensors, and in which type?

use candle_core::{DType, Device, Result, Tensor};

/// Where a model is and what it computes in.
#[derive(Debug, Clone)]
pub struct Placement {
    /// The CPU, or a GPU.
    pub device: Device,
    /// The type of weights and activations: f32, bf16 or f64. On the CPU f32 has fast kernels; the others are for tests.
    pub dtype: DType,
}

impl Placement {
    /// f32 on the CPU.
    pub fn host() -> Self {
        Self { device: Device::Cpu, dtype: DType::F32 }
    }

    /// Whether the fast kernels of the CPU serve it, as [`is_host`].
    pub(crate) fn is_host(&self) -> bool {
        self.dtype == DType::F32 && self.device.is_cpu()
    }
}

/// Whether the fast kernels of the CPU read it: f32 on the CPU.
pub(crate) fn is_host(tensor: &Tensor) -> bool {
    tensor.dtype() == DType::F32 && tensor.device().is_cpu()
}

/// The type in which sums over numbers of this type are taken, and in which learning weights are kept: f64 for f64, else f32.
pub(crate) fn wider(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// In the type of sums over it.
pub(crate) fn widened(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(wider(tensor.dtype()))
}

/// A copy of the numbers of any tensor, in order.
pub(crate) fn to_host(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}
