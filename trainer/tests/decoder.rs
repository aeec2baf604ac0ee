//! The decoder says what transformers says, its gradients are torch's, and recomputing changes no bit of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use common::{KINDS, decoder, numbers, tokens};
use hindsearch_trainer::ops::Logprobs;
use hindsearch_trainer::{Decoder, Packed};

const LENGTHS: [usize; 2] = [37, 5];

fn golden(kind: &str) -> HashMap<String, Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/decoder-{kind}.safetensors"));
    let tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    tensors.into_iter().map(|(name, tensor)| (name, values(&tensor))).collect()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The golden's batch: packed sequences, rows, their targets, and the loss's gradients.
struct Batch {
    packed: Packed,
    rows: Vec<u32>,
    targets: Vec<u32>,
    slopes: Vec<f32>,
    spreads: Vec<f32>,
}

fn batch() -> Batch {
    let mut batch = Batch { packed: Packed::default(), rows: vec![], targets: vec![], slopes: vec![], spreads: vec![] };
    for (number, length) in LENGTHS.into_iter().enumerate() {
        let first = batch.packed.tokens.len() as u32;
        let tokens = tokens(&format!("tokens {number}"), length);
        batch.packed.push(&tokens);
        let slopes = numbers(&format!("slope {number}"), length - 1);
        let spreads = numbers(&format!("spread {number}"), length - 1);
        for at in (0..length - 1).filter(|at| at % 3 != 1) {
            batch.rows.push(first + at as u32);
            batch.targets.push(tokens[at + 1]);
            batch.slopes.push(slopes[at] as f32);
            batch.spreads.push(spreads[at] as f32);
        }
    }
    batch
}

/// Runs forwards and back; the gradients stay with the parameters.
fn learn(decoder: &Decoder, batch: &Batch, recompute: bool) -> Logprobs {
    let pass = decoder.forward(&batch.packed, &batch.rows, recompute).unwrap();
    let found = Logprobs::new(pass.hidden(), decoder.head(), &batch.targets, 0.7).unwrap();
    pass.backward(found.backward(&batch.slopes, Some(&batch.spreads)).unwrap()).unwrap();
    found
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
            let gradient = values(&parameter.gradient().unwrap());
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
