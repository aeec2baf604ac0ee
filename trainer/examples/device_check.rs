//! Does a device compute what the CPU computes, and how fast?
//!
//! `device_check parity cpu|cuda f32|bf16|f64` compares each operation, tiny models, updates and what they write with the f32 kernels
//! of the CPU, and ends with 1 where something is too far off. `device_check speed cpu|cuda f32|bf16|f64 LAYERS` times a model of
//! random weights whose layers are those of Qwen2.5-3B.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "an example talks to people")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use common::batches::batch;
use common::operations::{Operation, matrix, operations, segments, vector};
use common::{KINDS, decoder, decoder_in, numbers, tokens};
use hindsearch_trainer::ops::{
    Angles, Heads, Logprobs, Parameter, Placement, Tape, Value, attention, embedding, rms_norm, rotary, swiglu,
};
use hindsearch_trainer::{
    AdamWSettings, Decoder, Engine, EngineOptions, Learner, LearnerParts, Lesson, ModelConfig, Objectives, Packed,
    Request, Sample, Sampling, TeacherSettings, TokenScope, UpdateSettings, Weight, Weights, expected_tensors,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["parity", device, dtype] => {
            let placement = placement(device, dtype)?;
            let mut table = Table::new(&placement);
            operations_agree(&mut table)?;
            logprobs_agree(&mut table)?;
            models_agree(&mut table)?;
            updates_agree(&mut table)?;
            writing_agrees(&mut table)?;
            println!("{} of {} agree with the CPU in f32", table.right, table.all);
            Ok(ExitCode::from(u8::from(table.right != table.all)))
        }
        ["speed", device, dtype, layers] => {
            speed(&placement(device, dtype)?, layers.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: device_check parity|speed cpu|cuda f32|bf16|f64 [LAYERS]".into()),
    }
}

fn placement(device: &str, dtype: &str) -> Outcome<Placement> {
    let device = match device {
        "cpu" => Device::Cpu,
        "cuda" => Device::new_cuda_with_stream(0)?,
        other => return Err(format!("`{other}` is neither `cpu` nor `cuda`").into()),
    };
    let dtype = match dtype {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        "f64" => DType::F64,
        other => return Err(format!("`{other}` is neither `f32` nor `bf16` nor `f64`").into()),
    };
    Ok(Placement { device, dtype })
}

/// How far off each thing is, as a share of the greatest value.
struct Table<'a> {
    placement: &'a Placement,
    right: usize,
    all: usize,
}

impl<'a> Table<'a> {
    fn new(placement: &'a Placement) -> Self {
        Self { placement, right: 0, all: 0 }
    }

    /// What is tolerated in f32, and as many times that in bf16.
    fn row(&mut self, what: &str, off: f64, [wide, narrow]: [f64; 2]) {
        let most = if self.placement.dtype == DType::BF16 { narrow } else { wide };
        let right = off <= most;
        self.all += 1;
        self.right += usize::from(right);
        println!("{} {what:<60} {off:9.2e} of {most:.0e}", if right { "ok   " } else { "WRONG" });
    }
}

fn values(tensor: &Tensor) -> candle_core::Result<Vec<f64>> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// The greatest difference, as a share of the greatest value; infinite where the lengths differ or something is not finite.
fn off(found: &[f64], expected: &[f64]) -> f64 {
    let size = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / size);
    let most = differences.fold(0.0, |most: f64, off| if off.is_finite() { most.max(off) } else { f64::INFINITY });
    if found.len() == expected.len() && size > 0.0 { most } else { f64::INFINITY }
}

fn furthest(found: &[Vec<f64>], expected: &[Vec<f64>]) -> f64 {
    let most = found.iter().zip(expected).map(|(found, expected)| off(found, expected)).fold(0.0, f64::max);
    if found.len() == expected.len() { most } else { f64::INFINITY }
}

