//! Where a model is not f32 on the CPU it writes the same texts, and its log-probabilities are those of the training pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod common;
mod support;

use std::sync::Arc;

use candle_core::DType;
use common::types::{place, size};
use common::{decoder, decoder_in, tokens};
use hindsearch_trainer::ops::Logprobs;
use hindsearch_trainer::{Decoder, Engine, EngineOptions, Generated, ModelFiles, Packed, Request, Sampling};

fn request(tokens: &[u32], temperature: f64, seed: u64) -> Request {
    let sampling = Sampling { temperature, ..Sampling::default() };
    Request { tokens: tokens.to_vec(), limit: 20, sampling, seed, stops: Box::new(|_| false) }
}

/// Prompts that begin alike, one longer than what is read at a time, and one of one token.
fn prompts() -> Vec<Vec<u32>> {
    let shared = tokens("shared", 30);
    let begun = |name: &str, more| [shared.clone(), tokens(name, more)].concat();
    vec![begun("a", 3), begun("b", 8), shared.clone(), tokens("long", 300), vec![7]]
}

fn write(decoder: Arc<Decoder>, prompts: &[Vec<u32>], temperature: f64, options: EngineOptions) -> Vec<Generated> {
    let engine = Engine::new(decoder, options).unwrap();
    let engine = &engine;
    std::thread::scope(|scope| {
        let ask = |(at, prompt): (usize, &Vec<u32>)| {
            let request = request(prompt, temperature, at as u64);
            scope.spawn(move || engine.generate(request).unwrap())
        };
        let threads: Vec<_> = prompts.iter().enumerate().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn what_is_written_in_f64_is_what_is_written_in_f32() {
    let host = Arc::new(decoder("llama", false));
    let wide = Arc::new(decoder_in("llama", false, &place(DType::F64)));
    let default = EngineOptions::default();
    for temperature in [0.0, 1.0] {
        let expected = write(host.clone(), &prompts(), temperature, default);
        for options in [
            default,
            EngineOptions { rows: 1, ..default },
            EngineOptions { chunk: 7, ..default },
            EngineOptions { kept: 0, ..default },
            EngineOptions { kept: 60, rows: 2, chunk: 64 },
        ] {
            for (found, expected) in write(wide.clone(), &prompts(), temperature, options).iter().zip(&expected) {
                assert_eq!(found.tokens, expected.tokens, "{temperature}, {options:?}");
                let apart = found.logprobs.iter().zip(&expected.logprobs).map(|(a, b)| (a - b).abs());
                assert!(apart.fold(0.0, f32::max) < 1e-5);
            }
        }
    }
}

/// How far sampled log-probabilities are from those of the training pass: at most, and on average.
fn apart(decoder: &Arc<Decoder>, prompts: &[Vec<u32>], options: EngineOptions) -> (f64, f64) {
    let written = write(decoder.clone(), prompts, 1.0, options);
    let (mut packed, mut rows, mut targets, mut sampled) = (Packed::default(), vec![], vec![], vec![]);
    for (prompt, written) in prompts.iter().zip(written) {
        let first = packed.tokens.len() + prompt.len() - 1;
        packed.push(&[prompt.as_slice(), &written.tokens].concat());
        rows.extend((first..first + written.tokens.len()).map(|row| row as u32));
        targets.extend(written.tokens);
        sampled.extend(written.logprobs);
    }
    let pass = decoder.forward(&packed, &rows, true).unwrap();
    let trained = Logprobs::new(pass.hidden(), decoder.head(), &targets, 1.0).unwrap().logprobs;
    let apart: Vec<f64> = sampled.iter().zip(&trained).map(|(a, b)| f64::from((a - b).abs())).collect();
    assert_eq!(apart.len(), 20 * prompts.len());
    (size(&apart), apart.iter().sum::<f64>() / apart.len() as f64)
}

#[test]
fn log_probabilities_are_those_of_the_training_pass() {
    for (dtype, most) in [(DType::F64, 1e-6), (DType::BF16, 0.02)] {
        let decoder = Arc::new(decoder_in("qwen3", false, &place(dtype)));
        let found = apart(&decoder, &prompts(), EngineOptions { chunk: 50, ..EngineOptions::default() });
        println!("{dtype:?}: {found:?} apart");
        assert!(found.0 < most, "{dtype:?}: {found:?}");
    }
}

#[test]
fn log_probabilities_of_smollm2_are_those_of_the_training_pass() {
    let Some(path) = support::smollm2() else { return };
    let files = ModelFiles::open(&path).unwrap();
    let prompts: Vec<Vec<u32>> = (0..3).map(|row| (0..40 + row).map(|at| 1000 + 37 * at).collect()).collect();
    for (dtype, most) in [(DType::F64, (1e-4, 1e-5)), (DType::BF16, (0.5, 0.1))] {
        let decoder = Decoder::placed(files.config(), files.weights().unwrap(), false, &place(dtype)).unwrap();
        let found = apart(&Arc::new(decoder), &prompts, EngineOptions { chunk: 50, ..EngineOptions::default() });
        println!("{dtype:?}: {found:?} apart");
        assert!(found.0 < most.0 && found.1 < most.1, "{dtype:?}: {found:?}");
    }
}
