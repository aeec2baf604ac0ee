//! Values and gradients against PyTorch's, for every choice there is.
#![allow(clippy::unwrap_used)]

use crate::support::{GOLDEN, close, run, tensor};

#[test]
fn every_choice_equals_pytorch_in_value_gradient_and_metrics() {
    for case in &GOLDEN.cases {
        let name = &case.name;
        let outcome = run(&case.settings, &GOLDEN.batches[&case.batch].split(&case.split)).unwrap();
        assert!(close(outcome.loss, case.loss, 1e-9), "{name}: loss {}, torch {}", outcome.loss, case.loss);
        for (what, found, expected) in [
            ("logprobs", &outcome.logprobs_gradient, &case.logprobs_gradient),
            ("entropy", &outcome.entropy_gradient, &case.entropy_gradient),
        ] {
            assert_eq!(found.len(), expected.len());
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                let same = close((*found).into(), (*expected).into(), 1e-6);
                assert!(same, "{name}: gradient of {what} at {i} is {found}, torch {expected}");
            }
        }
        for (metric, expected) in &case.metrics {
            let found = outcome.metrics.value(metric).unwrap();
            assert!(close(found, *expected, 1e-9), "{name}: {metric} is {found}, torch {expected}");
        }
    }
}

#[test]
fn advantages_equal_pytorch() {
    for case in &GOLDEN.advantages {
        let found = case.settings.of(&case.groups);
        assert_eq!(found.len(), case.expected.len());
        for (found, expected) in found.concat().into_iter().zip(case.expected.concat()) {
            assert!(close(found, expected, 1e-9), "{:?}: {found}, torch {expected}", case.settings);
        }
    }
}

#[test]
fn penalties_of_the_reward_equal_pytorch() {
    for case in &GOLDEN.penalties {
        let batch = &GOLDEN.batches[&case.batch];
        let (old, reference) = (tensor(&batch.old), tensor(&batch.reference));
        let found = case.kl.penalties(&batch.tokens().0.rows, &old, &reference, &tensor(&batch.policy_mask)).unwrap();
        assert_eq!(found.len(), case.expected.len());
        for (found, expected) in found.into_iter().zip(&case.expected) {
            assert!(close(found, *expected, 1e-9), "{:?}: {found}, torch {expected}", case.kl);
        }
    }
}
