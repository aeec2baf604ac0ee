//! Cases that can be computed by hand.
#![allow(clippy::unwrap_used)]

use std::f64::consts::LN_2;

use hindsearch_trainer::{Aggregation, Distance, ModulationForm, Objectives, Side, Support, Tail};
use proptest::prelude::*;

use super::support::{Taught, off, run};
use crate::support::close;

const DISTANCES: [Distance; 4] = [Distance::Jsd, Distance::ForwardKl, Distance::ReverseKl, Distance::Mse];

fn distillation() -> Objectives {
    let mut objectives = off();
    objectives.hindsight.distillation.weight = 1.0;
    objectives
}

fn divergence(distance: Distance, tail: Tail) -> Objectives {
    let mut objectives = off();
    objectives.hindsight.divergence.weight = 1.0;
    objectives.hindsight.divergence.distance = distance;
    objectives.hindsight.divergence.tail = tail;
    objectives
}

fn surrogate() -> Objectives {
    let mut objectives = off();
    objectives.hindsight.surrogate.weight = 1.0;
    objectives
}

fn logs(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

fn all_close(found: &[f32], expected: &[f32]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| close((*a).into(), (*b).into(), 1e-5))
}

#[test]
fn a_teacher_that_says_what_the_student_does_teaches_nothing() {
    let lines = [logs(&[0.5, 0.2, 0.1, 0.1]), logs(&[0.97, 1e-3, 1e-4, 1e-5]), logs(&[0.25; 4])];
    let same = Taught::row(&lines, &lines);
    let mut choices = vec![distillation(), surrogate()];
    for tail in [Tail::Bucket, Tail::Renormalise] {
        choices.extend(DISTANCES.map(|distance| divergence(distance, tail)));
    }
    for objectives in choices {
        let outcome = run(&objectives, std::slice::from_ref(&same)).unwrap();
        assert!(outcome.loss.abs() < 1e-14, "{:?}: {}", objectives.hindsight, outcome.loss);
        let gradients = outcome.logprobs_gradient.iter().chain(&outcome.top_gradient);
        assert!(gradients.copied().all(|x| x.abs() < 1e-12), "{:?}: {outcome:?}", objectives.hindsight);
    }
    let exactly = run(&divergence(Distance::Jsd, Tail::Bucket), std::slice::from_ref(&same)).unwrap();
    assert_eq!((exactly.loss, exactly.top_gradient), (0.0, vec![0.0; 12]));

    let mut plain = off();
    plain.policy_gradient.weight = 1.0;
    for form in [ModulationForm::Tanh, ModulationForm::Ratio] {
        let mut modulated = plain;
        modulated.hindsight.modulation.weight = 0.5;
        modulated.hindsight.modulation.form = form;
        let [modulated, plain] = [modulated, plain].map(|choice| run(&choice, std::slice::from_ref(&same)).unwrap());
        assert_eq!((modulated.loss, modulated.logprobs_gradient), (plain.loss, plain.logprobs_gradient), "{form:?}");
    }
}

/// Gaps of 0.5, -0.25, 2 and -0.25.
fn four_tokens() -> Taught {
    Taught::sampled(&[-1.5, -1.25, -1.0, -0.75], &[-2.0, -1.0, -3.0, -0.5])
}

#[test]
fn distillation_pulls_up_what_the_teacher_likes_better_and_nothing_more_than_the_clamp() {
    let outcome = run(&distillation(), &[four_tokens()]).unwrap();
    // Minus 0.5 times -2, minus 1 times -3, over four tokens.
    assert_eq!(outcome.loss, 1.0);
    assert_eq!(outcome.logprobs_gradient, [-0.125, 0.0, -0.25, 0.0]);
    assert_eq!(outcome.metrics.value("hindsight/clamp_saturation"), Some(0.25));
    assert_eq!(outcome.metrics.value("hindsight/gap_mean"), Some(0.5));
    assert_eq!(outcome.metrics.value("loss/distillation"), Some(1.0));
}

#[test]
fn a_weight_with_a_gradient_pulls_rare_tokens_more_until_the_clamp() {
    let mut objectives = distillation();
    objectives.hindsight.distillation.detach = false;
    let outcome = run(&objectives, &[four_tokens()]).unwrap();
    assert_eq!(outcome.loss, 1.0);
    // -w plus the log-probability, then -1 at the clamp.
    assert_eq!(outcome.logprobs_gradient, [(-0.5 - 2.0) / 4.0, 0.0, -0.25, 0.0]);
}

