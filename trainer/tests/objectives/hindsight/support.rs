//! Batches with a teacher in plain vectors, and what objectives make of them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use candle_core::{DType, Device, Tensor, Var};
use hindsearch_trainer::{Metrics, Objectives, Result, Teacher, TokenScope, Tokens, TopTokens, Totals};
use serde::Deserialize;

use crate::support::{Batch, tensor};

/// What `golden/make_hindsight.py` computed.
#[derive(Deserialize)]
pub struct Golden {
    pub split: Vec<usize>,
    pub batches: BTreeMap<String, Taught>,
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
pub struct Case {
    pub name: String,
    pub batch: String,
    pub settings: Objectives,
    pub loss: f64,
    pub logprobs_gradient: Vec<f32>,
    pub entropy_gradient: Vec<f32>,
    pub top_gradient: Vec<f32>,
    pub metrics: BTreeMap<String, f64>,
}

pub static GOLDEN: LazyLock<Golden> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../golden/hindsight.json")).unwrap());

/// A batch and what a teacher said of it, of top tokens in lines of `width`.
#[derive(Debug, Clone, Deserialize)]
pub struct Taught {
    #[serde(flatten)]
    pub batch: Batch,
    pub teacher_logprobs: Vec<f32>,
    pub teacher_entropy: Vec<f32>,
    pub teacher_mask: Vec<f32>,
    pub width: usize,
    pub ids: Vec<u32>,
    pub top_teacher: Vec<f32>,
    pub top_student: Vec<f32>,
    pub top_old: Vec<f32>,
}

/// All that a gradient could be asked for.
pub struct Vars {
    pub logprobs: Var,
    pub entropy: Var,
    pub student: Var,
    pub teacher: [Var; 4],
}

impl Taught {
    /// One row of query tokens that are all taught, with lines of log-probabilities under teacher and student. The sampled
    /// tokens are the first ones of the lines.
    pub fn row(teacher: &[Vec<f32>], student: &[Vec<f32>]) -> Self {
        let first = |lines: &[Vec<f32>]| lines.iter().map(|line| line[0]).collect::<Vec<f32>>();
        let width = student[0].len();
        let mut batch = Batch::row(&first(student), 1.0);
        batch.query_mask = batch.policy_mask.clone();
        Self {
            teacher_logprobs: first(teacher),
            teacher_entropy: batch.entropy.clone(),
            teacher_mask: batch.policy_mask.clone(),
            width,
            ids: (0..student.len()).flat_map(|_| 0..width as u32).collect(),
            top_teacher: teacher.concat(),
            top_student: student.concat(),
            top_old: student.concat(),
            batch,
        }
    }

    /// One row whose sampled tokens have these log-probabilities, and no more.
    pub fn sampled(teacher: &[f32], student: &[f32]) -> Self {
        let lines = |side: &[f32]| side.iter().map(|logprob| vec![*logprob]).collect::<Vec<_>>();
        Self::row(&lines(teacher), &lines(student))
    }

    /// For each token whether it is taught within a scope.
    pub fn taught(&self, scope: TokenScope) -> Vec<bool> {
        let mask = scope.mask(&self.batch.policy_mask, &self.batch.query_mask, &self.teacher_mask);
        mask.into_iter().map(|value| value != 0.0).collect()
    }

    /// What the teacher and the sampling policy said, and the student of top tokens, each with how many numbers a token has.
    pub fn columns(&mut self) -> [(&mut Vec<f32>, usize); 5] {
        [
            (&mut self.teacher_logprobs, 1),
            (&mut self.top_teacher, self.width),
            (&mut self.top_student, self.width),
            (&mut self.top_old, self.width),
            (&mut self.teacher_entropy, 1),
        ]
    }

    /// Micro-batches of so many rows each.
    pub fn split(&self, rows: &[usize]) -> Vec<Self> {
        let mut token = 0;
        let parts = self.batch.split(rows).into_iter();
        parts
            .map(|batch| {
                let tokens = token..token + batch.logprobs.len();
                token = tokens.end;
                let lines = tokens.start * self.width..tokens.end * self.width;
                Self {
                    batch,
                    teacher_logprobs: self.teacher_logprobs[tokens.clone()].to_vec(),
                    teacher_entropy: self.teacher_entropy[tokens.clone()].to_vec(),
                    teacher_mask: self.teacher_mask[tokens].to_vec(),
                    width: self.width,
                    ids: self.ids[lines.clone()].to_vec(),
                    top_teacher: self.top_teacher[lines.clone()].to_vec(),
                    top_student: self.top_student[lines.clone()].to_vec(),
                    top_old: self.top_old[lines].to_vec(),
                }
            })
            .collect()
    }

