//! AdamW for weights that are not f32 in host memory: the same rules and arithmetic, on tensors where the weights are.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;

use super::{AdamW, FIRST, Moments, SECOND, Updated, numbers};
use crate::checkpoint::TensorData;
use crate::ops::{Parameter, Updating, adamw, sum_of_squares, to_host};
use crate::{Error, Result};

/// Both moments of each weight, of its shape and where it is; f32, or f64 where the weight is.
#[derive(Default)]
pub(crate) struct DeviceMoments(BTreeMap<String, [Tensor; 2]>);

impl DeviceMoments {
    /// As [`AdamW::update`], whose settings and counts it takes, for the weights that have a gradient. The norm's squares are summed
    /// in f32 along rows: beyond 1e19 a gradient counts as not finite.
    ///
    /// # Errors
    /// Those of [`AdamW::update`] and of the tensors.
    pub fn update(
        &mut self,
        optimizer: &mut AdamW,
        parameters: &[Arc<Parameter>],
        rate: f64,
        loss: f64,
    ) -> Result<Updated> {
        let mut trained = Vec::new();
        let mut squares = 0.0;
        for parameter in parameters.iter().filter(|parameter| parameter.learns()) {
            if let Some(gradient) = parameter.gradient() {
                if optimizer.counts.updates > 0 && !self.0.contains_key(parameter.name()) {
                    let what = format!("tensor `{}`", parameter.name());
                    return Err(Error::invalid(what, "moments, as in the updates before", "none"));
                }
                squares += sum_of_squares(&gradient)?;
                trained.push((parameter, gradient));
            }
        }
        let updated = optimizer.begin(loss, squares.sqrt())?;
        if updated.skipped {
            return Ok(updated);
        }
        for (parameter, gradient) in trained {
            let master = parameter.master();
            if !self.0.contains_key(parameter.name()) {
                let moments = [master.zeros_like()?, master.zeros_like()?];
                self.0.insert(parameter.name().to_owned(), moments);
            }
            let Some([first, second]) = self.0.get(parameter.name()) else { continue };
            let copy = parameter.narrow_copy();
            let weight = Updating { master, copy, gradient: &gradient, first, second };
            let scale = (updated.scale, master.rank());
            adamw(&weight, &numbers(&optimizer.settings, &optimizer.counts, rate, scale))?;
        }
        Ok(updated)
    }

    /// The moments, for a checkpoint, as [`AdamW::tensors`] names them.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn tensors(&self) -> Result<Vec<(String, TensorData<'static>)>> {
        let mut all = Vec::new();
        for (name, moments) in &self.0 {
            for (prefix, moment) in [FIRST, SECOND].into_iter().zip(moments) {
                let data = TensorData { shape: moment.dims().to_vec(), values: to_host(moment)?.into() };
                all.push((format!("{prefix}{name}"), data));
            }
        }
        Ok(all)
    }

    /// Takes the moments of a restored optimiser to where the weights are.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for moments of another model; those of the tensors.
    pub fn restore(optimizer: &mut AdamW, parameters: &[Arc<Parameter>]) -> Result<Self> {
        let mut moved = BTreeMap::new();
        for (name, Moments { shape, first, second }) in std::mem::take(&mut optimizer.moments) {
            let parameter = parameters.iter().find(|parameter| parameter.name() == name && parameter.learns());
            let Some(parameter) = parameter.filter(|parameter| parameter.value().dims() == shape) else {
                let expected = "those of weights that learn";
                return Err(Error::invalid("moments of the checkpoint", expected, format!("`{name}` of {shape:?}")));
            };
            let master = parameter.master();
            let place = |values: Vec<f32>| {
                Tensor::from_vec(values, shape.as_slice(), master.device())?.to_dtype(master.dtype())
            };
            moved.insert(name, [place(first)?, place(second)?]);
        }
        Ok(Self(moved))
    }
}
