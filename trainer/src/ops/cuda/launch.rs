//! How does a kernel get its arguments? The only place where kernels are launched.
#![allow(unsafe_code)]

use candle_core::backend::BackendStorage;
use candle_core::cuda::CudaDevice;
use candle_core::cuda::cudarc::driver::{CudaView, LaunchConfig, PushKernelArg};
use candle_core::{DType, Device, Error, Result, Shape, Storage, Tensor};
use half::bf16;

use super::library::kernel;
use super::signature::Parameter;
use super::sources::{Form, Source};

/// Bytes to which kernels may round the addresses of what they read.
const ALIGNMENT: usize = 32;

enum Argument {
    Tensor {
        tensor: Tensor,
        written: bool,
    },
    /// No tensor, where one would be written.
    Nothing,
    U32(u32),
    U64(u64),
    F32(f32),
}

/// A kernel with its arguments, in their order.
pub(super) struct Call<'a> {
    source: &'a Source,
    form: Form,
    name: &'static str,
    device: Device,
    arguments: Vec<Argument>,
}

impl<'a> Call<'a> {
    /// Of the kernel `name`, on the device of `beside`.
    pub fn new(source: &'a Source, name: &'static str, form: Form, beside: &Tensor) -> Self {
        Self { source, form, name, device: beside.device().clone(), arguments: Vec::new() }
    }

    /// A tensor that is only read; `count` is how many values the kernel reads of it.
    ///
    /// # Errors
    /// Where the tensor has another number of values, is not contiguous or is elsewhere.
    pub fn reads(mut self, tensor: &Tensor, count: usize) -> Result<Self> {
        self.check(tensor, count)?;
        let begins = tensor.layout().start_offset() * tensor.dtype().size_in_bytes();
        let tensor = if begins.is_multiple_of(ALIGNMENT) { tensor.clone() } else { tensor.force_contiguous()? };
        self.arguments.push(Argument::Tensor { tensor, written: false });
        Ok(self)
    }

    /// A tensor that is changed in place; `count` is how many values the kernel changes.
    ///
    /// # Errors
    /// As [`Self::reads`].
    pub fn changes(mut self, tensor: &Tensor, count: usize) -> Result<Self> {
        self.check(tensor, count)?;
        self.arguments.push(Argument::Tensor { tensor: tensor.clone(), written: true });
        Ok(self)
    }

    /// A new tensor, all of whose values the kernel writes. They are given by [`Self::launch`].
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn writes(mut self, shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        // SAFETY: any bits are an f32 or a bf16, and the kernel writes all of them before anything reads them: launches of a device
        // are in order.
        let tensor = unsafe { Tensor::empty(shape, dtype, &self.device)? };
        self.arguments.push(Argument::Tensor { tensor, written: true });
        Ok(self)
    }

    /// No tensor, where one would be written.
    pub fn nothing(mut self) -> Self {
        self.arguments.push(Argument::Nothing);
        self
    }

    /// A whole number of 32 bits.
    ///
    /// # Errors
    /// Where it is larger.
    pub fn u32(mut self, number: usize) -> Result<Self> {
        self.arguments.push(Argument::U32(bounded(number)?));
        Ok(self)
    }

    /// A whole number of 64 bits.
    pub fn u64(mut self, number: usize) -> Self {
        self.arguments.push(Argument::U64(number as u64));
        self
    }

    /// A number, rounded to f32.
    pub fn f32(mut self, number: f64) -> Self {
        self.arguments.push(Argument::F32(number as f32));
        self
    }

    fn check(&self, tensor: &Tensor, count: usize) -> Result<()> {
        let here = tensor.device().same_device(&self.device);
        if tensor.elem_count() != count || !tensor.is_contiguous() || !here {
            let found = (tensor.shape(), tensor.is_contiguous(), tensor.device().location());
            candle_core::bail!(
                "kernel `{}`: expected {count} contiguous values on {:?}, found (shape, contiguous, place) {found:?}",
                self.name,
                self.device.location()
            )
        }
        Ok(())
    }

    /// Runs `grid` blocks and gives the tensors that are written or changed. Nothing runs where the grid is empty.
    ///
    /// # Errors
    /// Where the kernel cannot be loaded, the arguments are not those of its source, or the launch fails.
    pub fn launch(self, grid: [usize; 2]) -> Result<Vec<Tensor>> {
        let Device::Cuda(device) = &self.device else { candle_core::bail!("kernel `{}`: expected a GPU", self.name) };
        if !grid.contains(&0) {
            self.run(device, grid)?;
        }
        let written = self.arguments.into_iter().filter_map(|argument| match argument {
            Argument::Tensor { tensor, written: true } => Some(tensor),
            _ => None,
        });
        Ok(written.collect())
    }

