//! What is masked has no part; what is needed cannot hide.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::{KlForm, Objectives, Ratio, Supervised};

use crate::support::{Batch, GOLDEN, run};

#[test]
fn masked_tokens_have_no_part_whatever_they_hold() {
    for case in &GOLDEN.cases {
        let clean = &GOLDEN.batches[&case.batch];
        let expected = run(&case.settings, &clean.split(&case.split)).unwrap();
        for garbage in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
            let mut batch = clean.clone();
            let mask = batch.policy_mask.clone();
            for column in batch.columns() {
                column.iter_mut().zip(&mask).filter(|(_, m)| **m == 0.0).for_each(|(value, _)| *value = garbage);
            }
            let found = run(&case.settings, &batch.split(&case.split)).unwrap();
            assert_eq!(found.loss, expected.loss, "{} with {garbage}", case.name);
            assert_eq!(found.logprobs_gradient, expected.logprobs_gradient, "{} with {garbage}", case.name);
            assert_eq!(found.entropy_gradient, expected.entropy_gradient, "{} with {garbage}", case.name);
            assert_eq!(found.metrics, expected.metrics, "{} with {garbage}", case.name);
            for (i, _) in mask.iter().enumerate().filter(|(_, m)| **m == 0.0) {
                assert_eq!((found.logprobs_gradient[i], found.entropy_gradient[i]), (0.0, 0.0), "{} at {i}", case.name);
            }
        }
    }
}

#[test]
fn nothing_needed_gives_exactly_nothing() {
    let mut masked = Batch::row(&[-1.0, -2.0, f32::NAN], f32::NAN);
    masked.policy_mask = vec![0.0; 3];
    let empty_rows = Batch { rows: vec![0, 0], ..Batch::default() };
    for case in &GOLDEN.cases {
        for batch in [&masked, &empty_rows, &Batch::default()] {
            let outcome = run(&case.settings, std::slice::from_ref(batch)).unwrap();
            assert_eq!(outcome.loss, 0.0, "{}", case.name);
            assert_eq!(outcome.logprobs_gradient, vec![0.0; batch.logprobs.len()], "{}", case.name);
            assert_eq!(outcome.entropy_gradient, vec![0.0; batch.logprobs.len()], "{}", case.name);
            assert!(outcome.metrics.iter().all(|(_, value)| value == 0.0), "{}: {:?}", case.name, outcome.metrics);
        }
    }
}

#[test]
fn with_every_term_off_the_loss_is_zero_and_still_has_a_gradient() {
    let mut off = Objectives::named("rloo").unwrap();
    off.policy_gradient.weight = 0.0;
    let outcome = run(&off, &[Batch::row(&[-1.0, -2.0], 1.0)]).unwrap();
    assert_eq!((outcome.loss, outcome.logprobs_gradient), (0.0, vec![0.0, 0.0]));
}

#[test]
fn a_needed_number_that_is_not_finite_makes_the_loss_nan() {
    for case in &GOLDEN.cases {
        let settings = &case.settings;
        let clean = Batch::row(&[-1.0, -2.0, -0.5], -1.0);
        let uses = [
            true,
            settings.needs_entropy(),
            settings.policy_gradient.weight != 0.0 && settings.policy_gradient.ratio != Ratio::None,
            settings.kl.weight != 0.0 && settings.kl.form == KlForm::Loss,
            settings.policy_gradient.weight != 0.0,
        ];
        for (column, _) in uses.iter().enumerate().filter(|(_, used)| **used) {
            for garbage in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut batch = clean.clone();
                batch.columns()[column][1] = garbage;
                let loss = run(settings, &[batch]).unwrap().loss;
                assert!(loss.is_nan(), "{}: {garbage} in column {column} gives {loss}", case.name);
            }
        }
    }
}

#[test]
fn a_nan_stays_in_the_metrics() {
    let mut batch = Batch::row(&[-1.0, -2.0], 1.0);
    batch.old[0] = f32::NAN;
    let metrics = run(&Objectives::default(), &[batch, Batch::row(&[-1.0], 1.0)]).unwrap().metrics;
    for name in ["loss", "policy/ratio_mean", "policy/ratio_max", "policy/approx_kl"] {
        assert!(metrics.value(name).unwrap().is_nan(), "{name}");
    }
}

#[test]
fn imitation_needs_no_advantage() {
    let mut settings = Objectives { supervised: Supervised { weight: 1.0 }, ..Objectives::named("rloo").unwrap() };
    settings.policy_gradient.weight = 0.0;
    let outcome = run(&settings, &[Batch::row(&[-1.0, -2.0], f32::NAN)]).unwrap();
    assert_eq!((outcome.loss, outcome.logprobs_gradient), (3.0, vec![-1.0, -1.0]));
}
