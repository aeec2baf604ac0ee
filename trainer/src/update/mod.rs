//! What do samples do to the weights? Losses and gradients in micro-batches, then an update of the optimiser.

mod micro_batch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::{Batch, Sample, micro_batches};
use crate::checkpoint::TensorData;
use crate::decoder::Decoder;
use crate::hindsight::{Average, Refresh, Said, TeacherSettings, TeacherWeights, Teaching};
use crate::objective::{Metric, Metrics, Objectives, Totals};
use crate::ops::{Logprobs, Parameter, to_host, view};
use crate::optim::{AdamW, AdamWSettings, DeviceMoments, Trainable, gradient_norm};
use crate::{Error, Result};
use micro_batch::Part;

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
    teacher: TeacherSettings,
    /// The weights of a teacher that has others than the policy and the reference.
    taught_by: Option<Average>,
    objectives: Objectives,
    optimizer: AdamW,
    /// Those of weights that are not f32 in host memory.
    moments: DeviceMoments,
    settings: UpdateSettings,
    temperature: f32,
    /// What the schedule makes of the weights of all that needs a teacher.
    hindsight: f64,
}

/// What a learner is made of.
pub struct LearnerParts {
    /// The model, with the weights or adapters that learn.
    pub decoder: Arc<Decoder>,
    /// What is made smaller.
    pub objectives: Objectives,
    /// Whose weights teach, where the objectives need a teacher.
    pub teacher: TeacherSettings,
    /// How gradients change weights.
    pub optimizer: AdamWSettings,
    /// How updates are made.
    pub settings: UpdateSettings,
    /// The temperature at which samples were drawn; log-probabilities are computed at it.
    pub temperature: f64,
}

impl Learner {
    /// A learner that has made no update. Where the objectives or the teacher need a reference, it is the model as it is now.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for settings out of range; those of the tensors.
    pub fn new(parts: LearnerParts) -> Result<Self> {
        let LearnerParts { decoder, objectives, teacher, optimizer, settings, temperature } = parts;
        objectives.check()?;
        teacher.check()?;
        let vocabulary = decoder.config().vocabulary;
        if let Some(support) = objectives.hindsight.support().filter(|support| support.k > vocabulary) {
            let expected = format!("at most the {vocabulary} tokens of the model's vocabulary");
            return Err(Error::invalid(
                "hindsight.divergence.support.k (or surrogate's)",
                expected,
                support.k.to_string(),
            ));
        }
        if settings.micro_tokens == 0 || settings.epochs == 0 {
            return Err(Error::invalid("update", "`micro_tokens` and `epochs` of 1 or more", "0"));
        }
        let reference = needs_reference(&objectives, &teacher).then(|| decoder.frozen()).transpose()?;
        let averages = objectives.needs_teacher() && teacher.weights == TeacherWeights::Ema;
        let taught_by = averages.then(|| Average::of(&decoder)).transpose()?;
        let optimizer = AdamW::new(optimizer)?;
        let temperature = if temperature == 0.0 { 1.0 } else { temperature as f32 };
        let moments = DeviceMoments::default();
        let hindsight = 1.0;
        Ok(Self {
            decoder,
            reference,
            teacher,
            taught_by,
            objectives,
            optimizer,
            moments,
            settings,
            temperature,
            hindsight,
        })
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

    /// Whether the loss compares with the reference, or the reference teaches.
    pub fn needs_reference(&self) -> bool {
        needs_reference(&self.objectives, &self.teacher)
    }

    /// Is taught by this model from now on: one with the same tokenizer, for [`TeacherWeights::Larger`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a model with fewer tokens than the policy's.
    pub fn set_teacher(&mut self, teacher: Decoder) -> Result<()> {
        let (own, found) = (self.decoder.config().vocabulary, teacher.config().vocabulary);
        // Larger models of a family have longer embeddings, of which the last rows are no tokens.
        if found < own {
            let expected = format!("a model of the policy's family, with {own} tokens or more");
            return Err(Error::invalid("hindsight.teacher.model", expected, format!("one with {found}")));
        }
        self.taught_by = Some(Average::fixed(teacher));
        Ok(())
    }

    /// Lets the moving mean of [`TeacherWeights::Ema`] begin with the policy as it is now.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn begin_average(&mut self) -> Result<()> {
        if self.teacher.weights == TeacherWeights::Ema && self.taught_by.is_some() {
            self.taught_by = Some(Average::of(&self.decoder)?);
        }
        Ok(())
    }

    /// What a schedule makes of the weights of all that needs a teacher; 0 asks for none.
    pub fn set_hindsight(&mut self, factor: f64) {
        self.hindsight = factor;
    }

    /// What [`Self::set_hindsight`] was last told.
    pub fn hindsight(&self) -> f64 {
        self.hindsight
    }

    /// Whether a teacher is asked in this step.
    pub fn needs_teacher_now(&self) -> bool {
        self.objectives_now().needs_teacher()
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
        for samples in micro_batches(samples, self.settings.micro_tokens, Sample::length) {
            let batch = Batch::new(samples);
            let pass = decoder.forward(&batch.packed, &batch.rows, true)?;
            let found = Logprobs::new(pass.hidden(), decoder.head(), &batch.targets, self.temperature)?;
            all.extend(batch.places.iter().map(|place| found.logprobs[place.clone()].to_vec()));
        }
        Ok(all)
    }