    fn run(&self, device: &CudaDevice, grid: [usize; 2]) -> Result<()> {
        let kernel = kernel(device, self.source, self.form, self.name)?;
        let parameters = &kernel.signature.parameters;
        let fits = |(argument, parameter): (&Argument, &Parameter)| argument.fits(*parameter);
        if parameters.len() != self.arguments.len() || !self.arguments.iter().zip(parameters).all(fits) {
            candle_core::bail!("kernel `{}`: its arguments are not {parameters:?}", self.name)
        }
        let tensors = self.arguments.iter().map(|argument| match argument {
            Argument::Tensor { tensor, .. } => Some(tensor.storage_and_layout()),
            _ => None,
        });
        let tensors: Vec<_> = tensors.collect();
        let views = tensors.iter().map(|tensor| {
            let Some((storage, layout)) = tensor else { return Ok(None) };
            let range = layout.contiguous_offsets().ok_or_else(|| Error::Msg("a tensor that is not contiguous".into()));
            View::of(storage, range?).map(Some)
        });
        let views: Vec<Option<View<'_>>> = views.collect::<Result<_>>()?;
        let (stream, null) = (device.cuda_stream(), 0u64);
        let mut builder = stream.launch_builder(&kernel.function);
        for (argument, view) in self.arguments.iter().zip(&views) {
            match (argument, view) {
                (_, Some(View::F32(view))) => builder.arg(view),
                (_, Some(View::Bf16(view))) => builder.arg(view),
                (_, Some(View::U32(view))) => builder.arg(view),
                (_, Some(View::F64(view))) => builder.arg(view),
                (Argument::U32(number), None) => builder.arg(number),
                (Argument::U64(number), None) => builder.arg(number),
                (Argument::F32(number), None) => builder.arg(number),
                (Argument::Tensor { .. } | Argument::Nothing, None) => builder.arg(&null),
            };
        }
        let config = LaunchConfig {
            grid_dim: (bounded(grid[0])?, bounded(grid[1])?, 1),
            block_dim: (bounded(kernel.signature.threads)?, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: number, kinds and types of the arguments are those of the source (`fits`). Tensors are contiguous, on this device
        // and as long as the caller said (`check`), and the views are of just their values; what a kernel reads and writes within
        // them follows from the sizes that are passed with them, in the file beside its source. All work of a device is on its one
        // stream: a tensor is written after whatever used it before, and freed after the kernel. Nothing on the host refers to its
        // memory.
        unsafe { builder.launch(config) }.map_err(Error::wrap)?;
        Ok(())
    }
}

impl Argument {
    fn fits(&self, parameter: Parameter) -> bool {
        match (self, parameter) {
            (Self::Tensor { tensor, written: false }, Parameter::Reads(dtype)) => tensor.dtype() == dtype,
            (Self::Tensor { tensor, written: true }, Parameter::Writes(dtype)) => tensor.dtype() == dtype,
            (Self::Nothing, Parameter::Writes(_)) => true,
            (Self::U32(_), Parameter::U32) | (Self::U64(_), Parameter::U64) | (Self::F32(_), Parameter::F32) => true,
            _ => false,
        }
    }
}

/// The values of a tensor on a GPU.
enum View<'a> {
    F32(CudaView<'a, f32>),
    Bf16(CudaView<'a, bf16>),
    U32(CudaView<'a, u32>),
    F64(CudaView<'a, f64>),
}

impl<'a> View<'a> {
    fn of(storage: &'a Storage, (start, end): (usize, usize)) -> Result<Self> {
        let Storage::Cuda(storage) = storage else { candle_core::bail!("expected a tensor on a GPU") };
        let outside = || Error::Msg("a tensor that ends outside of its storage".into());
        Ok(match storage.dtype() {
            DType::F32 => Self::F32(storage.as_cuda_slice()?.try_slice(start..end).ok_or_else(outside)?),
            DType::BF16 => Self::Bf16(storage.as_cuda_slice()?.try_slice(start..end).ok_or_else(outside)?),
            DType::U32 => Self::U32(storage.as_cuda_slice()?.try_slice(start..end).ok_or_else(outside)?),
            DType::F64 => Self::F64(storage.as_cuda_slice()?.try_slice(start..end).ok_or_else(outside)?),
            other => candle_core::bail!("no kernel takes {other:?}"),
        })
    }
}

fn bounded(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::Msg(format!("expected less than 2^32 for a kernel, found {number}")))
}
