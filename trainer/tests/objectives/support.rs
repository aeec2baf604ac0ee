//! Batches in plain vectors, and what objectives make of them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use candle_core::{Device, Tensor, Var};
use hindsearch_trainer::{Advantage, Kl, Metrics, Objectives, Result, Tokens, Totals};
use serde::Deserialize;

/// What `golden/make_objectives.py` computed.
#[derive(Deserialize)]
pub struct Golden {
    pub batches: BTreeMap<String, Batch>,
    pub cases: Vec<Case>,
    pub penalties: Vec<Penalty>,
    pub advantages: Vec<Advantages>,
}

#[derive(Deserialize)]
pub struct Case {
    pub name: String,
    pub preset: Option<String>,
    pub batch: String,
    pub split: Vec<usize>,
    pub settings: Objectives,
    pub loss: f64,
    pub logprobs_gradient: Vec<f32>,
    pub entropy_gradient: Vec<f32>,
    pub metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
pub struct Penalty {
    pub kl: Kl,
    pub batch: String,
    pub expected: Vec<f64>,
}

#[derive(Deserialize)]
pub struct Advantages {
    pub settings: Advantage,
    pub groups: Vec<Vec<f64>>,
    pub expected: Vec<Vec<f64>>,
}

pub static GOLDEN: LazyLock<Golden> =
    LazyLock::new(|| serde_json::from_str(include_str!("../golden/objectives.json")).unwrap());

/// Rows one after the other: their lengths, and columns over all tokens.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Batch {
    pub rows: Vec<usize>,
    pub logprobs: Vec<f32>,
    pub entropy: Vec<f32>,
    pub old: Vec<f32>,
    pub reference: Vec<f32>,
    pub policy_mask: Vec<f32>,
    pub query_mask: Vec<f32>,
    pub advantages: Vec<f32>,
}

impl Batch {
    /// One row whose tokens are all needed, sampled by the current policy, which is the reference, too.
    pub fn row(logprobs: &[f32], advantage: f32) -> Self {
        let n = logprobs.len();
        Self {
            rows: vec![n],
            logprobs: logprobs.to_vec(),
            entropy: vec![1.0; n],
            old: logprobs.to_vec(),
            reference: logprobs.to_vec(),
            policy_mask: vec![1.0; n],
            query_mask: vec![0.0; n],
            advantages: vec![advantage; n],
        }
    }

    pub fn columns(&mut self) -> [&mut Vec<f32>; 5] {
        [&mut self.logprobs, &mut self.entropy, &mut self.old, &mut self.reference, &mut self.advantages]
    }

    /// Micro-batches of so many rows each.
    pub fn split(&self, rows: &[usize]) -> Vec<Self> {
        let (mut row, mut token) = (0, 0);
        rows.iter()
            .map(|&count| {
                let rows = self.rows[row..row + count].to_vec();
                let tokens = token..token + rows.iter().sum::<usize>();
                (row, token) = (row + count, tokens.end);
                let cut = |column: &[f32]| column[tokens.clone()].to_vec();
                Self {
                    rows,
                    logprobs: cut(&self.logprobs),
                    entropy: cut(&self.entropy),
                    old: cut(&self.old),
                    reference: cut(&self.reference),
                    policy_mask: cut(&self.policy_mask),
                    query_mask: cut(&self.query_mask),
                    advantages: cut(&self.advantages),
                }
            })
            .collect()
    }

    /// The batch as objectives take it, with the variables that gradients are asked for.
    pub fn tokens(&self) -> (Tokens, Var, Var) {
        let logprobs = Var::from_tensor(&tensor(&self.logprobs)).unwrap();
        let entropy = Var::from_tensor(&tensor(&self.entropy)).unwrap();
        let ends = self.rows.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let tokens = Tokens {
            rows: ends.zip(&self.rows).map(|(end, length)| end - length..end).collect(),
            logprobs: logprobs.as_tensor().clone(),
            entropy: Some(entropy.as_tensor().clone()),
            old: tensor(&self.old),
            reference: Some(tensor(&self.reference)),
            policy_mask: tensor(&self.policy_mask),
            query_mask: tensor(&self.query_mask),
            advantages: tensor(&self.advantages),
            teacher: None,
        };
        (tokens, logprobs, entropy)
    }
}

pub fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap()
}

/// What micro-batches add up to.
#[derive(Default)]
pub struct Outcome {
    pub loss: f64,
    pub logprobs_gradient: Vec<f32>,
    pub entropy_gradient: Vec<f32>,
    pub metrics: Metrics,
}

pub fn totals(batches: &[Batch]) -> Totals {
    let mut totals = Totals::default();
    for batch in batches {
        totals.add(&batch.tokens().0.rows, &batch.policy_mask, &batch.query_mask);
    }
    totals
}

pub fn run(objectives: &Objectives, micro_batches: &[Batch]) -> Result<Outcome> {
    let totals = totals(micro_batches);
    let mut outcome = Outcome::default();
    for batch in micro_batches {
        let (tokens, logprobs, entropy) = batch.tokens();
        let terms = objectives.loss(&tokens, &totals)?;
        let gradients = terms.loss.backward()?;
        outcome.loss += terms.loss.to_scalar::<f64>()?;
        outcome.logprobs_gradient.extend(gradients.get(&logprobs).unwrap().to_vec1::<f32>()?);
        match gradients.get(&entropy) {
            Some(gradient) => outcome.entropy_gradient.extend(gradient.to_vec1::<f32>()?),
            None => outcome.entropy_gradient.extend(vec![0.0; batch.entropy.len()]),
        }
        outcome.metrics.merge(&terms.metrics);
    }
    Ok(outcome)
}

pub fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs().max(1e-6)
}
