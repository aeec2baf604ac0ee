//! Cases that can be computed by hand.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::{Aggregation, Baseline, Kl, KlEstimator, KlForm, Objectives, Ratio};

use crate::support::{Batch, close, run, tensor};

/// Nothing but the policy gradient, as a mean over tokens.
fn plain() -> Objectives {
    let mut objectives = Objectives::default();
    objectives.kl.weight = 0.0;
    objectives.entropy.weight = 0.0;
    objectives
}

/// A token with this ratio to the old policy.
fn with_ratio(ratio: f32, advantage: f32) -> Batch {
    Batch { old: vec![-1.0 - ratio.ln()], ..Batch::row(&[-1.0], advantage) }
}

#[test]
fn a_batch_used_once_has_ratio_one_and_the_gradient_of_reinforce() {
    let batch = Batch::row(&[-0.3, -7.1, -2.6, -0.01], 1.5);
    for ratio in [Ratio::Token, Ratio::Sequence] {
        let mut objectives = plain();
        objectives.policy_gradient.ratio = ratio;
        let clipped = run(&objectives, std::slice::from_ref(&batch)).unwrap();
        objectives.policy_gradient.ratio = Ratio::None;
        let reinforce = run(&objectives, std::slice::from_ref(&batch)).unwrap();
        assert_eq!(clipped.loss, -1.5);
        assert_eq!(clipped.logprobs_gradient, [-1.5 / 4.0; 4]);
        assert_eq!(clipped.logprobs_gradient, reinforce.logprobs_gradient);
        for (metric, expected) in [
            ("policy/ratio_mean", 1.0),
            ("policy/ratio_max", 1.0),
            ("policy/approx_kl", 0.0),
            ("policy/clip_low_fraction", 0.0),
            ("policy/clip_high_fraction", 0.0),
        ] {
            assert_eq!(clipped.metrics.value(metric), Some(expected), "{metric}");
        }
    }
}

#[test]
fn the_clip_stops_what_went_far_enough_and_nothing_else() {
    // Ratio, advantage, loss, whether there is a gradient.
    for (ratio, advantage, loss, moves) in [
        (1.5, 1.0, -1.2, false),
        (0.5, 1.0, -0.5, true),
        (0.5, -1.0, 0.8, false),
        (1.5, -1.0, 1.5, true),
        (1.1, 1.0, -1.1, true),
        (1.1, 0.0, 0.0, false),
    ] {
        let found = run(&plain(), &[with_ratio(ratio, advantage)]).unwrap();
        assert!(close(found.loss, loss, 1e-6), "ratio {ratio}: {}", found.loss);
        let expected = if moves { -f64::from(advantage) * f64::from(ratio) } else { 0.0 };
        assert!(
            close(found.logprobs_gradient[0].into(), expected, 1e-6),
            "ratio {ratio}: {:?}",
            found.logprobs_gradient
        );
    }
}

#[test]
fn clip_fractions_count_tokens_that_the_clip_stops() {
    let mut batch = Batch::row(&[-1.0; 4], 1.0);
    batch.old = [1.5f32, 1.1, 0.5, 0.5].map(|ratio| -1.0 - ratio.ln()).to_vec();
    batch.advantages = vec![1.0, 1.0, 1.0, -1.0];
    let metrics = run(&plain(), &[batch]).unwrap().metrics;
    assert_eq!(metrics.value("policy/clip_high_fraction"), Some(0.25));
    assert_eq!(metrics.value("policy/clip_low_fraction"), Some(0.25));
}

#[test]
fn dual_clip_bounds_the_loss_of_bad_rollouts_alone() {
    let mut objectives = plain();
    objectives.policy_gradient.dual_clip = Some(3.0);
    let bad = run(&objectives, &[with_ratio(50.0, -1.0)]).unwrap();
    assert_eq!((bad.loss, bad.logprobs_gradient), (3.0, vec![0.0]));
    assert_eq!(bad.metrics.value("policy/dual_clip_fraction"), Some(1.0));
    let good = run(&objectives, &[with_ratio(0.5, 1.0)]).unwrap();
    assert!(close(good.loss, -0.5, 1e-6));
    assert_eq!(good.metrics.value("policy/dual_clip_fraction"), Some(0.0));
}

