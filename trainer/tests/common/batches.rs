//! The batch of the golden decoders, and the numbers of transformers and torch.

use std::collections::HashMap;
use std::path::Path;

use candle_core::Device;
use hindsearch_trainer::ops::Logprobs;
use hindsearch_trainer::{Decoder, Packed};

use super::{numbers, tokens};

const LENGTHS: [usize; 2] = [37, 5];

pub fn golden(kind: &str) -> HashMap<String, Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/decoder-{kind}.safetensors"));
    let tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    tensors.into_iter().map(|(name, tensor)| (name, tensor.flatten_all().unwrap().to_vec1().unwrap())).collect()
}

pub fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The golden's batch: packed sequences, rows, their targets, and the loss's gradients.
pub struct Batch {
    pub packed: Packed,
    pub rows: Vec<u32>,
    pub targets: Vec<u32>,
    pub slopes: Vec<f32>,
    pub spreads: Vec<f32>,
}

pub fn batch() -> Batch {
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
pub fn learn(decoder: &Decoder, batch: &Batch, recompute: bool) -> Logprobs {
    let pass = decoder.forward(&batch.packed, &batch.rows, recompute).unwrap();
    let found = Logprobs::new(pass.hidden(), decoder.head(), &batch.targets, 0.7).unwrap();
    pass.backward(found.backward(&batch.slopes, Some(&batch.spreads)).unwrap()).unwrap();
    found
}