/// What an operation gives, and all its gradients.
fn run(operation: &Operation, placement: &Placement) -> Outcome<Vec<Vec<f64>>> {
    let place = |tensor: &Tensor| tensor.to_device(&placement.device)?.to_dtype(placement.dtype);
    let mut all = Vec::new();
    for wanted in 0..operation.inputs.len().max(1) {
        let tape = Tape::new();
        let inputs = operation.inputs.iter().map(|x| Ok(tape.leaf(place(x)?)));
        let inputs: Vec<Value> = inputs.collect::<candle_core::Result<_>>()?;
        let weights = operation.weights.iter().map(|weight| parameter(weight, placement));
        let weights: Vec<_> = weights.collect::<candle_core::Result<_>>()?;
        let out = (operation.call)(&tape, &inputs, &weights);
        all.push(values(&out.tensor)?);
        let slopes = Tensor::from_vec(numbers("slope", out.tensor.elem_count()), out.tensor.shape(), &Device::Cpu)?;
        let gradient = tape.backward(&out, place(&slopes)?, inputs.get(wanted))?;
        all.extend(gradient.map(|gradient| values(&gradient)).transpose()?);
        for weight in weights {
            all.push(values(&weight.gradient().ok_or("no gradient of a weight")?)?);
        }
    }
    Ok(all)
}

fn parameter(value: &Tensor, placement: &Placement) -> candle_core::Result<Arc<Parameter>> {
    Ok(Arc::new(Parameter::placed("weight", value.copy()?, true, placement)?))
}

/// Shapes of real models, beside those of the tests.
fn large() -> Vec<Operation> {
    let heads = |rows, heads: usize, kv_heads: usize, dim| -> Vec<Tensor> {
        let all = [("q", heads), ("k", kv_heads), ("v", kv_heads)];
        all.map(|(name, heads)| matrix(name, rows, heads * dim)).into()
    };
    const fn of(heads: usize, kv_heads: usize, dim: usize) -> Heads {
        Heads { heads, kv_heads, dim }
    }
    vec![
        Operation {
            name: "rms_norm of 2048 values",
            inputs: vec![matrix("x", 300, 2048)],
            weights: vec![vector("scale", 2048)],
            call: |tape, x, w| rms_norm(tape, &x[0], &w[0], 1e-6).unwrap(),
        },
        Operation {
            name: "swiglu of 11008 values",
            inputs: vec![matrix("gate", 33, 11_008), matrix("up", 33, 11_008)],
            weights: vec![],
            call: |tape, x, _| swiglu(tape, &x[0], &x[1]).unwrap(),
        },
        Operation {
            name: "rotary of 16 heads of 128",
            inputs: vec![matrix("x", 50, 2048)],
            weights: vec![],
            call: |tape, x, _| {
                let frequencies: Vec<f32> = (0..64).map(|at| 1e6f32.powf(-(at as f32) / 64.0)).collect();
                let positions: Vec<u32> = (0..50).map(|at| at * 61).collect();
                rotary(tape, &x[0], &Angles::new(&frequencies, &positions)).unwrap()
            },
        },
        Operation {
            name: "embedding of 900 tokens, many of them alike",
            inputs: vec![],
            weights: vec![matrix("table", 300, 129)],
            call: |tape, _, w| {
                let tokens: Vec<u32> = (0..900).map(|at| at * at % 300).collect();
                embedding(tape, &w[0], &tokens).unwrap()
            },
        },
        Operation {
            name: "attention with 14 heads of 64 by 2",
            inputs: heads(300, 14, 2, 64),
            weights: vec![],
            call: |tape, x, _| {
                attention(tape, [&x[0], &x[1], &x[2]], of(14, 2, 64), &segments(&[1, 160, 163, 300])).unwrap()
            },
        },
        Operation {
            name: "attention with 16 heads of 128 by 2",
            inputs: heads(200, 16, 2, 128),
            weights: vec![],
            call: |tape, x, _| {
                attention(tape, [&x[0], &x[1], &x[2]], of(16, 2, 128), &segments(&[7, 72, 200])).unwrap()
            },
        },
        Operation {
            name: "attention with 3 heads of 250 by 1",
            inputs: heads(90, 3, 1, 250),
            weights: vec![],
            call: |tape, x, _| attention(tape, [&x[0], &x[1], &x[2]], of(3, 1, 250), &segments(&[20, 21, 90])).unwrap(),
        },
    ]
}

fn operations_agree(table: &mut Table<'_>) -> Outcome<()> {
    for operation in operations().into_iter().chain(large()) {
        let found = furthest(&run(&operation, table.placement)?, &run(&operation, &Placement::host())?);
        table.row(operation.name, found, [2e-5, 0.03]);
    }
    Ok(())
}

