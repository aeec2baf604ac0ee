//! The second way of each operation, which serves GPUs, says what the CPU's f32 kernels say: shown here on the CPU in f64 and bf16.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use common::batches::{Batch, batch, torch_numbers};
use common::operations::{Operation, matrix, operations};
use common::types::{off, place, size, values};
use common::{KINDS, config, decoder, decoder_in, numbers, tokens, weights};
use hindsearch_trainer::ops::{Logprobs, Parameter, Placement, Tape, Value};
use hindsearch_trainer::{
    AdamWSettings, Decoder, Error, Learner, LearnerParts, LoraConfig, Objectives, Packed, Sample, TensorData,
    TrainSettings, UpdateSettings,
};

/// What an operation says, and the gradients of its inputs and weights, in a type.
fn run(operation: &Operation, dtype: DType) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for wanted in 0..operation.inputs.len().max(1) {
        let tape = Tape::new();
        let inputs: Vec<Value> = operation.inputs.iter().map(|x| tape.leaf(x.to_dtype(dtype).unwrap())).collect();
        let weights: Vec<_> = operation.weights.iter().map(|weight| parameter(weight, dtype)).collect();
        let out = (operation.call)(&tape, &inputs, &weights);
        assert_eq!(out.tensor.dtype(), dtype, "{}", operation.name);
        if wanted == 0 {
            all.push(values(&out.tensor));
        }
        let slopes = Tensor::from_vec(numbers("slope", out.tensor.elem_count()), out.tensor.shape(), &Device::Cpu);
        let gradient = tape.backward(&out, slopes.unwrap().to_dtype(dtype).unwrap(), inputs.get(wanted)).unwrap();
        all.extend(gradient.map(|gradient| values(&gradient)));
        if wanted + 1 >= operation.inputs.len() {
            all.extend(weights.iter().map(|weight| values(&weight.gradient().expect(operation.name))));
        }
    }
    assert_eq!(all.len(), 1 + operation.inputs.len() + operation.weights.len(), "{}", operation.name);
    assert!(all.iter().all(|values| size(values) > 0.0), "{}: nothing but zeros", operation.name);
    all
}

fn parameter(value: &Tensor, dtype: DType) -> Arc<Parameter> {
    Arc::new(Parameter::placed("weight", value.copy().unwrap(), true, &place(dtype)).unwrap())
}

#[test]
fn every_operation_and_its_gradients_are_those_of_the_f32_kernels() {
    for operation in operations() {
        let expected = run(&operation, DType::F32);
        for (dtype, most) in [(DType::F64, 3e-6), (DType::BF16, 0.02)] {
            for (number, (found, expected)) in run(&operation, dtype).iter().zip(&expected).enumerate() {
                let off = off(found, expected);
                assert!(off < most, "{} in {dtype:?}, {number}: {off}", operation.name);
            }
        }
    }
}

