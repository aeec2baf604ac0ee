//! What do samples do to the weights? Losses and gradients in micro-batches, then an update of the optimiser.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::{Sample, micro_batches};
use crate::checkpoint::TensorData;
use crate::decoder::{Decoder, Packed};
use crate::objective::{Metric, Metrics, Objectives, Tokens, Totals};
use crate::ops::{Logprobs, Parameter, to_host, view};
use crate::optim::{AdamW, AdamWSettings, DeviceMoments, Trainable, gradient_norm};
use crate::{Error, Result};

/// How updates are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateSettings {
    /// Samples of an update; 0 takes all of a step. The samples of a step are taken in their order.
    pub batch: usize,
    /// How often the samples of a step are learnt from.
    pub epochs: usize,
    /// Tokens of a micro-batch: what is held in memory at a time. It changes no number but by rounding.
    pub micro_tokens: usize,
    /// Whether each layer is computed again on the way back: far less memory, a third more work, the same numbers.
    pub recompute: bool,
}

impl Default for UpdateSettings {
    fn default() -> Self {
        Self { batch: 0, epochs: 1, micro_tokens: 4096, recompute: true }
    }
}

/// A model that learns.
pub struct Learner {
    decoder: Arc<Decoder>,
    reference: Option<Decoder>,
    objectives: Objectives,
    optimizer: AdamW,
    /// Those of weights that are not f32 in host memory.
    moments: DeviceMoments,
    settings: UpdateSettings,
    temperature: f32,
}

/// What a learner is made of.
pub struct LearnerParts {
    /// The model, with the weights or adapters that learn.
    pub decoder: Arc<Decoder>,
    /// What is made smaller.
    pub objectives: Objectives,
    /// How gradients change weights.
    pub optimizer: AdamWSettings,
    /// How updates are made.
    pub settings: UpdateSettings,
    /// The temperature at which samples were drawn; log-probabilities are computed at it.
    pub temperature: f64,
}

impl Learner {
    /// A learner that has made no update. Where the objectives need a reference, it is the model as it is now.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for settings out of range, and for objectives that need a teacher; those of the tensors.
    pub fn new(parts: LearnerParts) -> Result<Self> {
        let LearnerParts { decoder, objectives, optimizer, settings, temperature } = parts;
        objectives.check()?;
        if settings.micro_tokens == 0 || settings.epochs == 0 {
            return Err(Error::invalid("update", "`micro_tokens` and `epochs` of 1 or more", "0"));
        }
        if objectives.needs_teacher() {
            return Err(Error::invalid("hindsight", "weights of 0, for a learner has no teacher", "others"));
        }
        let reference = if objectives.needs_reference() { Some(decoder.frozen()?) } else { None };
        let optimizer = AdamW::new(optimizer)?;
        let temperature = if temperature == 0.0 { 1.0 } else { temperature as f32 };
        let moments = DeviceMoments::default();
        Ok(Self { decoder, reference, objectives, optimizer, moments, settings, temperature })
    }

    /// The model.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// What is made smaller.
    pub fn objectives(&self) -> &Objectives {
        &self.objectives
    }

    /// Updates that were applied.
    pub fn updates(&self) -> u64 {
        self.optimizer.updates()
    }

    /// Compares with this model from now on, where the objectives need a reference; until then with the one that it began with,
    /// without adapters.
    pub fn set_reference(&mut self, reference: Decoder) {
        self.reference = Some(reference);
    }

    /// The log-probability of each token that the policy wrote, under the model as it is now; one list a sample.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for samples that do not fit the model; those of the tensors.
    pub fn logprobs(&self, samples: &[Sample]) -> Result<Vec<Vec<f32>>> {
        self.check(samples)?;
        self.scored(&self.decoder, samples)
    }

    /// Whether the model knows all tokens.
    fn check(&self, samples: &[Sample]) -> Result<()> {
        let vocabulary = self.decoder.config().vocabulary;
        for (number, sample) in samples.iter().enumerate() {
            if let Some(wrong) = sample.tokens.iter().find(|token| **token as usize >= vocabulary) {
                let what = format!("sample {number} (from 0): its tokens");
                let expected = format!("those of this model, below {vocabulary}");
                return Err(Error::invalid(what, expected, format!("{wrong}; was another tokenizer used?")));
            }
        }
        Ok(())
    }

