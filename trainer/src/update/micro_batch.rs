//! Forwards, the loss, and back: what a few samples add to the gradients.

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
        let Part { samples, batch, .. } = &part;
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
        let top = width.map(|width| Top::new(&found, &part, width)).transpose()?;
        let spoken = |of: fn(&Said) -> &Vec<f32>| vector(part.gathered(1, 0.0, |said| Some(of(said))));
        let teacher = objectives.needs_teacher().then(|| {
            Ok::<_, Error>(Teacher {
                logprobs: spoken(|said| &said.logprobs)?,
                entropy: Some(spoken(|said| &said.entropies)?),
                mask: vector(part.taught())?,
                top: top.as_ref().map(|top| top.tokens.clone()),
            })
        });
        let tokens = Tokens {
            logprobs: logprobs.as_tensor().clone(),
            entropy: Some(entropies.as_tensor().clone()),
            old: vector(old)?,
            teacher: teacher.transpose()?,
            reference: part.reference.map(vector).transpose()?,
            policy_mask: vector(vec![1.0; count])?,
            query_mask: vector(part.batch.in_query)?,
            advantages: vector(part.batch.advantages)?,
            rows: part.batch.places,
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
        self.gathered(1, 0.0, |said| Some(&said.mask))
    }

    /// What was said of each needed token, `width` values; `nothing` where there is none of it.
    fn gathered<T: Copy>(&self, width: usize, nothing: T, of: impl Fn(&Said) -> Option<&Vec<T>>) -> Vec<T> {
        let mut all = Vec::with_capacity(self.batch.rows.len() * width);
        for (said, place) in self.said.iter().zip(&self.batch.places) {
            match said.and_then(&of) {
                Some(values) => all.extend_from_slice(values),
                None => all.resize(all.len() + place.len() * width, nothing),
            }
        }
        all
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
    fn new(found: &Logprobs, part: &Part<'_>, width: usize) -> Result<Self> {
        let table = |values: Vec<f32>| Tensor::from_vec(values, (part.batch.rows.len(), width), &Device::Cpu);
        let of_all = |of: fn(&SaidTop) -> Option<&Vec<f32>>| {
            table(part.gathered(width, 0.0, |said| said.top.as_ref().and_then(of)))
        };
        let ids = part.gathered(width, NO_TOKEN, |said| said.top.as_ref().map(|top| &top.ids));
        let student = Var::from_tensor(&table(found.of(Others { ids: &ids, width })?)?)?;
        let is_known = part.said.iter().flatten().filter_map(|said| said.top.as_ref()).all(|top| top.old.is_some());
        // For a batch that is used once: as likely as now.
        let old = if is_known { of_all(|top| top.old.as_ref())? } else { student.as_tensor().detach() };
        let tokens = TopTokens {
            ids: Tensor::from_slice(&ids, (part.batch.rows.len(), width), &Device::Cpu)?,
            teacher: of_all(|top| Some(&top.teacher))?,
            student: student.as_tensor().clone(),
            old: Some(old),
        };
        Ok(Self { ids, width, student, tokens })
    }
}