    /// As if all log-probabilities had been computed in bf16.
    pub fn in_bf16(&self) -> Self {
        let mut rounded = self.clone();
        let Self { batch, teacher_logprobs, top_teacher, top_student, top_old, .. } = &mut rounded;
        let Batch { logprobs, old, reference, .. } = batch;
        for column in [logprobs, old, reference, teacher_logprobs, top_teacher, top_student, top_old] {
            let low = tensor(column).to_dtype(DType::BF16).unwrap();
            *column = low.to_dtype(DType::F32).unwrap().to_vec1().unwrap();
        }
        rounded
    }

    pub fn tokens(&self) -> (Tokens, Vars) {
        let lines = |values: &[f32]| table(values, self.width);
        let var = |x: &Tensor| Var::from_tensor(x).unwrap();
        let (tokens, logprobs, entropy) = self.batch.tokens();
        let student = var(&lines(&self.top_student));
        let teacher = [
            tensor(&self.teacher_logprobs),
            tensor(&self.teacher_entropy),
            lines(&self.top_teacher),
            lines(&self.top_old),
        ];
        let teacher = teacher.map(|x| var(&x));
        let said = |i: usize| teacher[i].as_tensor().clone();
        let top = TopTokens {
            ids: Tensor::from_slice(&self.ids, (self.ids.len() / self.width, self.width), &Device::Cpu).unwrap(),
            teacher: said(2),
            student: student.as_tensor().clone(),
            old: Some(said(3)),
        };
        let said =
            Teacher { logprobs: said(0), entropy: Some(said(1)), mask: tensor(&self.teacher_mask), top: Some(top) };
        (Tokens { teacher: Some(said), ..tokens }, Vars { logprobs, entropy, student, teacher })
    }
}

pub fn table(values: &[f32], width: usize) -> Tensor {
    Tensor::from_slice(values, (values.len() / width, width), &Device::Cpu).unwrap()
}

pub fn totals(batches: &[Taught]) -> Totals {
    let mut totals = Totals::default();
    for taught in batches {
        let (tokens, Batch { policy_mask, query_mask, .. }) = (taught.tokens().0, &taught.batch);
        totals.add(&tokens.rows, policy_mask, query_mask);
        totals.add_taught(&tokens.rows, policy_mask, query_mask, &taught.teacher_mask);
    }
    totals
}

/// What micro-batches add up to.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub loss: f64,
    pub logprobs_gradient: Vec<f32>,
    pub entropy_gradient: Vec<f32>,
    pub top_gradient: Vec<f32>,
    pub metrics: Metrics,
}

/// Fails where a gradient reaches the teacher or the sampling policy.
pub fn run(objectives: &Objectives, micro_batches: &[Taught]) -> Result<Outcome> {
    let totals = totals(micro_batches);
    let mut outcome = Outcome::default();
    for taught in micro_batches {
        let (tokens, vars) = taught.tokens();
        let terms = objectives.loss(&tokens, &totals)?;
        let gradients = terms.loss.backward()?;
        let of = |var: &Var| match gradients.get(var) {
            Some(gradient) => gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
            None => vec![0.0; var.elem_count()],
        };
        assert!(vars.teacher.iter().all(|var| gradients.get(var).is_none()), "a gradient to the teacher");
        outcome.loss += terms.loss.to_scalar::<f64>()?;
        outcome.logprobs_gradient.extend(of(&vars.logprobs));
        outcome.entropy_gradient.extend(of(&vars.entropy));
        outcome.top_gradient.extend(of(&vars.student));
        outcome.metrics.merge(&terms.metrics);
    }
    Ok(outcome)
}

/// Nothing is on.
pub fn off() -> Objectives {
    let mut objectives = Objectives::default();
    objectives.policy_gradient.weight = 0.0;
    objectives.kl.weight = 0.0;
    objectives.entropy.weight = 0.0;
    objectives
}