    fn scored(&self, decoder: &Decoder, samples: &[Sample]) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::with_capacity(samples.len());
        for samples in micro_batches(samples, self.settings.micro_tokens) {
            let batch = Batch::new(samples);
            let pass = decoder.forward(&batch.packed, &batch.rows, true)?;
            let found = Logprobs::new(pass.hidden(), decoder.head(), &batch.targets, self.temperature)?;
            all.extend(batch.places.iter().map(|place| found.logprobs[place.clone()].to_vec()));
        }
        Ok(all)
    }

    /// Adds the gradients of one optimiser batch to the weights' accumulators, and tells its loss and what else is told. Weights
    /// do not change.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for samples that do not fit the model; those of the tensors.
    pub fn gradients(&self, samples: &[Sample]) -> Result<Metrics> {
        self.check(samples)?;
        let reference = self.reference.as_ref().filter(|_| self.objectives.needs_reference());
        let mut reference = reference.map(|decoder| self.scored(decoder, samples)).transpose()?.map(Vec::into_iter);
        let parts = micro_batches(samples, self.settings.micro_tokens).into_iter();
        let parts: Vec<(&[Sample], Batch)> = parts.map(|samples| (samples, Batch::new(samples))).collect();
        let mut totals = Totals::default();
        for (_, batch) in &parts {
            totals.add(&batch.places, &vec![1.0; batch.rows.len()], &batch.in_query);
        }
        let mut metrics = Metrics::default();
        for (samples, batch) in parts {
            let reference =
                reference.as_mut().map(|reference| reference.by_ref().take(samples.len()).flatten().collect());
            metrics.merge(&self.micro_batch(samples, batch, reference, &totals)?);
        }
        Ok(metrics)
    }

    /// The norm of all gradients that were gathered, together.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn gradient_norm(&self) -> Result<f64> {
        let gathered = self.learning().filter_map(|parameter| parameter.gradient());
        let values = gathered.map(|gradient| to_host(&gradient)).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(gradient_norm(values.iter().map(Vec::as_slice)))
    }

    fn micro_batch(
        &self,
        samples: &[Sample],
        batch: Batch,
        reference: Option<Vec<f32>>,
        totals: &Totals,
    ) -> Result<Metrics> {
        let count = batch.rows.len();
        let pass = self.decoder.forward(&batch.packed, &batch.rows, self.settings.recompute)?;
        let found = Logprobs::new(pass.hidden(), self.decoder.head(), &batch.targets, self.temperature)?;
        // Where it is not known how likely a token was when it was written: as likely as now.
        let known = samples.iter().map(|sample| sample.logprobs.as_deref()).zip(&batch.places);
        let old = known.flat_map(|(known, place)| known.unwrap_or(&found.logprobs[place.clone()])).copied().collect();
        let vector = |values: Vec<f32>| Tensor::from_vec(values, count, &Device::Cpu);
        let logprobs = Var::from_tensor(&vector(found.logprobs.clone())?)?;
        let entropies = Var::from_tensor(&vector(found.entropies.clone())?)?;
        let tokens = Tokens {
            rows: batch.places,
            logprobs: logprobs.as_tensor().clone(),
            entropy: Some(entropies.as_tensor().clone()),
            old: vector(old)?,
            reference: reference.map(vector).transpose()?,
            policy_mask: vector(vec![1.0; count])?,
            query_mask: vector(batch.in_query)?,
            advantages: vector(batch.advantages)?,
            teacher: None,
        };
        let terms = self.objectives.loss(&tokens, totals)?;
        let gradients = terms.loss.backward()?;
        let slopes = |var: &Var| gradients.get(var).map(Tensor::to_vec1::<f32>).transpose();
        let to_logprobs = slopes(&logprobs)?.unwrap_or_else(|| vec![0.0; count]);
        let to_entropies = slopes(&entropies)?;
        pass.backward(found.backward(&to_logprobs, to_entropies.as_deref())?)?;
        Ok(terms.metrics)
    }

    /// Makes what the policy wrote in the samples likelier, whatever came of them, in one update.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn imitate(&mut self, samples: &[Sample], rate: f64) -> Result<Metrics> {
        let learnt = std::mem::replace(&mut self.objectives, Objectives::imitation());
        let found = self.gradients(samples).and_then(|found| self.step(found, rate));
        self.objectives = learnt;
        found
    }

    /// Learns from the samples of a step, in updates of `batch` samples; `rate` is the learning rate of each, counted from 0.
    ///
    /// # Errors
    /// As [`Self::gradients`]; [`Error::Diverged`] when three updates in a row are not finite.
    pub fn update(&mut self, samples: &[Sample], rate: impl Fn(u64) -> f64) -> Result<Metrics> {
        let size = if self.settings.batch == 0 { samples.len().max(1) } else { self.settings.batch };
        let is_one = self.settings.epochs == 1 && samples.len() <= size;
        // All log-probabilities before the first of several updates: later ones would be those of another policy.
        let mut samples = samples.to_vec();
        if !is_one && samples.iter().any(|sample| sample.logprobs.is_none()) {
            let known = self.logprobs(&samples)?;
            for (sample, known) in samples.iter_mut().zip(known) {
                sample.logprobs.get_or_insert(known);
            }
        }
        let (mut metrics, mut number) = (Metrics::default(), 0);
        for _ in 0..self.settings.epochs {
            for samples in samples.chunks(size) {
                let found = self.gradients(samples)?;
                metrics.merge(&self.step(found, rate(number))?);
                number += 1;
            }
        }
        Ok(metrics)
    }

    /// An update with the gradients that were gathered, which are forgotten.
    fn step(&mut self, mut found: Metrics, rate: f64) -> Result<Metrics> {
        let parameters = self.decoder.parameters();
        let loss = found.value("loss").unwrap_or(0.0);
        let updated = if self.decoder.placement().is_host() {
            update(&mut self.optimizer, &parameters, rate, loss)
        } else {
            self.moments.update(&mut self.optimizer, &parameters, rate, loss)
        };
        parameters.iter().for_each(|parameter| parameter.clear());
        let updated = updated?;
        found.add("update/gradient_norm", Metric::Max(updated.norm));
        found.add("update/rate", Metric::Max(rate));
        found.add("update/skipped", Metric::Sum(f64::from(u8::from(updated.skipped))));
        Ok(found)
    }

    /// All that an interrupted run needs to go on: the weights that learn and the optimiser's moments, and its counts.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn state(&self) -> Result<(BTreeMap<String, TensorData<'_>>, Value)> {
        let mut tensors = BTreeMap::new();
        for parameter in self.learning() {
            let data = TensorData { shape: parameter.value().dims().to_vec(), values: parameter.to_vec()?.into() };
            tensors.insert(parameter.name().to_owned(), data);
        }
        tensors.extend(self.optimizer.tensors());
        tensors.extend(self.moments.tensors()?);
        Ok((tensors, self.optimizer.state()))
    }

    /// Goes on from [`Self::state`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for the state of another model.
    pub fn restore(&mut self, mut tensors: BTreeMap<String, TensorData<'_>>, state: &Value) -> Result<()> {
        self.optimizer = AdamW::restore(*self.optimizer.settings(), &mut tensors, state)?;
        if !self.decoder.placement().is_host() {
            self.moments = DeviceMoments::restore(&mut self.optimizer, &self.decoder.parameters())?;
        }
        for parameter in self.learning() {
            let data = tensors.remove(parameter.name());
            let Some(data) = data.filter(|data| data.shape == parameter.value().dims()) else {
                let what = format!("weight `{}` of the checkpoint", parameter.name());
                return Err(Error::invalid(what, format!("{:?}", parameter.value().dims()), "another shape, or none"));
            };
            parameter.set(data.values.into_owned())?;
        }
        match tensors.keys().next() {
            Some(name) => Err(Error::invalid("the checkpoint", "the weights of this model alone", format!("`{name}`"))),
            None => Ok(()),
        }
    }

    fn learning(&self) -> impl Iterator<Item = Arc<Parameter>> {
        self.decoder.parameters().into_iter().filter(|parameter| parameter.learns())
    }
}