fn logprobs_agree(table: &mut Table<'_>) -> Outcome<()> {
    for (rows, width, vocabulary) in [(300, 5, 41), (20, 64, 151_936)] {
        let (hidden, head) = (matrix("hidden", rows, width), matrix("head", vocabulary, width));
        let targets: Vec<u32> = (0..rows).map(|at| (at * 7919 % vocabulary) as u32).collect();
        let slopes = |name| -> Vec<f32> { numbers(name, rows).into_iter().map(|slope| slope as f32).collect() };
        let (to_logprobs, to_entropies) = (slopes("to logprobs"), slopes("to entropies"));
        let run = |placement: &Placement| -> Outcome<Vec<Vec<f64>>> {
            let hidden = hidden.to_device(&placement.device)?.to_dtype(placement.dtype)?;
            let head = parameter(&head, placement)?;
            let found = Logprobs::new(&hidden, &head, &targets, 0.7)?;
            let to_hidden = found.backward(&to_logprobs, Some(&to_entropies))?;
            let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect();
            let to_head = values(&head.gradient().ok_or("no gradient of the head")?)?;
            Ok(vec![wide(&found.logprobs), wide(&found.entropies), values(&to_hidden)?, to_head])
        };
        let found = furthest(&run(table.placement)?, &run(&Placement::host())?);
        table.row(&format!("log-probabilities of {rows} tokens of {vocabulary}"), found, [1e-4, 0.05]);
    }
    Ok(())
}

fn models_agree(table: &mut Table<'_>) -> Outcome<()> {
    for kind in KINDS {
        let batch = batch();
        let run = |decoder: &Decoder| -> Outcome<[Vec<Vec<f64>>; 3]> {
            let all: Vec<u32> = (0..batch.packed.tokens.len() as u32).collect();
            let pass = decoder.forward(&batch.packed, &all, false)?;
            let logits = values(&decoder.logits(pass.hidden())?)?;
            let found = common::batches::learn(decoder, &batch, true);
            let gradients = decoder.parameters().into_iter().map(|parameter| {
                let gradient = parameter.gradient().ok_or_else(|| format!("no gradient of {}", parameter.name()))?;
                Ok(values(&gradient)?)
            });
            let logprobs = found.logprobs.iter().chain(&found.entropies).copied().map(f64::from).collect();
            Ok([vec![logits], vec![logprobs], gradients.collect::<Outcome<_>>()?])
        };
        let (found, expected) = (run(&decoder_in(kind, true, table.placement))?, run(&decoder(kind, true))?);
        let tolerated = [[1e-5, 0.05], [1e-5, 0.03], [1e-4, 0.1]];
        let names = ["logits", "log-probabilities and entropies", "gradients"];
        for (((name, found), expected), most) in names.iter().zip(&found).zip(&expected).zip(tolerated) {
            table.row(&format!("{kind}: {name}"), furthest(found, expected), most);
        }
    }
    Ok(())
}

fn updates_agree(table: &mut Table<'_>) -> Outcome<()> {
    let samples: Vec<Sample> = (0..4)
        .map(|at| {
            let asked = tokens(&format!("asked {at}"), 9 + at);
            let mut sample = Sample::imitated(&asked, &tokens(&format!("said {at}"), 14));
            sample.advantage = if at % 2 == 0 { 1.0 } else { -0.7 };
            let hint = tokens(&format!("hint {at}"), 6);
            let places = sample.places.iter().map(|place| place + hint.len()).collect();
            let mask = sample.places.iter().map(|place| place % 3 > 0).collect();
            sample.lessons = vec![Lesson { tokens: [hint, sample.tokens.clone()].concat(), places, mask }];
            sample
        })
        .collect();
    for (name, objectives) in objectives()? {
        update_agrees(table, name, objectives, &samples)?;
    }
    Ok(())
}

