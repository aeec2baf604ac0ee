//! Weights of a teacher that are neither the policy's nor the reference's: a moving mean of the policy's, or another model's.

use std::collections::BTreeMap;

use crate::checkpoint::TensorData;
use crate::decoder::Decoder;
use crate::model::{Weight, Weights};
use crate::{Error, Result};

/// What its tensors are called in a checkpoint, before their names.
const PREFIX: &str = "teacher/";

/// A model that does not learn, and may follow one that does.
pub(crate) struct Average {
    decoder: Decoder,
    /// The mean, in f32; empty for one that stays as it is.
    weights: BTreeMap<String, Weight>,
}

impl Average {
    /// One that stays as it is.
    pub(crate) fn fixed(decoder: Decoder) -> Self {
        Self { decoder, weights: BTreeMap::new() }
    }

    /// One that begins as the policy is, adapters and all.
    ///
    /// # Errors
    /// Those of the tensors.
    pub(crate) fn of(policy: &Decoder) -> Result<Self> {
        let weights = policy.merged()?.into_tensors();
        Ok(Self { decoder: placed(policy, &weights)?, weights })
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Moves the mean to the policy by this share of the way.
    ///
    /// # Errors
    /// Those of the tensors.
    pub(crate) fn follow(&mut self, policy: &Decoder, rate: f64) -> Result<()> {
        let now = policy.merged()?.into_tensors();
        for (name, mean) in &mut self.weights {
            if let Some(now) = now.get(name) {
                mean.data.iter_mut().zip(&now.data).for_each(|(mean, now)| *mean += rate as f32 * (now - *mean));
            }
        }
        self.decoder = placed(policy, &self.weights)?;
        Ok(())
    }

    pub(crate) fn tensors(&self) -> impl Iterator<Item = (String, TensorData<'_>)> {
        let data = |weight: &'_ Weight| TensorData { shape: weight.shape.clone(), values: weight.data.clone().into() };
        self.weights.iter().map(move |(name, weight)| (format!("{PREFIX}{name}"), data(weight)))
    }

    /// Goes on from [`Self::tensors`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for those of another model.
    pub(crate) fn restore(&mut self, tensors: &mut BTreeMap<String, TensorData<'_>>) -> Result<()> {
        for (name, weight) in &mut self.weights {
            let data = tensors.remove(&format!("{PREFIX}{name}"));
            let Some(data) = data.filter(|data| data.shape == weight.shape) else {
                let what = format!("weight `{name}` of the teacher in the checkpoint");
                return Err(Error::invalid(what, format!("{:?}", weight.shape), "another shape, or none"));
            };
            weight.data = data.values.into_owned();
        }
        self.decoder = placed(&self.decoder, &self.weights)?;
        Ok(())
    }
}

fn placed(like: &Decoder, weights: &BTreeMap<String, Weight>) -> Result<Decoder> {
    let named = weights.iter().map(|(name, weight)| (name.clone(), weight.clone()));
    Decoder::placed(like.config(), Weights::new(like.config(), named)?, false, like.placement())
}