/// Lends the weights to the optimiser.
fn update(optimizer: &mut AdamW, all: &[Arc<Parameter>], rate: f64, loss: f64) -> Result<crate::Updated> {
    let mut lent = Vec::new();
    for parameter in all.iter().filter(|parameter| parameter.learns()) {
        if let Some(gradient) = parameter.gradient() {
            let mut values = Vec::new();
            parameter.swap(&mut values)?;
            lent.push((parameter, values, gradient));
        }
    }
    let updated = lend(optimizer, &mut lent, rate, loss);
    for (parameter, mut values, _) in lent {
        parameter.swap(&mut values)?;
    }
    updated
}

fn lend(
    optimizer: &mut AdamW,
    lent: &mut [(&Arc<Parameter>, Vec<f32>, Tensor)],
    rate: f64,
    loss: f64,
) -> Result<crate::Updated> {
    let views: Vec<_> = lent.iter().map(|(_, _, gradient)| gradient.clone()).collect();
    let views = views.iter().map(view).collect::<candle_core::Result<Vec<_>>>()?;
    let mut trained = Vec::new();
    for ((parameter, value, _), gradient) in lent.iter_mut().zip(&views) {
        trained.push(Trainable { name: parameter.name(), shape: parameter.value().dims(), value, gradient });
    }
    optimizer.update(&mut trained, rate, loss)
}

/// Sequences of samples, and their needed tokens one after the other.
struct Batch {
    packed: Packed,
    /// Rows whose hidden states predict the needed tokens.
    rows: Vec<u32>,
    targets: Vec<u32>,
    /// The needed tokens of each sample.
    places: Vec<Range<usize>>,
    in_query: Vec<f32>,
    advantages: Vec<f32>,
}

impl Batch {
    fn new(samples: &[Sample]) -> Self {
        let mut batch = Self {
            packed: Packed::default(),
            rows: Vec::new(),
            targets: Vec::new(),
            places: Vec::new(),
            in_query: Vec::new(),
            advantages: Vec::new(),
        };
        for sample in samples {
            let first = batch.packed.tokens.len();
            batch.packed.push(&sample.tokens);
            let start = batch.rows.len();
            for (place, in_query) in sample.places.iter().zip(&sample.in_query) {
                batch.rows.push((first + place - 1) as u32);
                batch.targets.push(sample.tokens[*place]);
                batch.in_query.push(f32::from(u8::from(*in_query)));
                batch.advantages.push(sample.advantage as f32);
            }
            batch.places.push(start..batch.rows.len());
        }
        batch
    }
}