/// Compares gradients, in f64, with differences of the loss on both sides.
fn check(name: &str, at: &[Tensor], gradients: &[Vec<f64>], most: f64, loss: impl Fn(&[Tensor]) -> f64) {
    for (number, (tensor, gradient)) in at.iter().zip(gradients).enumerate() {
        let original = values(tensor);
        // Where the loss is told in f32, its steps are coarser.
        let step = if most < 1e-6 { 1e-5 } else { 1e-2 };
        for place in (0..original.len()).step_by(original.len().div_ceil(60)) {
            let moved = |step: f64| {
                let mut moved = original.clone();
                moved[place] += step;
                let mut at = at.to_vec();
                at[number] = Tensor::from_vec(moved, tensor.shape(), &Device::Cpu).unwrap();
                loss(&at)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            let off = (slope - gradient[place]).abs() / size(gradient);
            assert!(off < most, "{name}, {number}, {place}: {slope}, not {}", gradient[place]);
        }
    }
}

#[test]
fn gradients_in_f64_are_slopes() {
    for operation in operations() {
        let gradients = run(&operation, DType::F64).split_off(1);
        let at = [operation.inputs.clone(), operation.weights.clone()].concat();
        check(operation.name, &at, &gradients, 1e-8, |at| {
            let (inputs, weights) = at.split_at(operation.inputs.len());
            let (inputs, weights) = (inputs.iter(), weights.iter());
            let tape = Tape::off();
            let inputs: Vec<Value> = inputs.map(|x| tape.constant(x.to_dtype(DType::F64).unwrap())).collect();
            let weights: Vec<_> = weights.map(|weight| parameter(weight, DType::F64)).collect();
            let out = values(&(operation.call)(&tape, &inputs, &weights).tensor);
            out.iter().zip(numbers("slope", out.len())).map(|(out, slope)| out * slope).sum()
        });
    }
}

#[test]
fn logprobs_entropies_and_their_gradients_are_those_of_the_f32_kernels() {
    // More rows than are in the head at a time.
    let (hidden, head) = (matrix("hidden", 300, 5), matrix("head", 41, 5));
    let targets: Vec<u32> = (0..300).map(|at| at * 7 % 41).collect();
    let slopes = |name| -> Vec<f32> { numbers(name, 300).into_iter().map(|slope| slope as f32).collect() };
    let (to_logprobs, spreads) = (slopes("to logprobs"), slopes("to entropies"));
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    for to_entropies in [None, Some(spreads.as_slice())] {
        let run = |dtype: DType| {
            let (hidden, head) = (hidden.to_dtype(dtype).unwrap(), parameter(&head, dtype));
            let found = Logprobs::new(&hidden, &head, &targets, 0.7).unwrap();
            let to_hidden = found.backward(&to_logprobs, to_entropies).unwrap();
            assert_eq!(to_hidden.dtype(), dtype);
            let to_head = values(&head.gradient().unwrap());
            [wide(&found.logprobs), wide(&found.entropies), values(&to_hidden), to_head]
        };
        let expected = run(DType::F32);
        for (dtype, most) in [(DType::F64, 3e-6), (DType::BF16, 0.02)] {
            for (number, (found, expected)) in run(dtype).iter().zip(&expected).enumerate() {
                assert!(off(found, expected) < most, "{dtype:?}, {number}: {}", off(found, expected));
            }
        }
        let [_, _, to_hidden, to_head] = run(DType::F64);
        check("logprobs", &[hidden.clone(), head.clone()], &[to_hidden, to_head], 1e-3, |at| {
            let hidden = at[0].to_dtype(DType::F64).unwrap();
            let found = Logprobs::new(&hidden, &parameter(&at[1], DType::F64), &targets, 0.7).unwrap();
            let weigh = |found: &[f32], slopes: &[f32]| -> f64 {
                found.iter().zip(slopes).map(|(found, slope)| f64::from(*found) * f64::from(*slope)).sum()
            };
            weigh(&found.logprobs, &to_logprobs) + to_entropies.map_or(0.0, |slopes| weigh(&found.entropies, slopes))
        });
    }
}

#[test]
fn scores_and_logits_far_apart_do_not_overflow() {
    let mut operations = operations();
    operations.retain(|operation| operation.name.starts_with("attention"));
    assert!(!operations.is_empty());
    for operation in &mut operations {
        operation.inputs[0] = (&operation.inputs[0] * 2e3).unwrap();
        let (found, expected) = (run(operation, DType::F64), run(operation, DType::F32));
        // What comes out, and the gradient of the values; those of scores are all but 0 where one key takes all.
        for at in [0, 3] {
            assert!(off(&found[at], &expected[at]) < 1e-3, "{}: {}", operation.name, off(&found[at], &expected[at]));
        }
    }
    let (hidden, head) = (matrix("hidden", 9, 5), matrix("head", 41, 5));
    let targets: Vec<u32> = (0..9).collect();
    let run = |dtype: DType| {
        let (hidden, head) = (hidden.to_dtype(dtype).unwrap(), parameter(&head, dtype));
        let found = Logprobs::new(&hidden, &head, &targets, 1e-4).unwrap();
        let to_hidden = values(&found.backward(&[1.0; 9], Some(&[0.5; 9])).unwrap());
        [found.logprobs.into_iter().map(f64::from).collect(), to_hidden]
    };
    for (found, expected) in run(DType::F64).iter().zip(&run(DType::F32)) {
        assert!(size(expected) > 1e3 && off(found, expected) < 1e-3, "{}", off(found, expected));
    }
}

/// Runs the golden batch; gives how far logits, log-probabilities and entropies are from torch's, and the gradients as a share of the
/// greatest of each weight.
fn distance(kind: &str, decoder: &Decoder, batch: &Batch, recompute: bool) -> [f64; 4] {
    let golden = torch_numbers(kind);
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let furthest = |a: &[f64], b: &[f64]| size(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>());
    let all: Vec<u32> = (0..batch.packed.tokens.len() as u32).collect();
    let pass = decoder.forward(&batch.packed, &all, recompute).unwrap();
    let logits = decoder.logits(pass.hidden()).unwrap();
    // bf16 would tell no small differences between logits.
    assert_ne!(logits.dtype(), DType::BF16);
    let logits = values(&logits);
    let logits = furthest(&logits, &wide(&[golden["logits 0"].clone(), golden["logits 1"].clone()].concat()));
    let pass = decoder.forward(&batch.packed, &batch.rows, recompute).unwrap();
    let found = Logprobs::new(pass.hidden(), decoder.head(), &batch.targets, 0.7).unwrap();
    pass.backward(found.backward(&batch.slopes, Some(&batch.spreads)).unwrap()).unwrap();
    let asked = |what: &str| -> Vec<f64> {
        let of = |number: usize| wide(&golden[&format!("{what} {number}")]);
        (0..2)
            .flat_map(|number| of(number).into_iter().enumerate().filter(|(at, _)| at % 3 != 1))
            .map(|(_, v)| v)
            .collect()
    };
    let gradients = decoder.parameters().into_iter().map(|parameter| {
        let expected = wide(&golden[&format!("gradient {}", parameter.name())]);
        off(&values(&parameter.gradient().unwrap_or_else(|| panic!("{}", parameter.name()))), &expected)
    });
    [
        logits,
        furthest(&wide(&found.logprobs), &asked("logprobs")),
        furthest(&wide(&found.entropies), &asked("entropies")),
        gradients.fold(0.0, f64::max),
    ]
}

#[test]
fn whole_models_say_what_torch_says_and_learn_what_torch_learns() {
    for kind in KINDS {
        for (dtype, most) in [(DType::F64, [1e-4, 2e-5, 2e-5, 1e-4]), (DType::BF16, [0.25, 0.2, 0.05, 0.1])] {
            for recompute in [false, true] {
                let found = distance(kind, &decoder_in(kind, true, &place(dtype)), &batch(), recompute);
                println!("{kind} in {dtype:?}: {found:?}");
                assert!(found.iter().zip(most).all(|(found, most)| *found < most), "{kind} in {dtype:?}: {found:?}");
            }
        }
    }
}

#[test]
fn a_sequence_in_f64_does_not_notice_its_neighbours() {
    let (decoder, batch) = (decoder_in("llama", false, &place(DType::F64)), batch());
    let all: Vec<u32> = (0..batch.packed.tokens.len() as u32).collect();
    let together = values(decoder.forward(&batch.packed, &all, false).unwrap().hidden());
    let mut alone = Vec::new();
    for segment in &batch.packed.segments {
        let mut packed = Packed::default();
        packed.push(&batch.packed.tokens[segment.clone()]);
        let rows: Vec<u32> = (0..segment.len() as u32).collect();
        alone.extend(values(decoder.forward(&packed, &rows, true).unwrap().hidden()));
    }
    assert!(off(&alone, &together) < 1e-12);
}

fn samples() -> Vec<Sample> {
    let sample = |at: usize| {
        let mut sample = Sample::imitated(&tokens(&format!("asked {at}"), 9 + at), &tokens(&format!("said {at}"), 14));
        sample.advantage = if at.is_multiple_of(2) { 1.0 } else { -0.7 };
        sample
    };
    (0..4).map(sample).collect()
}

fn learner(decoder: Decoder) -> Learner {
    let settings = UpdateSettings { micro_tokens: 50, ..UpdateSettings::default() };
    let optimizer = AdamWSettings::default();
    let objectives = Objectives::named("search-r1").unwrap();
    let decoder = Arc::new(decoder);
    let teacher = TeacherSettings::default();
    Learner::new(LearnerParts { decoder, objectives, teacher, optimizer, settings, temperature: 1.0 }).unwrap()
}

fn state(learner: &Learner) -> BTreeMap<String, Vec<f32>> {
    learner.state().unwrap().0.into_iter().map(|(name, data)| (name, data.values.into_owned())).collect()
}

fn bits(state: BTreeMap<String, Vec<f32>>) -> BTreeMap<String, Vec<u32>> {
    state.into_iter().map(|(name, values)| (name, values.into_iter().map(f32::to_bits).collect())).collect()
}

#[test]
fn updates_are_those_of_f32_on_the_cpu() {
    const RATE: f64 = 1e-3;
    let run = |dtype: Option<DType>| {
        let decoder = dtype.map_or_else(|| decoder("qwen2", true), |dtype| decoder_in("qwen2", true, &place(dtype)));
        let (before, mut learner) = (decoder.weights().unwrap().into_tensors(), learner(decoder));
        let told: Vec<f64> = (0..3)
            .flat_map(|_| {
                let metrics = learner.update(&samples(), |_| RATE).unwrap();
                ["loss", "update/gradient_norm", "kl"].map(|name| metrics.value(name).unwrap_or(0.0))
            })
            .collect();
        assert_eq!(learner.updates(), 3);
        // How far each weight went, in learning rates.
        let state = state(&learner);
        let moves = before.iter().flat_map(|(name, weight)| {
            weight.data.iter().zip(&state[name]).map(|(from, to)| f64::from(to - from) / RATE).collect::<Vec<_>>()
        });
        (told, moves.collect::<Vec<f64>>())
    };
    let (told, moves) = run(None);
    assert!(told[1] > 0.1, "{told:?}");
    // Of f64 only the last bits of f32 differ; of bf16, what a gradient near 0 decides.
    for (dtype, most_told, most_moved) in [(DType::F64, 1e-4, 1e-3), (DType::BF16, 0.05, 0.1)] {
        let (other, other_moves) = run(Some(dtype));
        assert!(off(&other, &told) < most_told, "{dtype:?}: {other:?}, not {told:?}");
        let differences = moves.iter().zip(&other_moves).map(|(a, b)| (a - b).powi(2));
        let apart = (differences.sum::<f64>() / moves.iter().map(|a| a.powi(2)).sum::<f64>()).sqrt();
        println!("{dtype:?}: told {} apart, moved {apart} apart", off(&other, &told));
        assert!(apart < most_moved, "{dtype:?}: moved {apart} apart");
    }
}

#[test]
fn weights_in_bf16_take_steps_that_bf16_cannot_hold() {
    let decoder = decoder_in("qwen2", true, &place(DType::BF16));
    let held = |decoder: &Decoder| -> Vec<(String, Vec<f64>)> {
        decoder.parameters().iter().map(|weight| (weight.name().to_owned(), values(weight.value()))).collect()
    };
    let (before, first) = (decoder.weights().unwrap().into_tensors(), held(&decoder));
    let mut learner = learner(decoder);
    learner.update(&samples(), |_| 1e-6).unwrap();
    for (name, values) in state(&learner).into_iter().filter(|(name, _)| !name.starts_with("optimizer.")) {
        let moved = values.iter().zip(&before[&name].data).filter(|(a, b)| a != b).count();
        assert!(moved * 10 > values.len(), "{name}: {moved} of {} moved", values.len());
    }
    // Almost none of these steps shows in bf16 by itself; many together do.
    let differ = |now: &[(String, Vec<f64>)]| -> usize {
        now.iter().zip(&first).map(|((_, a), (_, b))| a.iter().zip(b).filter(|(a, b)| a != b).count()).sum()
    };
    let (once, all) = (differ(&held(learner.decoder())), first.iter().map(|(_, values)| values.len()).sum::<usize>());
    for _ in 0..30 {
        learner.update(&samples(), |_| 1e-5).unwrap();
    }
    let often = differ(&held(learner.decoder()));
    assert!(once * 50 < all && often > 10 * once.max(1), "{once}, then {often} of {all}");
    // What the model computes with is what is kept, rounded.
    for weight in learner.decoder().parameters() {
        let rounded = Tensor::from_vec(weight.to_vec().unwrap(), weight.value().shape(), &Device::Cpu).unwrap();
        assert_eq!(values(&rounded.to_dtype(DType::BF16).unwrap()), values(weight.value()), "{}", weight.name());
    }
}

fn with_adapters(dtype: DType) -> Decoder {
    let mut decoder = decoder_in("llama", false, &place(dtype));
    decoder.add_adapters(&LoraConfig { rank: 4, ..LoraConfig::default() }, 7).unwrap();
    decoder
}

#[test]
fn a_learner_in_bf16_goes_on_from_its_state_with_the_same_bits() {
    for make in [|| decoder_in("qwen3", true, &place(DType::BF16)), || with_adapters(DType::BF16)] {
        let (mut through, mut stopped, mut resumed) = (learner(make()), learner(make()), learner(make()));
        for learner in [&mut through, &mut stopped] {
            (0..2).for_each(|_| drop(learner.update(&samples(), |_| 1e-3).unwrap()));
        }
        let (tensors, counts) = stopped.state().unwrap();
        let owned = |data: TensorData<'_>| TensorData { shape: data.shape, values: data.values.into_owned().into() };
        resumed.restore(tensors.into_iter().map(|(name, data)| (name, owned(data))).collect(), &counts).unwrap();
        assert_eq!(bits(state(&resumed)), bits(state(&stopped)));
        for learner in [&mut through, &mut resumed] {
            (0..2).for_each(|_| drop(learner.update(&samples(), |_| 1e-3).unwrap()));
        }
        assert_eq!(resumed.updates(), 4);
        assert_ne!(bits(state(&resumed)), bits(state(&stopped)));
        assert_eq!(bits(state(&resumed)), bits(state(&through)));
    }
}

#[test]
fn the_state_of_another_model_is_refused() {
    let (mut one, mut other) =
        (learner(with_adapters(DType::BF16)), learner(decoder_in("llama", true, &place(DType::BF16))));
    one.update(&samples(), |_| 1e-3).unwrap();
    let (tensors, counts) = one.state().unwrap();
    let refused = other.restore(tensors, &counts);
    assert!(matches!(refused, Err(Error::InvalidInput { .. })), "{refused:?}");
}

#[test]
fn adapters_in_bf16_learn_beside_weights_that_stay() {
    let decoder = with_adapters(DType::BF16);
    let before = decoder.weights().unwrap();
    let adapter = |decoder: &Decoder, part: &str| -> Vec<Vec<f32>> {
        let named = decoder.parameters().into_iter().filter(|weight| weight.name().contains(part));
        named.map(|weight| weight.to_vec().unwrap()).collect()
    };
    assert_eq!(decoder.merged().unwrap(), before, "adapters that have learnt nothing");
    let mut learner = learner(decoder);
    learner.update(&samples(), |_| 1e-3).unwrap();
    let decoder = learner.decoder();
    assert!(adapter(decoder, ".lora_B.").iter().flatten().filter(|value| **value != 0.0).count() > 100);
    assert_eq!(decoder.weights().unwrap(), before);
    assert_ne!(decoder.merged().unwrap(), before);
    let frozen = decoder.parameters().into_iter().filter(|weight| !weight.is_adapter());
    assert!(frozen.into_iter().all(|weight| weight.gradient().is_none() && !weight.learns()));
}

#[test]
fn what_is_not_finite_is_skipped_and_the_third_time_ends_the_run() {
    let mut learner = learner(decoder_in("llama", true, &place(DType::BF16)));
    learner.update(&samples(), |_| 1e-3).unwrap();
    let before = bits(state(&learner));
    let mut broken = samples();
    broken[0].advantage = f64::NAN;
    for _ in 0..2 {
        let told = learner.update(&broken, |_| 1e-3).unwrap();
        assert_eq!(told.value("update/skipped"), Some(1.0));
        assert_eq!(bits(state(&learner)), before);
    }
    assert!(matches!(learner.update(&broken, |_| 1e-3), Err(Error::Diverged { .. })));
    assert_eq!(bits(state(&learner)), before);
}

#[test]
fn frozen_weights_in_bf16_are_kept_once() {
    let decoder = decoder_in("llama", false, &place(DType::BF16));
    let kept = weights(&config("llama")).into_tensors();
    for weight in decoder.parameters() {
        // Rounded: nothing in f32 is left.
        let rounded = weight.to_vec().unwrap();
        assert!(rounded.iter().all(|value| value.to_bits().trailing_zeros() >= 16), "{}", weight.name());
        let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
        assert!(off(&wide(&rounded), &wide(&kept[weight.name()].data)) < 1.0 / 256.0);
    }
}

#[test]
fn settings_say_what_cannot_be_computed_where() {
    let parse = |text: &str| TrainSettings::parse(text, "settings");
    let refused = parse("precision = \"bf16\"").unwrap_err().to_string();
    assert!(refused.contains("precision") && refused.contains("slower"), "{refused}");
    assert!(parse("device = \"tpu\"").is_err());
    assert!(matches!(parse("").unwrap().placement(), Ok(Placement { device: Device::Cpu, dtype: DType::F32 })));
    let gpu = parse("device = \"cuda\"").unwrap();
    assert!(gpu.to_toml().unwrap().contains("precision = \"bf16\""));
    let narrowed = TrainSettings::parse(&gpu.to_toml().unwrap(), "settings").unwrap();
    assert_eq!(narrowed.to_toml().unwrap(), gpu.to_toml().unwrap());
    if !cfg!(feature = "cuda") {
        let refused = gpu.placement().unwrap_err().to_string();
        assert!(refused.contains("cargo build --release --features cuda"), "{refused}");
    }
}
