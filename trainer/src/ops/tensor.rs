//! The numbers of a tensor on the CPU, as slices.

use std::ops::{Deref, Range};
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Shape, Storage, Tensor};

/// The values of a contiguous f32 tensor on the CPU.
pub(crate) struct View<G> {
    storage: G,
    range: Range<usize>,
}

/// Lends the values of `tensor`, in order.
///
/// # Errors
/// Where the tensor is not f32, not on the CPU or not contiguous.
pub(crate) fn view(tensor: &Tensor) -> candle_core::Result<View<impl Deref<Target = Storage>>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a tensor of shape {:?} is not contiguous", layout.shape())
    };
    if !matches!(&*storage, Storage::Cpu(CpuStorage::F32(_))) {
        candle_core::bail!("expected f32 on the CPU, found {:?} on {:?}", tensor.dtype(), tensor.device())
    }
    Ok(View { storage, range: start..end })
}

impl<G: Deref<Target = Storage>> Deref for View<G> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => &values[self.range.clone()],
            _ => &[],
        }
    }
}

/// A tensor of these values on the CPU.
pub(crate) fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> candle_core::Result<Tensor> {
    Tensor::from_vec(values, shape.into(), &Device::Cpu)
}

/// Changes the values of a tensor in place; whoever shares its storage sees it.
///
/// # Errors
/// As [`view`].
pub(crate) fn change(tensor: &Tensor, change: impl FnOnce(&mut [f32]) + Send) -> candle_core::Result<()> {
    let contiguous = tensor.layout().contiguous_offsets();
    let Some((start, end)) = contiguous else { candle_core::bail!("a tensor that is not contiguous") };
    storage(tensor, |values| change(&mut values[start..end]))
}

/// Exchanges the storage of a tensor with other values. With fewer of them the tensor cannot be read until they are put back.
///
/// # Errors
/// As [`view`].
pub(crate) fn swap(tensor: &Tensor, values: &mut Vec<f32>) -> candle_core::Result<()> {
    storage(tensor, |stored| std::mem::swap(stored, values))
}

fn storage(tensor: &Tensor, change: impl FnOnce(&mut Vec<f32>) + Send) -> candle_core::Result<()> {
    if tensor.dtype() != DType::F32 {
        candle_core::bail!("expected f32, found {:?}", tensor.dtype())
    }
    tensor.inplace_op1(&Change(Mutex::new(Some(change))))
}

struct Change<F>(Mutex<Option<F>>);

impl<F: FnOnce(&mut Vec<f32>) + Send> InplaceOp1 for Change<F> {
    fn name(&self) -> &'static str {
        "change"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        let change = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (storage, change) {
            (CpuStorage::F32(values), Some(change)) => change(values),
            _ => candle_core::bail!("expected f32 on the CPU"),
        }
        Ok(())
    }
}