#[test]
fn a_mean_over_tokens_or_over_trajectories_that_are_taught() {
    let mut taught = four_tokens();
    // The second row has no query, the teacher does not speak of the third, and the fourth has one taught token.
    taught.batch.rows = vec![1, 1, 1, 1];
    taught.batch.query_mask[1] = 0.0;
    taught.teacher_mask[2] = 0.0;
    let outcome = run(&distillation(), std::slice::from_ref(&taught)).unwrap();
    assert_eq!((outcome.loss, outcome.logprobs_gradient), (0.5, vec![-0.25, 0.0, 0.0, 0.0]));
    for (metric, expected) in [("query_share", 0.75), ("taught_share", 0.5), ("clamp_saturation", 0.0)] {
        assert_eq!(outcome.metrics.value(&format!("hindsight/{metric}")), Some(expected), "{metric}");
    }
    let mut objectives = distillation();
    objectives.hindsight.distillation.aggregation = Aggregation::SeqMeanTokenMean;
    taught = four_tokens();
    taught.batch.rows = vec![3, 1];
    let outcome = run(&objectives, &[taught]).unwrap();
    assert!(all_close(&outcome.logprobs_gradient, &[-0.5 / 6.0, 0.0, -1.0 / 6.0, 0.0]), "{outcome:?}");
}

#[test]
fn a_schedule_scales_what_a_teacher_says() {
    let mut objectives = distillation();
    objectives.hindsight = objectives.hindsight.scaled(0.25);
    assert_eq!(run(&objectives, &[four_tokens()]).unwrap().loss, 0.25);
}

#[test]
fn divergences_of_two_bins_by_hand() {
    let taught = Taught::row(&[logs(&[0.6])], &[logs(&[0.2])]);
    for (distance, expected) in [
        (Distance::Jsd, 0.086_304),
        (Distance::ForwardKl, 0.381_908),
        (Distance::ReverseKl, 0.334_795),
        (Distance::Mse, 0.16),
    ] {
        let outcome = run(&divergence(distance, Tail::Bucket), std::slice::from_ref(&taught)).unwrap();
        assert!(close(outcome.loss, expected, 1e-5), "{distance:?}: {}", outcome.loss);
        assert_eq!(outcome.metrics.value("hindsight/divergence_max"), Some(outcome.loss));
        // Alone it is certain on both sides.
        let alone = run(&divergence(distance, Tail::Renormalise), std::slice::from_ref(&taught)).unwrap();
        assert_eq!(alone.loss, 0.0, "{distance:?}");
    }
    // 0.6 ln 3: nothing makes up for what is not there.
    let dropped = run(&divergence(Distance::ForwardKl, Tail::Drop), &[taught]).unwrap();
    assert!(close(dropped.loss, 0.659_167, 1e-5), "{}", dropped.loss);
}

#[test]
fn divergences_stay_finite_and_bounded_where_probabilities_are_next_to_nothing() {
    let (sure, elsewhere) = (vec![-1e-9, -80.0], vec![-80.0, -1e-9]);
    for distance in DISTANCES {
        for tail in [Tail::Bucket, Tail::Renormalise, Tail::Drop] {
            let taught = Taught::row(std::slice::from_ref(&sure), std::slice::from_ref(&elsewhere));
            let outcome = run(&divergence(distance, tail), &[taught]).unwrap();
            assert!(outcome.loss.is_finite() && outcome.top_gradient.iter().all(|x| x.is_finite()), "{outcome:?}");
            assert!(distance != Distance::Jsd || close(outcome.loss, LN_2, 1e-6), "{tail:?}: {}", outcome.loss);
        }
    }
}

/// With all logits of the rest as one, the gradient of a logit is that of KL(T || S) over two tokens: what the student has less
/// what the teacher has.
#[test]
fn a_student_that_is_sure_is_still_drawn_to_what_is_not_there() {
    for student in [0.9f32, 0.999, 0.999_999, 0.999_999_9] {
        let taught = Taught::row(&[logs(&[0.6])], &[logs(&[student])]);
        let outcome = run(&divergence(Distance::ForwardKl, Tail::Bucket), &[taught]).unwrap();
        let (rest, slope) = (1.0 - f64::from(student), f64::from(outcome.top_gradient[0]));
        // Under a remainder of 1e-6 the pull fades, and never turns around.
        let expected = (f64::from(student) - 0.6) * (rest / 1e-6).min(1.0);
        let found = slope * rest;
        assert!((found - expected).abs() < 0.02, "{student}: {found} instead of {expected}");
    }
}

fn distribution() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-6.0f64..6.0, 8).prop_map(|logits| {
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| (x - sum.ln()) as f32).collect()
    })
}

proptest! {
    #[test]
    fn jsd_is_symmetric_and_bounded_and_a_bucket_never_adds(teacher in distribution(), student in distribution()) {
        let jsd = |a: &[f32], b: &[f32]| {
            run(&divergence(Distance::Jsd, Tail::Bucket), &[Taught::row(&[a.to_vec()], &[b.to_vec()])]).unwrap().loss
        };
        let (whole, swapped) = (jsd(&teacher, &student), jsd(&student, &teacher));
        prop_assert!((-1e-9..=LN_2 + 1e-6).contains(&whole), "{whole}");
        prop_assert!((whole - swapped).abs() < 1e-12, "{whole} and {swapped}");
        let mut before = 0.0;
        for k in 1..8 {
            let some = jsd(&teacher[..k], &student[..k]);
            prop_assert!(some >= before - 1e-6 && some <= whole + 1e-6, "{k} of 8: {some} after {before}, of {whole}");
            before = some;
        }
    }
}

