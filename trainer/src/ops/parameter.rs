//! What does the model learn? A weight, its gradient, and the form in which it is read fastest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use candle_core::{Result, Tensor};

use super::panels::{Panels, Right};
use super::tensor::{change, swap, view};

/// A weight, `[out, in]` or `[in]`.
pub struct Parameter {
    name: String,
    value: Tensor,
    learns: bool,
    gradient: Mutex<Option<Tensor>>,
    panels: RwLock<Option<Arc<Panels>>>,
}

impl Parameter {
    /// A parameter that learns, or a frozen one. Nothing else should hold the storage of `value`, which changes in place.
    pub fn new(name: impl Into<String>, value: Tensor, learns: bool) -> Self {
        Self { name: name.into(), value, learns, gradient: Mutex::default(), panels: RwLock::default() }
    }

    /// The name, as Hugging Face's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is part of an adapter beside a weight.
    pub fn is_adapter(&self) -> bool {
        self.name.contains(".lora_")
    }

    /// The numbers.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// Whether it has a gradient.
    pub fn learns(&self) -> bool {
        self.learns
    }

    /// The sum of the gradients since [`Self::clear`]; nothing where there were none.
    pub fn gradient(&self) -> Option<Tensor> {
        self.locked().clone()
    }

    /// Forgets the gradient.
    pub fn clear(&self) {
        *self.locked() = None;
    }

    /// Exchanges the values with others: an optimiser takes them, changes them and puts them back. The laid out form is dropped,
    /// since it is no longer true.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn swap(&self, values: &mut Vec<f32>) -> Result<()> {
        self.unpack();
        swap(&self.value, values)
    }

    /// Lays the weight out for decoding, where that is not done: as much memory again, until [`Self::unpack`].
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn pack(&self) -> Result<()> {
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