/// Rewards alone, and with each form of what a hinted teacher says.
fn objectives() -> Outcome<Vec<(&'static str, Objectives)>> {
    let plain = Objectives::named("search-r1")?;
    let (mut distilled, mut diverging, mut clipped) = (plain, plain, plain);
    (distilled.hindsight.distillation.weight, distilled.hindsight.distillation.scope) = (1.0, TokenScope::Policy);
    (diverging.hindsight.divergence.weight, diverging.hindsight.divergence.scope) = (1.0, TokenScope::Policy);
    (clipped.hindsight.surrogate.weight, clipped.hindsight.surrogate.scope) = (1.0, TokenScope::Policy);
    Ok(vec![("search-r1", plain), ("distillation", distilled), ("divergence", diverging), ("surrogate", clipped)])
}

fn update_agrees(table: &mut Table<'_>, name: &str, objectives: Objectives, samples: &[Sample]) -> Outcome<()> {
    const RATE: f64 = 1e-3;
    // Losses and norms, and how far all weights went, in learning rates.
    let run = |decoder: Decoder| -> Outcome<(Vec<f64>, Vec<f64>)> {
        let before = decoder.weights()?.into_tensors();
        let parts = LearnerParts {
            teacher: TeacherSettings::default(),
            decoder: Arc::new(decoder),
            objectives,
            optimizer: AdamWSettings::default(),
            settings: UpdateSettings { micro_tokens: 50, ..UpdateSettings::default() },
            temperature: 1.0,
        };
        let mut learner = Learner::new(parts)?;
        let mut told = Vec::new();
        for _ in 0..3 {
            let metrics = learner.update(samples, |_| RATE)?;
            told.extend(["loss", "update/gradient_norm"].map(|name| metrics.value(name).unwrap_or(f64::NAN)));
        }
        let (after, _) = learner.state()?;
        let moves = before.iter().flat_map(|(name, weight)| {
            let after = after.get(name).map(|data| data.values.to_vec()).unwrap_or_default();
            weight.data.iter().zip(after).map(|(from, to)| f64::from(to - from) / RATE).collect::<Vec<_>>()
        });
        Ok((told, moves.collect()))
    };
    let (told, moves) = run(decoder_in("qwen2", true, table.placement))?;
    let (expected_told, expected_moves) = run(decoder("qwen2", true))?;
    table.row(&format!("{name}, three updates: losses and norms"), off(&told, &expected_told), [1e-4, 0.05]);
    // Where a gradient is near 0, its rounding decides where a weight goes.
    let sum = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let differences = sum(&mut moves.iter().zip(&expected_moves).map(|(a, b)| a - b));
    let apart = (differences / sum(&mut expected_moves.iter().copied())).sqrt();
    table.row(&format!("{name}, three updates: weights, on average"), apart, [2e-3, 0.1]);
    Ok(())
}

fn writing_agrees(table: &mut Table<'_>) -> Outcome<()> {
    let prompts: Vec<Vec<u32>> = vec![tokens("short", 3), tokens("long", 300), vec![7]];
    let write = |decoder: &Arc<Decoder>| -> Outcome<Vec<(Vec<u32>, Vec<f32>)>> {
        let engine = Engine::new(decoder.clone(), EngineOptions { chunk: 64, ..EngineOptions::default() })?;
        let written = prompts.iter().enumerate().map(|(at, prompt)| {
            let sampling = Sampling::default();
            let request =
                Request { tokens: prompt.clone(), limit: 20, sampling, seed: at as u64, stops: Box::new(|_| false) };
            let written = engine.generate(request)?;
            Ok((written.tokens, written.logprobs))
        });
        written.collect()
    };
    let placed = Arc::new(decoder_in("llama", false, table.placement));
    let (found, expected) = (write(&placed)?, write(&Arc::new(decoder("llama", false)))?);
    if table.placement.dtype != DType::BF16 {
        let apart = found.iter().zip(&expected).filter(|(found, expected)| found.0 != expected.0).count();
        table.row("texts that are written", apart as f64, [0.0, 0.0]);
    }
    // What was sampled, and what the training pass says about it.
    let (mut packed, mut rows, mut targets, mut sampled) = (Packed::default(), vec![], vec![], vec![]);
    for (prompt, (tokens, logprobs)) in prompts.iter().zip(found) {
        let first = packed.tokens.len() + prompt.len() - 1;
        packed.push(&[prompt.clone(), tokens.clone()].concat());
        rows.extend((first..first + tokens.len()).map(|row| row as u32));
        targets.extend(tokens);
        sampled.extend(logprobs);
    }
    let pass = placed.forward(&packed, &rows, true)?;
    let trained = Logprobs::new(pass.hidden(), placed.head(), &targets, 1.0)?.logprobs;
    let apart = sampled.iter().zip(&trained).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    table.row("log-probabilities of what is written and of the training pass", apart, [2e-5, 0.1]);
    Ok(())
}