    /// What is made smaller in this step.
    fn objectives_now(&self) -> Objectives {
        Objectives { hindsight: self.objectives.hindsight.scaled(self.hindsight), ..self.objectives }
    }

    /// What the teacher says of these samples, where the loss needs it; `once` where they are learnt from in one update.
    fn taught(&self, samples: &[Sample], once: bool) -> Result<Vec<Option<Said>>> {
        let objectives = self.objectives_now();
        if !objectives.needs_teacher() {
            return Ok(vec![None; samples.len()]);
        }
        let teacher = match self.teacher.weights {
            TeacherWeights::Reference => self.reference.as_ref(),
            TeacherWeights::Current => Some(&*self.decoder),
            TeacherWeights::Ema | TeacherWeights::Larger => self.taught_by.as_ref().map(Average::decoder),
        };
        let teaching = Teaching {
            teacher: teacher.ok_or_else(|| Error::invalid("hindsight.teacher", "a model that teaches", "none"))?,
            student: &self.decoder,
            support: objectives.hindsight.support(),
            old: !once && objectives.hindsight.surrogate.weight != 0.0,
            temperature: self.temperature,
            micro_tokens: self.settings.micro_tokens,
        };
        teaching.of(samples)
    }

    /// Adds the gradients of one optimiser batch to the weights' accumulators, and tells its loss and what else is told. Weights
    /// do not change.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for samples that do not fit the model; those of the tensors.
    pub fn gradients(&self, samples: &[Sample]) -> Result<Metrics> {
        self.check(samples)?;
        self.gradients_of(samples, &self.taught(samples, true)?)
    }

    fn gradients_of(&self, samples: &[Sample], said: &[Option<Said>]) -> Result<Metrics> {
        let reference = self.reference.as_ref().filter(|_| self.objectives.needs_reference());
        let mut reference = reference.map(|decoder| self.scored(decoder, samples)).transpose()?.map(Vec::into_iter);
        let mut said = said.iter();
        let parts = micro_batches(samples, self.settings.micro_tokens, Sample::length).into_iter();
        let parts: Vec<Part<'_>> = parts
            .map(|samples| {
                let said = said.by_ref().take(samples.len()).map(Option::as_ref).collect();
                let reference =
                    reference.as_mut().map(|reference| reference.by_ref().take(samples.len()).flatten().collect());
                Part { samples, batch: Batch::new(samples), said, reference }
            })
            .collect();
        let mut totals = Totals::default();
        for part in &parts {
            let (rows, policy, query) = (&part.batch.places, vec![1.0; part.batch.rows.len()], &part.batch.in_query);
            totals.add(rows, &policy, query);
            totals.add_taught(rows, &policy, query, &part.taught());
        }
        let mut metrics = Metrics::default();
        for part in parts {
            metrics.merge(&self.micro_batch(part, &totals)?);
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
        self.check(&samples)?;
        let (mut metrics, mut number, mut teaching) = (Metrics::default(), 0, Duration::ZERO);
        let at_once = self.teacher.refresh == Refresh::Step || self.teacher.weights != TeacherWeights::Current;
        let begun = Instant::now();
        let said = if at_once { self.taught(&samples, is_one)? } else { Vec::new() };
        teaching += begun.elapsed();
        let clamp = self.objectives.hindsight.distillation.clamp;
        for (sample, said) in samples.iter().zip(&said).filter_map(|(sample, said)| Some((sample, said.as_ref()?))) {
            metrics.add("hindsight/gold_weight", said.gold_weight(sample, clamp));
        }
        for _ in 0..self.settings.epochs {
            for (part, samples) in samples.chunks(size).enumerate() {
                let begun = Instant::now();
                let of_now = if at_once { Vec::new() } else { self.taught(samples, true)? };
                teaching += begun.elapsed();
                let said = said.get(part * size..part * size + samples.len()).unwrap_or(&of_now);
                let found = self.gradients_of(samples, said)?;
                metrics.merge(&self.step(found, rate(number))?);
                number += 1;
            }
        }
        if self.needs_teacher_now() {
            metrics.add("time/teacher", Metric::Sum(teaching.as_secs_f64()));
        }
        let moves = self.teacher.weights == TeacherWeights::Ema;
        if let Some(average) = self.taught_by.as_mut().filter(|_| moves) {
            average.follow(&self.decoder, self.teacher.rate)?;
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
        if self.teacher.weights == TeacherWeights::Ema {
            tensors.extend(self.taught_by.iter().flat_map(Average::tensors));
        }
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
        if let Some(average) = self.taught_by.as_mut().filter(|_| self.teacher.weights == TeacherWeights::Ema) {
            average.restore(&mut tensors)?;
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

fn needs_reference(objectives: &Objectives, teacher: &TeacherSettings) -> bool {
    objectives.needs_reference() || objectives.needs_teacher() && teacher.weights == TeacherWeights::Reference
}
