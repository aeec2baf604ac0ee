//! How a batch is split into micro-batches changes nothing.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::{Aggregation, Objectives, Ratio, Scope};
use proptest::prelude::*;

use crate::support::{Batch, close, run};

const SPLITS: [&[usize]; 5] = [&[8], &[4, 4], &[2, 2, 2, 2], &[1; 8], &[3, 0, 5]];

fn token() -> impl Strategy<Value = ([f32; 4], bool, bool)> {
    let numbers = (-5.0f32..-0.01, 0.0f32..3.0, -1.0f32..1.0, -3.0f32..3.0);
    (numbers, any::<bool>(), any::<bool>()).prop_map(|((logprob, entropy, old, reference), policy, query)| {
        ([logprob, entropy, logprob + old, logprob + reference], policy, policy && query)
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    prop::collection::vec((prop::collection::vec(token(), 0..7), -2.0f32..2.0), 8).prop_map(|rows| {
        let mut batch = Batch { rows: rows.iter().map(|(tokens, _)| tokens.len()).collect(), ..Batch::default() };
        for (tokens, advantage) in rows {
            for (numbers, policy, query) in tokens {
                batch.columns()[..4].iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
                batch.advantages.push(advantage);
                batch.policy_mask.push(policy.into());
                batch.query_mask.push(query.into());
            }
        }
        batch
    })
}

fn objectives() -> impl Strategy<Value = Objectives> {
    let aggregation = prop_oneof![
        Just(Aggregation::TokenMean),
        Just(Aggregation::SeqMeanTokenMean),
        Just(Aggregation::SeqMeanTokenSum),
        Just(Aggregation::FixedLength(100.0)),
    ];
    let ratio = prop_oneof![Just(Ratio::Token), Just(Ratio::Sequence), Just(Ratio::None)];
    (aggregation, ratio, prop::option::of(1.1f64..4.0)).prop_map(|(aggregation, ratio, dual_clip)| {
        let mut objectives = Objectives { aggregation, ..Objectives::default() };
        objectives.policy_gradient.ratio = ratio;
        objectives.policy_gradient.dual_clip = dual_clip;
        objectives.kl.weight = 0.1;
        objectives.entropy.weight = 0.1;
        objectives.supervised.weight = 0.1;
        objectives
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_loss_gradients_and_metrics(batch in batch(), objectives in objectives()) {
        let whole = run(&objectives, std::slice::from_ref(&batch)).unwrap();
        for split in SPLITS {
            let parts = run(&objectives, &batch.split(split)).unwrap();
            prop_assert!(close(parts.loss, whole.loss, 1e-6), "{split:?}: {} and {}", parts.loss, whole.loss);
            // To the last bit: a token's weight is counted over the whole batch before anything is computed.
            prop_assert_eq!(&parts.logprobs_gradient, &whole.logprobs_gradient);
            prop_assert_eq!(&parts.entropy_gradient, &whole.entropy_gradient);
            prop_assert_eq!(parts.metrics.iter().count(), whole.metrics.iter().count());
            for (name, value) in whole.metrics.iter() {
                prop_assert!(close(parts.metrics.value(name).unwrap(), value, 1e-6), "{name}");
            }
        }
    }
}

#[test]
fn means_over_micro_batches_weigh_tokens_of_short_ones_more() {
    let mut batch = Batch::row(&[-1.0; 4], 1.0);
    batch.rows = vec![3, 1];
    let mut objectives = Objectives::named("rloo").unwrap();
    objectives.aggregation = Aggregation::TokenMean;
    let gradient = |objectives: &Objectives| run(objectives, &batch.split(&[1, 1])).unwrap().logprobs_gradient;
    assert_eq!(gradient(&objectives), [-0.25; 4]);
    objectives.scope = Scope::MicroBatch;
    assert_eq!(gradient(&objectives), [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0, -0.5]);
}
