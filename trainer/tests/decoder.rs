//! The decoder says what transformers says, its gradients are torch's, and recomputing changes no bit of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use candle_core::Tensor;
use common::batches::{batch, furthest, golden, learn};
use common::{KINDS, decoder};
use hindsearch_trainer::Packed;

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn numbers_are_those_of_transformers_and_torch() {
    for kind in KINDS {
        let (golden, decoder, batch) = (golden(kind), decoder(kind, true), batch());
        let all: Vec<u32> = (0..batch.packed.tokens.len() as u32).collect();
        let pass = decoder.forward(&batch.packed, &all, false).unwrap();
        let logits = values(&decoder.logits(pass.hidden()).unwrap());
        let expected = [golden["logits 0"].clone(), golden["logits 1"].clone()].concat();
        assert!(furthest(&logits, &expected) < 1e-4, "{kind}: {}", furthest(&logits, &expected));

        let found = learn(&decoder, &batch, false);
        let per_row = |what: &str| -> Vec<f32> {
            let of = |number: usize| golden[&format!("{what} {number}")].clone();
            let asked = |values: Vec<f32>| values.into_iter().enumerate().filter(|(at, _)| at % 3 != 1).map(|(_, v)| v);
            (0..2).flat_map(|number| asked(of(number)).collect::<Vec<_>>()).collect()
        };
        assert!(furthest(&found.logprobs, &per_row("logprobs")) < 2e-5, "{kind}");
        assert!(furthest(&found.entropies, &per_row("entropies")) < 2e-5, "{kind}");
        for parameter in decoder.parameters() {
            let expected = &golden[&format!("gradient {}", parameter.name())];
            let gradient = values(&parameter.gradient().unwrap_or_else(|| panic!("{}", parameter.name())));
            let size = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
            let off = furthest(&gradient, expected);
            assert!(size > 0.0 && off < 1e-4 * size, "{kind} {}: {off} of {size}", parameter.name());
        }
    }
}

#[test]
fn recomputing_changes_no_bit() {
    for kind in KINDS {
        let (kept, recomputed, batch) = (decoder(kind, true), decoder(kind, true), batch());
        let a = learn(&kept, &batch, false);
        let b = learn(&recomputed, &batch, true);
        assert_eq!(a.logprobs, b.logprobs);
        for (a, b) in kept.parameters().iter().zip(recomputed.parameters()) {
            assert_eq!(values(&a.gradient().unwrap()), values(&b.gradient().unwrap()), "{kind} {}", a.name());
        }
    }
}

#[test]
fn a_sequence_does_not_notice_its_neighbours() {
    for kind in KINDS {
        let (decoder, batch) = (decoder(kind, false), batch());
        let all: Vec<u32> = (0..batch.packed.tokens.len() as u32).collect();
        let together = values(decoder.forward(&batch.packed, &all, false).unwrap().hidden());
        let mut alone = Vec::new();
        for segment in &batch.packed.segments {
            let mut packed = Packed::default();
            packed.push(&batch.packed.tokens[segment.clone()]);
            let rows: Vec<u32> = (0..segment.len() as u32).collect();
            alone.extend(values(decoder.forward(&packed, &rows, true).unwrap().hidden()));
        }
        assert_eq!(together, alone, "{kind}");
    }
}

#[test]
fn what_is_frozen_has_no_gradient() {
    let (decoder, batch) = (decoder("qwen2", false), batch());
    learn(&decoder, &batch, true);
    assert!(decoder.parameters().iter().all(|parameter| parameter.gradient().is_none()));
}
