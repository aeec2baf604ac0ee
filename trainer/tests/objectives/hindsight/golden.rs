//! Values, gradients and metrics against PyTorch's, and how much of them bf16 leaves.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::NO_TOKEN;

use super::support::{Case, GOLDEN, Outcome, Taught, run};
use crate::support::close;

#[test]
fn every_signal_equals_pytorch_in_value_gradient_and_metrics() {
    for case in &GOLDEN.cases {
        let name = &case.name;
        let outcome = run(&case.settings, &GOLDEN.batches[&case.batch].split(&GOLDEN.split)).unwrap();
        assert!(close(outcome.loss, case.loss, 1e-5), "{name}: loss {}, torch {}", outcome.loss, case.loss);
        for (what, found, expected) in [
            ("logprobs", &outcome.logprobs_gradient, &case.logprobs_gradient),
            ("entropy", &outcome.entropy_gradient, &case.entropy_gradient),
            ("top tokens", &outcome.top_gradient, &case.top_gradient),
        ] {
            assert_eq!(found.len(), expected.len(), "{name}: {what}");
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                let same = close((*found).into(), (*expected).into(), 1e-3);
                assert!(same, "{name}: gradient of {what} at {i} is {found}, torch {expected}");
            }
        }
        for (metric, expected) in &case.metrics {
            let found = outcome.metrics.value(metric).unwrap();
            assert!(close(found, *expected, 1e-5), "{name}: {metric} is {found}, torch {expected}");
        }
    }
}

/// bf16 keeps 8 bits: a log-probability of -5 is off by up to 0.016, so the ratio of two probabilities by 1.6 %. Gradients are
/// compared as those of logits: in those of log-probabilities alone stands what a softmax takes away again.
#[test]
fn log_probabilities_rounded_to_bf16_change_losses_and_gradients_by_at_most_two_percent() {
    for Case { name, batch, settings, .. } in &GOLDEN.cases {
        let batch = &GOLDEN.batches[batch];
        let exact = run(settings, std::slice::from_ref(batch)).unwrap();
        let rounded = run(settings, &[batch.in_bf16()]).unwrap();
        let error = (rounded.loss - exact.loss).abs();
        assert!(error <= 0.02 * exact.loss.abs() + 1e-3, "{name}: {} instead of {}", rounded.loss, exact.loss);
        let (exact, rounded) = (to_logits(batch, &exact), to_logits(batch, &rounded));
        let difference: Vec<f64> = exact.iter().zip(&rounded).map(|(a, b)| a - b).collect();
        assert!(norm(&difference) <= 0.02 * norm(&exact), "{name}: {} of {}", norm(&difference), norm(&exact));
    }
}

/// The gradient of the sampled tokens' log-probabilities, and that of the top tokens' logits.
fn to_logits(taught: &Taught, outcome: &Outcome) -> Vec<f64> {
    let mut gradient: Vec<f64> = outcome.logprobs_gradient.iter().map(|x| f64::from(*x)).collect();
    for line in 0..taught.ids.len() / taught.width {
        let there: Vec<usize> =
            (line * taught.width..(line + 1) * taught.width).filter(|place| taught.ids[*place] != NO_TOKEN).collect();
        let sum: f64 = there.iter().map(|place| f64::from(outcome.top_gradient[*place])).sum();
        let of =
            |place: &usize| f64::from(outcome.top_gradient[*place]) - f64::from(taught.top_student[*place]).exp() * sum;
        gradient.extend(there.iter().map(of));
    }
    gradient
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}
