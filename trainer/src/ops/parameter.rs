//! What does the model learn? A weight, its gradient, and the form in which it is read fastest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use candle_core::{Result, Tensor};

use super::device;
use super::panels::{Panels, Right};
use super::placement::{Placement, is_host, to_host, widened, wider};
use super::tensor::{change, swap, view};

/// A weight, `[out, in]` or `[in]`.
pub struct Parameter {
    name: String,
    value: Tensor,
    /// Where the weight learns and `value` is narrower than f32: the weight in f32, so that small steps are not lost.
    master: Option<Tensor>,
    learns: bool,
    gradient: Mutex<Option<Tensor>>,
    panels: RwLock<Option<Arc<Panels>>>,
}

impl Parameter {
    /// A parameter that learns, or a frozen one. Nothing else should hold the storage of `value`, which changes in place.
    pub fn new(name: impl Into<String>, value: Tensor, learns: bool) -> Self {
        let (gradient, panels) = (Mutex::default(), RwLock::default());
        Self { name: name.into(), value, master: None, learns, gradient, panels }
    }

    /// A parameter of these numbers in its place. One that learns keeps them in f32 beside a narrower type.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn placed(name: impl Into<String>, value: Tensor, learns: bool, placement: &Placement) -> Result<Self> {
        let wide = value.to_device(&placement.device)?.to_dtype(wider(placement.dtype))?;
        let narrow = wide.to_dtype(placement.dtype)?;
        let master = (learns && narrow.dtype() != wide.dtype()).then_some(wide);
        Ok(Self { master, ..Self::new(name, narrow, learns) })
    }

    /// The name, as Hugging Face's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is part of an adapter beside a weight.
    pub fn is_adapter(&self) -> bool {
        self.name.contains(".lora_")
    }

    /// The numbers that the model computes with.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The numbers that an optimiser changes, in f32, or f64 where the model computes in it.
    pub(crate) fn master(&self) -> &Tensor {
        self.master.as_ref().unwrap_or(&self.value)
    }

    /// [`Self::value`] where it is narrower than [`Self::master`].
    pub(crate) fn narrow_copy(&self) -> Option<&Tensor> {
        self.master.as_ref().map(|_| &self.value)
    }

    /// A copy of the numbers in host memory.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        to_host(self.master())
    }

    /// Sets the numbers, as many as there are.
    ///
    /// # Errors
    /// Those of the tensors.
    pub(crate) fn set(&self, mut values: Vec<f32>) -> Result<()> {
        if is_host(&self.value) {
            return self.swap(&mut values);
        }
        let master = Tensor::from_vec(values, self.value.shape(), self.value.device())?;
        let master = master.to_dtype(self.master().dtype())?;
        if let Some(copy) = self.narrow_copy() {
            copy.slice_set(&master.to_dtype(copy.dtype())?, 0, 0)?;
        }
        self.master().slice_set(&master, 0, 0)
    }

    /// Whether it has a gradient.
    pub fn learns(&self) -> bool {
        self.learns
    }

    /// The sum of the gradients since [`Self::clear`], in f32, or f64 where the model computes in it; nothing where there were none.
    pub fn gradient(&self) -> Option<Tensor> {
        self.locked().clone()
    }

    /// Forgets the gradient.
    pub fn clear(&self) {
        *self.locked() = None;
    }

    /// Exchanges the values with others: an optimiser takes them, changes them and puts them back. The laid out form is dropped,
    /// since it is no longer true. For f32 on the CPU alone.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn swap(&self, values: &mut Vec<f32>) -> Result<()> {
        self.unpack();
        swap(&self.value, values)
    }

    /// Lays the weight out for decoding, where that is not done: as much memory again, until [`Self::unpack`]. Only f32 on the CPU
    /// has such a form; others stay as they are.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn pack(&self) -> Result<()> {
        if !is_host(&self.value) {
            return Ok(());
        }
        let (_, depth) = self.value.dims2()?;
        let mut panels = self.panels.write().unwrap_or_else(PoisonError::into_inner);
        if panels.is_none() {
            *panels = Some(Arc::new(Panels::of_rows(&view(&self.value)?, depth, depth)));
        }
        Ok(())
    }

    /// Frees what [`Self::pack`] made.
    pub fn unpack(&self) {
        *self.panels.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Adds to the gradient with `add`, which is given the sum so far.
    pub(crate) fn accumulate(&self, add: impl FnOnce(&mut [f32]) + Send) -> Result<()> {
        let mut gradient = self.locked();
        if gradient.is_none() {
            *gradient = Some(self.value.zeros_like()?);
        }
        gradient.as_ref().map_or(Ok(()), |gradient| change(gradient, add))
    }

    /// Adds a tensor of its shape to the gradient of a weight on a device.
    pub(crate) fn accumulate_tensor(&self, part: &Tensor) -> Result<()> {
        let part = widened(part)?;
        let mut gradient = self.locked();
        *gradient = Some(match gradient.take() {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
        Ok(())
    }

    /// Adds rows to those of the gradient of a table on a device that `tokens` name.
    pub(crate) fn accumulate_rows(&self, tokens: &Tensor, rows: &Tensor) -> Result<()> {
        let mut gradient = self.locked();
        if gradient.is_none() {
            let dtype = wider(self.value.dtype());
            *gradient = Some(Tensor::zeros(self.value.shape(), dtype, self.value.device())?);
        }
        gradient.as_ref().map_or(Ok(()), |sum| device::embedding_back(sum, tokens, rows))
    }

    /// Lends the values as a right factor `[in, out]`, in the form of [`Self::pack`] where it is there. Both give the same bits.
    pub(crate) fn with_columns<T>(&self, work: impl FnOnce(Right<'_>) -> T) -> Result<T> {
        let (width, depth) = self.value.dims2()?;
        let panels = self.panels.read().unwrap_or_else(PoisonError::into_inner).clone();
        match panels {
            Some(panels) => Ok(work(Right::Panels(&panels, width))),
            None => Ok(work(Right::Columns { data: &view(&self.value)?, depth })),
        }
    }

    /// Lends the values as a right factor `[out, in]`.
    pub(crate) fn with_rows<T>(&self, work: impl FnOnce(Right<'_>) -> T) -> Result<T> {
        let (_, width) = self.value.dims2()?;
        Ok(work(Right::rows(&view(&self.value)?, width)))
    }

    fn locked(&self) -> MutexGuard<'_, Option<Tensor>> {
        self.gradient.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
