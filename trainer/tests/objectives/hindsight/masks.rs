//! What is not taught has no part; what is taught cannot hide; the split changes nothing.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::{Hindsight, NO_TOKEN, Objectives, Scope, TokenScope};

use super::support::{Case, GOLDEN, Taught, run};
use crate::support::{Batch, close};

const GARBAGE: [f32; 5] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];

/// The widest scope of what is on.
fn scope(settings: &Objectives) -> TokenScope {
    let Hindsight { distillation, divergence, surrogate, modulation } = settings.hindsight;
    let scopes = [distillation.scope, divergence.scope, surrogate.scope, modulation.scope];
    if scopes.contains(&TokenScope::Policy) { TokenScope::Policy } else { TokenScope::Query }
}

/// Cases where nothing but hindsight is on.
fn alone() -> impl Iterator<Item = &'static Case> {
    GOLDEN.cases.iter().filter(|case| case.settings.policy_gradient.weight == 0.0)
}

#[test]
fn tokens_that_are_not_taught_have_no_part_whatever_they_hold() {
    for Case { name, batch, settings, .. } in &GOLDEN.cases {
        let clean = &GOLDEN.batches[batch];
        let taught = clean.taught(scope(settings));
        let expected = run(settings, &clean.split(&GOLDEN.split)).unwrap();
        for garbage in GARBAGE {
            let mut dirty = clean.clone();
            let ids = dirty.ids.clone();
            for (column, width) in dirty.columns() {
                for (place, value) in column.iter_mut().enumerate() {
                    if !taught[place / width] || (width > 1 && ids[place] == NO_TOKEN) {
                        *value = garbage;
                    }
                }
            }
            let policy_mask = dirty.batch.policy_mask.clone();
            for column in dirty.batch.columns() {
                column.iter_mut().zip(&policy_mask).filter(|(_, m)| **m == 0.0).for_each(|(value, _)| *value = garbage);
            }
            assert_eq!(run(settings, &dirty.split(&GOLDEN.split)).unwrap(), expected, "{name} with {garbage}");
        }
    }
}

#[test]
fn tokens_that_are_not_taught_have_no_gradient() {
    for Case { name, batch, settings, .. } in alone() {
        let batch = &GOLDEN.batches[batch];
        let outcome = run(settings, std::slice::from_ref(batch)).unwrap();
        for (token, _) in batch.taught(scope(settings)).iter().enumerate().filter(|(_, taught)| !**taught) {
            assert_eq!(outcome.logprobs_gradient[token], 0.0, "{name} at {token}");
            let line = token * batch.width..(token + 1) * batch.width;
            assert!(outcome.top_gradient[line].iter().all(|x| *x == 0.0), "{name} at {token}");
        }
    }
}

#[test]
fn nothing_taught_gives_exactly_nothing() {
    for Case { name, batch, settings, .. } in alone() {
        let all = &GOLDEN.batches[batch];
        let mut silent = all.clone();
        silent.teacher_mask.fill(0.0);
        silent.columns().into_iter().for_each(|(column, _)| column.fill(f32::NAN));
        let mut unwritten = all.clone();
        unwritten.batch.policy_mask.fill(0.0);
        let empty = Taught { batch: Batch { rows: vec![0, 0], ..Batch::default() }, ..all.split(&[0]).remove(0) };
        for taught in [&silent, &unwritten, &empty] {
            let outcome = run(settings, std::slice::from_ref(taught)).unwrap();
            assert_eq!(outcome.loss, 0.0, "{name}");
            assert!(outcome.logprobs_gradient.iter().chain(&outcome.top_gradient).all(|x| *x == 0.0), "{name}");
            assert!(outcome.metrics.iter().all(|(_, value)| value.is_finite()), "{name}: {:?}", outcome.metrics);
        }
    }
}

#[test]
fn a_taught_number_that_is_not_finite_makes_the_loss_nan() {
    for Case { name, batch, settings, .. } in &GOLDEN.cases {
        let Hindsight { distillation, divergence, surrogate, modulation } = settings.hindsight;
        let of_top = divergence.weight != 0.0 || surrogate.weight != 0.0;
        let of_sampled = distillation.weight != 0.0 || modulation.weight != 0.0;
        let uses = [of_sampled, of_top, of_top, surrogate.weight != 0.0];
        let clean = &GOLDEN.batches[batch];
        let token = clean.taught(TokenScope::Query).iter().position(|taught| *taught).unwrap();
        for (column, _) in uses.iter().enumerate().filter(|(_, used)| **used) {
            for garbage in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut dirty = clean.clone();
                let (values, width) = &mut dirty.columns()[column];
                values[token * *width] = garbage;
                let loss = run(settings, &[dirty]).unwrap().loss;
                assert!(loss.is_nan(), "{name}: {garbage} in column {column} gives {loss}");
            }
        }
    }
}

#[test]
fn any_split_gives_the_same_loss_gradients_and_metrics() {
    for Case { name, batch, settings, .. } in GOLDEN.cases.iter().filter(|case| case.settings.scope == Scope::Global) {
        let batch = &GOLDEN.batches[batch];
        let whole = run(settings, std::slice::from_ref(batch)).unwrap();
        for split in [&[1; 7][..], &[3, 1, 3], &[0, 6, 1], &[2, 5]] {
            let parts = run(settings, &batch.split(split)).unwrap();
            assert!(close(parts.loss, whole.loss, 1e-9), "{name}, {split:?}: {} and {}", parts.loss, whole.loss);
            // To the last bit: a token's weight is counted over the whole batch before anything is computed.
            assert_eq!(parts.logprobs_gradient, whole.logprobs_gradient, "{name}, {split:?}");
            assert_eq!(parts.top_gradient, whole.top_gradient, "{name}, {split:?}");
            assert_eq!(parts.metrics.iter().count(), whole.metrics.iter().count(), "{name}, {split:?}");
            for (metric, value) in whole.metrics.iter() {
                assert!(close(parts.metrics.value(metric).unwrap(), value, 1e-9), "{name}, {split:?}: {metric}");
            }
        }
    }
}
