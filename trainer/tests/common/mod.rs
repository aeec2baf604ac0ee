//! Tiny decoders whose weights are made by a formula, the same as in `golden/make_decoder.py`.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod batches;
pub mod operations;
pub mod types;

use hindsearch_trainer::ops::Placement;
use hindsearch_trainer::{Decoder, ModelConfig, RopeScaling, Weight, Weights, expected_tensors};

/// The three families.
pub const KINDS: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// Numbers in -0.5..0.5 that depend on the name alone.
pub fn numbers(name: &str, count: usize) -> Vec<f64> {
    let seed = name.bytes().fold(2_166_136_261u32, |seed, byte| (seed ^ u32::from(byte)).wrapping_mul(16_777_619));
    let number = |at: u32| {
        let mixed = at.wrapping_mul(2_654_435_761).wrapping_add(seed);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519);
        f64::from(mixed ^ (mixed >> 13)) / 4_294_967_296.0 - 0.5
    };
    (0..count as u32).map(number).collect()
}

/// Tokens of a tiny decoder.
pub fn tokens(name: &str, count: usize) -> Vec<u32> {
    numbers(name, count).into_iter().map(|number| ((number + 0.5) * 72.0) as u32).collect()
}

/// The shape of a tiny decoder.
pub fn config(kind: &str) -> ModelConfig {
    let scaling = RopeScaling { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_positions: 64 };
    ModelConfig {
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        intermediate: 40,
        vocabulary: 72,
        rope_theta: 10_000.0,
        rope_scaling: (kind == "llama").then_some(scaling),
        rms_eps: 1e-5,
        tied: kind != "qwen2",
        qkv_bias: kind == "qwen2",
        qk_norm: kind == "qwen3",
        max_positions: 512,
        eos: vec![0],
    }
}

/// Its weights.
pub fn weights(config: &ModelConfig) -> Weights {
    let weight = |(name, shape): (String, Vec<usize>)| {
        let one = if name.contains("norm") { 1.0 } else { 0.0 };
        let numbers = numbers(&name, shape.iter().product());
        let data = numbers.into_iter().map(|number| (number * 0.6 + one) as f32).collect();
        (name, Weight { shape, data })
    };
    Weights::new(config, expected_tensors(config).into_iter().map(weight)).expect("weights")
}

/// A tiny decoder.
pub fn decoder(kind: &str, learns: bool) -> Decoder {
    let config = config(kind);
    Decoder::new(&config, weights(&config), learns).expect("a decoder")
}

/// A tiny decoder in another place or type.
pub fn decoder_in(kind: &str, learns: bool, placement: &Placement) -> Decoder {
    let config = config(kind);
    Decoder::placed(&config, weights(&config), learns, placement).expect("a decoder")
}