/// Shares of 2/3 and 1/3; gaps of 0.5 and, clamped, -1. So the advantages are 1/3 and -1/3.
fn two_tokens(student: &[f32]) -> Taught {
    let old = logs(&[0.4, 0.2]);
    let mut taught = Taught::row(&[vec![old[0] + 0.5, old[1] - 3.0]], &[logs(student)]);
    taught.top_old = old;
    taught
}

#[test]
fn the_surrogate_of_a_batch_used_once_has_minus_the_advantages_as_gradient() {
    let outcome = run(&surrogate(), &[two_tokens(&[0.4, 0.2])]).unwrap();
    assert!(outcome.loss.abs() < 1e-6, "{}", outcome.loss);
    assert!(all_close(&outcome.top_gradient, &[-1.0 / 3.0, 1.0 / 3.0]), "{:?}", outcome.top_gradient);
    assert_eq!(outcome.logprobs_gradient, [0.0]);
}

#[test]
fn the_surrogate_stops_where_its_clip_says() {
    // Ratios of 1.5 over 1.28 with a good advantage, and of 0.5 under 0.8 with a bad one.
    let outcome = run(&surrogate(), &[two_tokens(&[0.6, 0.1])]).unwrap();
    assert!(close(outcome.loss, (0.8 - 1.28) / 3.0, 1e-5), "{}", outcome.loss);
    assert_eq!(outcome.top_gradient, [0.0, 0.0]);
    // The other way nothing stops it.
    let outcome = run(&surrogate(), &[two_tokens(&[0.2, 0.3])]).unwrap();
    assert!(all_close(&outcome.top_gradient, &[-0.5 / 3.0, 1.5 / 3.0]), "{:?}", outcome.top_gradient);
}

/// The advantage that a token is left with.
fn modulated(form: ModulationForm, weight: f64, advantage: f32, gap: f32) -> f64 {
    let mut objectives = off();
    objectives.policy_gradient.weight = 1.0;
    objectives.hindsight.modulation.form = form;
    objectives.hindsight.modulation.weight = weight;
    let mut taught = Taught::sampled(&[gap - 1.0], &[-1.0]);
    taught.batch.advantages = vec![advantage];
    -run(&objectives, &[taught]).unwrap().loss
}

#[test]
fn modulation_by_hand() {
    let tanh = 0.5f64.tanh();
    for (advantage, gap, expected) in
        [(1.0, 0.1, 1.0 + 0.2 * tanh), (-1.0, 0.1, -1.0 + 0.2 * tanh), (2.0, -0.1, 2.0 - 0.4 * tanh), (0.0, 9.0, 0.0)]
    {
        let found = modulated(ModulationForm::Tanh, 0.2, advantage, gap);
        assert!(close(found, expected, 1e-5), "advantage {advantage}, gap {gap}: {found}");
    }
    let gap = 1.1f32.ln();
    for (advantage, gap, expected) in
        [(1.0, gap, 1.05), (-1.0, gap, -0.5 - 0.5 / 1.1), (1.0, 900.0, 1.1), (-2.0, 900.0, -1.8)]
    {
        let found = modulated(ModulationForm::Ratio, 0.5, advantage, gap);
        assert!(close(found, expected, 1e-5), "advantage {advantage}, gap {gap}: {found}");
    }
}

#[test]
fn modulation_never_turns_an_advantage_around() {
    for form in [ModulationForm::Tanh, ModulationForm::Ratio] {
        for gap in [-50.0, -1.0, -0.01, 0.01, 1.0, 50.0] {
            assert!(modulated(form, 1.0, 1.0, gap) >= 0.0 && modulated(form, 1.0, -1.0, gap) <= 0.0, "{form:?}, {gap}");
        }
    }
}

#[test]
fn tokens_that_both_sides_share_may_be_few() {
    let mut taught = Taught::row(&[logs(&[0.6, 0.3])], &[logs(&[0.2, 0.3])]);
    taught.ids[1] = hindsearch_trainer::NO_TOKEN;
    let mut objectives = divergence(Distance::Jsd, Tail::Bucket);
    objectives.hindsight.divergence.support = Support { k: 2, side: Side::Overlap };
    let outcome = run(&objectives, &[taught]).unwrap();
    assert!(close(outcome.loss, 0.086_304, 1e-5), "{}", outcome.loss);
    assert_eq!(outcome.top_gradient[1], 0.0);
}