/// Layers as those of Qwen2.5-3B, with random weights.
fn model(layers: usize) -> Outcome<(ModelConfig, Weights)> {
    let config = ModelConfig {
        hidden: 2048,
        layers,
        heads: 16,
        kv_heads: 2,
        head_dim: 128,
        intermediate: 11_008,
        vocabulary: 151_936,
        max_positions: 32_768,
        rope_theta: 1e6,
        rope_scaling: None,
        ..common::config("qwen2")
    };
    let config = ModelConfig { tied: true, ..config };
    let weight = |(name, shape): (String, Vec<usize>)| {
        let one = if name.contains("norm") { 1.0 } else { 0.0 };
        let mut state = name.len() as u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            one + (state >> 8) as f32 / (1 << 24) as f32 * 0.04 - 0.02
        };
        let data = (0..shape.iter().product()).map(|_| next()).collect();
        (name, Weight { shape, data })
    };
    let weights = Weights::new(&config, expected_tensors(&config).into_iter().map(weight))?;
    Ok((config, weights))
}

fn speed(placement: &Placement, layers: usize) -> Outcome<()> {
    let (config, weights) = model(layers)?;
    let count: usize = expected_tensors(&config).iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
    println!("{count} weights, {layers} layers of 36");
    let decoder = Arc::new(Decoder::placed(&config, weights, true, placement)?);
    let tokens = |row: usize, count: usize| -> Vec<u32> {
        (0..count).map(|at| ((at * at * 7919 + at * 104_729 + row * 15_485_863 + 17) % 151_936) as u32).collect()
    };
    for (rows, length) in [(8, 512), (4, 2048), (2, 4096)] {
        let mut packed = Packed::default();
        (0..rows).for_each(|row| packed.push(&tokens(row, length)));
        let asked = packed.segments.iter().flat_map(|segment| segment.start as u32..segment.end as u32 - 1);
        let asked: Vec<u32> = asked.collect();
        let targets: Vec<u32> = asked.iter().map(|row| packed.tokens[*row as usize + 1]).collect();
        // The first round compiles kernels.
        for round in 0..3 {
            let start = Instant::now();
            let pass = decoder.forward(&packed, &asked, true)?;
            let found = Logprobs::new(pass.hidden(), decoder.head(), &targets, 1.0)?;
            let slopes = vec![-1.0 / targets.len() as f32; targets.len()];
            pass.backward(found.backward(&slopes, None)?)?;
            let gradients: BTreeMap<_, _> =
                decoder.parameters().iter().map(|p| (p.name().to_owned(), p.gradient())).collect();
            placement.device.synchronize()?;
            let seconds = start.elapsed().as_secs_f64();
            let per_second = packed.tokens.len() as f64 / seconds;
            println!("learn {rows} x {length}, round {round}: {per_second:.0} tokens/s, {} gradients", gradients.len());
        }
    }
    decoder.parameters().iter().for_each(|parameter| parameter.clear());
    for rows in [1, 16, 64] {
        let engine = Engine::new(decoder.clone(), EngineOptions::default())?;
        let (engine, limit, start) = (&engine, 64, Instant::now());
        let ask = |row: usize| {
            let stops = Box::new(|_: u32| false);
            engine.generate(Request {
                tokens: tokens(row, 128),
                limit,
                sampling: Sampling::default(),
                seed: row as u64,
                stops,
            })
        };
        let written: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..rows).map(|row| scope.spawn(move || ask(row))).collect();
            let written = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread ended by a defect"));
            written.map(|written| Ok(written??.tokens.len())).sum::<Outcome<usize>>()
        })?;
        println!("write {rows} rows behind 128 tokens: {:.0} tokens/s", written as f64 / start.elapsed().as_secs_f64());
    }
    Ok(())
}
