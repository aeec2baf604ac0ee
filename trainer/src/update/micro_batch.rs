//! Forwards, the loss, and back: what a few samples add to the gradients.

use std::ops::Range;

use candle_core::{Device, Tensor, Var};

use super::Learner;
use crate::batch::{Batch, Sample};
use crate::hindsight::{Said, SaidTop};
use crate::objective::{Metrics, NO_TOKEN, Teacher, Tokens, TopTokens, Totals};
use crate::ops::{Logprobs, OtherSlopes, Others};
use crate::{Error, Result};

impl Learner {
    pub(super) fn micro_batch(&self, part: Part<'_>, totals: &Totals) -> Result<Metrics> {
        let count = part.batch.rows.len();
        let taught = part.taught();
        let Part { samples, batch, said, reference } = part;
        let pass = self.decoder.forward(&batch.packed, &batch.rows, self.settings.recompute)?;
        let found = Logprobs::new(pass.hidden(), self.decoder.head(), &batch.targets, self.temperature)?;
        // Where it is not known how likely a token was when it was written: as likely as now.
        let known = samples.iter().map(|sample| sample.logprobs.as_deref()).zip(&batch.places);
        let old = known.flat_map(|(known, place)| known.unwrap_or(&found.logprobs[place.clone()])).copied().collect();
        let vector = |values: Vec<f32>| Tensor::from_vec(values, count, &Device::Cpu);
        let logprobs = Var::from_tensor(&vector(found.logprobs.clone())?)?;
        let entropies = Var::from_tensor(&vector(found.entropies.clone())?)?;
        let objectives = self.objectives_now();
        let width = objectives.hindsight.support().map(|support| support.width());
        let top = width.map(|width| Top::new(&found, &batch, &said, width)).transpose()?;
        let spoken = |of: fn(&Said) -> &Vec<f32>| {
            let of = |(said, place): (&Option<&Said>, &Range<usize>)| {
                said.map_or_else(|| vec![0.0; place.len()], |said| of(said).clone())
            };
            vector(said.iter().zip(&batch.places).flat_map(of).collect())
        };
        let teacher = objectives.needs_teacher().then(|| {
            Ok::<_, Error>(Teacher {
                logprobs: spoken(|said| &said.logprobs)?,
                entropy: Some(spoken(|said| &said.entropies)?),
                mask: vector(taught)?,
                top: top.as_ref().map(|top| top.tokens.clone()),
            })
        });
        let tokens = Tokens {
            logprobs: logprobs.as_tensor().clone(),
            entropy: Some(entropies.as_tensor().clone()),
            old: vector(old)?,
            reference: reference.map(vector).transpose()?,
            policy_mask: vector(vec![1.0; count])?,
            query_mask: vector(batch.in_query)?,
            advantages: vector(batch.advantages)?,
            teacher: teacher.transpose()?,
            rows: batch.places,
        };
        let terms = objectives.loss(&tokens, totals)?;
        let gradients = terms.loss.backward()?;
        let slopes = |var: &Var| gradients.get(var).map(Tensor::to_vec1::<f32>).transpose();
        let to_logprobs = slopes(&logprobs)?.unwrap_or_else(|| vec![0.0; count]);
        let to_entropies = slopes(&entropies)?;
        let student = top.as_ref().and_then(|top| gradients.get(&top.student));
        let student = student.map(|slopes| slopes.flatten_all()?.to_vec1::<f32>()).transpose()?;
        let others = top.as_ref().zip(student.as_deref());
        let others =
            others.map(|(top, slopes)| OtherSlopes { others: Others { ids: &top.ids, width: top.width }, slopes });
        pass.backward(found.backward_with(&to_logprobs, to_entropies.as_deref(), others.as_ref())?)?;
        Ok(terms.metrics)
    }
}

/// A micro-batch.
pub(super) struct Part<'a> {
    pub samples: &'a [Sample],
    pub batch: Batch,
    /// What the teacher said of each sample.
    pub said: Vec<Option<&'a Said>>,
    /// Log-probabilities of all needed tokens under the reference.
    pub reference: Option<Vec<f32>>,
}

impl Part<'_> {
    /// For each needed token, 1 where the teacher spoke of it.
    pub fn taught(&self) -> Vec<f32> {
        let of = |(said, place): (&Option<&Said>, &Range<usize>)| {
            said.map_or_else(|| vec![0.0; place.len()], |said| said.mask.clone())
        };
        self.said.iter().zip(&self.batch.places).flat_map(of).collect()
    }
}

/// Distributions at a few tokens of the vocabulary, for all needed tokens of a micro-batch.
struct Top {
    ids: Vec<u32>,
    width: usize,
    student: Var,
    tokens: TopTokens,
}

impl Top {
    fn new(found: &Logprobs, batch: &Batch, said: &[Option<&Said>], width: usize) -> Result<Self> {
        let count = batch.rows.len();
        let gathered = |of: &dyn Fn(&SaidTop) -> Option<Vec<f32>>| -> Option<Vec<f32>> {
            let nothing = |place: &Range<usize>| vec![0.0; place.len() * width];
            let of = |(said, place): (&Option<&Said>, &Range<usize>)| match said.and_then(|said| said.top.as_ref()) {
                Some(top) => of(top),
                None => Some(nothing(place)),
            };
            let parts: Option<Vec<Vec<f32>>> = said.iter().zip(&batch.places).map(of).collect();
            parts.map(|parts| parts.concat())
        };
        let ids = said.iter().zip(&batch.places).flat_map(|(said, place)| {
            let top = said.and_then(|said| said.top.as_ref());
            top.map_or_else(|| vec![NO_TOKEN; place.len() * width], |top| top.ids.clone())
        });
        let ids: Vec<u32> = ids.collect();
        let table = |values: Vec<f32>| Tensor::from_vec(values, (count, width), &Device::Cpu);
        let student = Var::from_tensor(&table(found.of(Others { ids: &ids, width })?)?)?;
        let old = gathered(&|top| top.old.clone()).map(table).transpose()?;
        let tokens = TopTokens {
            ids: Tensor::from_vec(ids.clone(), (count, width), &Device::Cpu)?,
            teacher: table(gathered(&|top| Some(top.teacher.clone())).unwrap_or_default())?,
            student: student.as_tensor().clone(),
            // For a batch that is used once: as likely as now.
            old: Some(old.unwrap_or(student.as_tensor().detach())),
        };
        Ok(Self { ids, width, student, tokens })
    }
}