#[test]
fn a_group_without_contrast_moves_nothing() {
    for baseline in [Baseline::Group, Baseline::LeaveOneOut, Baseline::Batch] {
        let mut objectives = plain();
        objectives.advantage.baseline = baseline;
        let advantages = objectives.advantage.of(&[vec![0.1; 5]]);
        let batch = Batch::row(&[-1.0, -2.0, -3.0], advantages[0][0] as f32);
        let outcome = run(&objectives, &[batch]).unwrap();
        assert_eq!((outcome.loss, outcome.logprobs_gradient), (0.0, vec![0.0; 3]), "{baseline:?}");
    }
}

#[test]
fn divergences_are_zero_where_policies_agree_and_k2_and_k3_never_negative() {
    for estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3] {
        let mut objectives = plain();
        objectives.policy_gradient.weight = 0.0;
        objectives.kl = Kl { weight: 1.0, estimator, ..Kl::default() };
        let same = run(&objectives, &[Batch::row(&[-1.0, -20.0, -0.1], 1.0)]).unwrap();
        assert_eq!(same.loss, 0.0, "{estimator:?}");
        if estimator == KlEstimator::K1 {
            continue;
        }
        assert_eq!(same.logprobs_gradient, [0.0; 3], "{estimator:?}");
        for difference in [-900.0, -30.0, -2.0, -0.1, -1e-4, -1e-7, 1e-7, 1e-4, 0.1, 2.0, 30.0, 900.0f32] {
            let batch = Batch { reference: vec![-1.0 + difference], ..Batch::row(&[-1.0], 1.0) };
            let outcome = run(&objectives, &[batch]).unwrap();
            assert!(outcome.loss >= 0.0, "{estimator:?} {difference}: {}", outcome.loss);
            assert!(estimator == KlEstimator::K2 || outcome.loss <= 10.0, "{difference}: {}", outcome.loss);
            assert!(outcome.logprobs_gradient[0].is_finite(), "{estimator:?} {difference}");
        }
    }
}

#[test]
fn a_divergence_in_the_reward_is_not_in_the_loss() {
    let batch = Batch { reference: vec![-1.5, -2.5], ..Batch::row(&[-1.0, -2.0], 1.0) };
    let mut objectives = plain();
    let without = run(&objectives, std::slice::from_ref(&batch)).unwrap().loss;
    objectives.kl = Kl { weight: 0.1, estimator: KlEstimator::K1, form: KlForm::Reward, ..Kl::default() };
    assert!(objectives.needs_reference());
    assert_eq!(run(&objectives, std::slice::from_ref(&batch)).unwrap().loss, without);
    let penalties = |kl: Kl| {
        kl.penalties(&[0..2, 2..2], &tensor(&batch.logprobs), &tensor(&batch.reference), &tensor(&[1.0, 0.0])).unwrap()
    };
    assert_eq!(penalties(objectives.kl), [0.05, 0.0]);
    assert_eq!(penalties(Kl { form: KlForm::Loss, ..objectives.kl }), [0.0, 0.0]);
}

#[test]
fn each_way_of_averaging_by_hand() {
    let mut batch = Batch::row(&[-1.0; 5], 1.0);
    (batch.rows, batch.policy_mask) = (vec![3, 2], vec![1.0, 1.0, 1.0, 0.0, 1.0]);
    for (aggregation, weights) in [
        (Aggregation::TokenMean, [0.25, 0.25, 0.25, 0.0, 0.25]),
        (Aggregation::SeqMeanTokenMean, [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 0.0, 0.5]),
        (Aggregation::SeqMeanTokenSum, [0.5, 0.5, 0.5, 0.0, 0.5]),
        (Aggregation::FixedLength(10.0), [0.05, 0.05, 0.05, 0.0, 0.05]),
    ] {
        let objectives = Objectives { aggregation, ..plain() };
        let found = run(&objectives, std::slice::from_ref(&batch)).unwrap().logprobs_gradient;
        assert_eq!(found, weights.map(|weight: f32| -weight), "{aggregation:?}");
    }
}
