//! Every operation's gradients are its slopes, and no row's numbers depend on its neighbours or on threads.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use common::numbers;
use common::operations::{HEADS, Operation, matrix, operations, segments, vector};
use hindsearch_trainer::ops::{
    Angles, Logprobs, Parameter, Tape, Value, attention, embedding, linear, rms_norm, rotary, select_rows, swiglu,
};

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn parameter(value: &Tensor) -> Arc<Parameter> {
    Arc::new(Parameter::new("weight", value.copy().unwrap(), true))
}

impl Operation {
    /// `sum(out * slope)`.
    fn loss(&self, inputs: &[Tensor], weights: &[Tensor]) -> f64 {
        let tape = Tape::off();
        let inputs: Vec<Value> = inputs.iter().map(|input| tape.constant(input.clone())).collect();
        let weights: Vec<_> = weights.iter().map(parameter).collect();
        let out = values(&(self.call)(&tape, &inputs, &weights).tensor);
        out.iter().zip(numbers("slope", out.len())).map(|(out, slope)| f64::from(*out) * slope).sum()
    }

    /// Gradients of all inputs and weights.
    fn gradients(&self) -> Vec<Vec<f32>> {
        let mut gradients = Vec::new();
        for wanted in 0..self.inputs.len().max(1) {
            let tape = Tape::new();
            let inputs: Vec<Value> = self.inputs.iter().map(|input| tape.leaf(input.clone())).collect();
            let weights: Vec<_> = self.weights.iter().map(parameter).collect();
            let out = (self.call)(&tape, &inputs, &weights);
            let slopes: Vec<f32> =
                numbers("slope", out.tensor.elem_count()).into_iter().map(|slope| slope as f32).collect();
            let slopes = Tensor::from_vec(slopes, out.tensor.shape().clone(), &Device::Cpu).unwrap();
            let gradient = tape.backward(&out, slopes, inputs.get(wanted)).unwrap();
            gradients.extend(gradient.map(|gradient| values(&gradient)));
            if wanted + 1 >= self.inputs.len() {
                gradients.extend(weights.iter().map(|weight| values(&weight.gradient().expect(self.name))));
            }
        }
        gradients
    }
}

/// Compares some of the gradients with differences of the loss on both sides.
fn check(name: &str, at: &[Tensor], gradients: &[Vec<f32>], loss: impl Fn(&[Tensor]) -> f64) {
    const STEP: f32 = 1.0 / 128.0;
    assert_eq!(at.len(), gradients.len(), "{name}");
    for (number, (tensor, gradient)) in at.iter().zip(gradients).enumerate() {
        let original = values(tensor);
        assert_eq!(original.len(), gradient.len(), "{name}, {number}");
        let size = gradient.iter().fold(0f32, |most, value| most.max(value.abs()));
        assert!(size > 0.0, "{name}, {number}: no gradient");
        for place in (0..original.len()).step_by(original.len().div_ceil(60)) {
            let moved = |step: f32| {
                let mut moved = original.clone();
                moved[place] += step;
                let mut at = at.to_vec();
                at[number] = Tensor::from_vec(moved, tensor.shape().clone(), &Device::Cpu).unwrap();
                loss(&at)
            };
            let slope = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
            let off = (slope - f64::from(gradient[place])).abs();
            assert!(off < 2e-3 * f64::from(size), "{name}, {number}, {place}: {slope}, not {}", gradient[place]);
        }
    }
}

#[test]
fn gradients_are_slopes() {
    for operation in operations() {
        let at = [operation.inputs.clone(), operation.weights.clone()].concat();
        check(operation.name, &at, &operation.gradients(), |at| {
            let (inputs, weights) = at.split_at(operation.inputs.len());
            operation.loss(inputs, weights)
        });
    }
}

#[test]
fn gradients_of_logprobs_and_entropies_are_slopes() {
    let (hidden, head) = (matrix("hidden", 7, 5), matrix("head", 41, 5));
    let targets = [3, 0, 40, 7, 7, 19, 33];
    let slopes = |name| -> Vec<f32> { numbers(name, 7).into_iter().map(|slope| slope as f32).collect() };
    let (to_logprobs, spreads) = (slopes("to logprobs"), slopes("to entropies"));
    for to_entropies in [None, Some(spreads.as_slice())] {
        let weight = parameter(&head);
        let found = Logprobs::new(&hidden, &weight, &targets, 0.7).unwrap();
        let to_hidden = values(&found.backward(&to_logprobs, to_entropies).unwrap());
        let gradients = [to_hidden, values(&weight.gradient().unwrap())];
        check("logprobs", &[hidden.clone(), head.clone()], &gradients, |at| {
            let found = Logprobs::new(&at[0], &parameter(&at[1]), &targets, 0.7).unwrap();
            let weigh = |found: &[f32], slopes: &[f32]| -> f64 {
                found.iter().zip(slopes).map(|(found, slope)| f64::from(*found) * f64::from(*slope)).sum()
            };
            weigh(&found.logprobs, &to_logprobs) + to_entropies.map_or(0.0, |slopes| weigh(&found.entropies, slopes))
        });
    }
}

#[test]
fn logprobs_learn_the_same_once_their_logits_are_used_up() {
    // More logits than are kept: 600 x 60,000.
    let (hidden, head) = (matrix("hidden", 600, 3), matrix("head", 60_000, 3));
    let (weight, again) = (parameter(&head), parameter(&head));
    let targets: Vec<u32> = (0..600).map(|at| at * 97).collect();
    let slopes = vec![0.5; 600];
    let found = Logprobs::new(&hidden, &weight, &targets, 1.3).unwrap();
    let first = values(&found.backward(&slopes, None).unwrap());
    assert_eq!(first, values(&found.backward(&slopes, None).unwrap()));
    // Rows that were not kept are those of a call of their own.
    let last =
        Logprobs::new(&hidden.narrow(0, 590, 10).unwrap().copy().unwrap(), &again, &targets[590..], 1.3).unwrap();
    assert_eq!(last.logprobs, found.logprobs[590..]);
    assert_eq!(values(&last.backward(&slopes[..10], None).unwrap()), first[590 * 3..]);
}

/// In numbers of twice the length.
fn product(left: impl Fn(usize, usize) -> f32, right: impl Fn(usize, usize) -> f32, shape: [usize; 3]) -> Vec<f64> {
    let [rows, depth, width] = shape;
    let value = |row: usize, column: usize| -> f64 {
        (0..depth).map(|step| f64::from(left(row, step)) * f64::from(right(step, column))).sum()
    };
    (0..rows * width).map(|at| value(at / width, at % width)).collect()
}

fn close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1e-3f64, |most, value| most.max(value.abs()));
    let off = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(off < 1e-5 * size, "{what}: {off} of {size}");
}

#[test]
fn products_of_every_shape_are_right_forwards_and_back() {
    let shapes = [
        [1, 1, 1],
        [1, 5, 33],
        [2, 64, 32],
        [3, 7, 31],
        [11, 130, 65],
        [12, 32, 96],
        [13, 641, 70],
        [47, 65, 40],
        [48, 66, 64],
        [50, 1281, 37],
        [300, 67, 45],
        [7, 3, 700],
    ];
    for [rows, depth, width] in shapes {
        let what = format!("{rows} x {depth} x {width}");
        let (x, w, g) = (matrix("x", rows, depth), matrix("w", width, depth), matrix("g", rows, width));
        let weight = parameter(&w);
        let tape = Tape::new();
        let input = tape.leaf(x.clone());
        let out = linear(&tape, &input, &weight, None).unwrap();
        let found = values(&out.tensor);
        let to_x = tape.backward(&out, g.clone(), Some(&input)).unwrap().unwrap();
        let (x, w, g) = (values(&x), values(&w), values(&g));
        close(&found, &product(|r, s| x[r * depth + s], |s, c| w[c * depth + s], [rows, depth, width]), &what);
        close(&values(&to_x), &product(|r, s| g[r * width + s], |s, c| w[s * depth + c], [rows, width, depth]), &what);
        let to_w = product(|r, s| g[s * width + r], |s, c| x[s * depth + c], [width, rows, depth]);
        close(&values(&weight.gradient().unwrap()), &to_w, &what);
    }
}

fn in_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

#[test]
fn a_row_of_a_product_is_the_same_bits_in_any_batch_and_any_form() {
    let (x, w) = (matrix("x", 130, 700), matrix("w", 75, 700));
    let run = |rows: Range<usize>, packed: bool| -> Vec<f32> {
        let (tape, weight) = (Tape::off(), parameter(&w));
        if packed {
            weight.pack().unwrap();
        }
        let x = x.narrow(0, rows.start, rows.len()).unwrap().copy().unwrap();
        values(&linear(&tape, &tape.constant(x), &weight, None).unwrap().tensor)
    };
    let all = in_threads(1, || run(0..130, false));
    for threads in [1, 2, 3] {
        for rows in [0..1, 5..6, 3..5, 0..12, 7..20, 60..107, 10..58, 1..130, 0..130] {
            for packed in [false, true] {
                let found = in_threads(threads, || run(rows.clone(), packed));
                assert_eq!(found, all[rows.start * 75..rows.end * 75], "{threads} threads, {rows:?}, {packed}");
            }
        }
    }
}

#[test]
fn no_operation_lets_rows_or_threads_change_bits() {
    // Rows 0..4 of twice as many rows, and of those alone.
    let narrow = |tensor: &Tensor, rows| tensor.narrow(0, 0, rows).unwrap().copy().unwrap();
    let wide: Vec<Tensor> = [24, 12, 12].iter().map(|width| matrix(&format!("row {width}"), 80, *width)).collect();
    let scale = parameter(&vector("scale", 24));
    let run = |rows: usize, segments: Arc<[Range<usize>]>| -> [Vec<f32>; 4] {
        let tape = Tape::off();
        let x: Vec<Value> = wide.iter().map(|tensor| tape.constant(narrow(tensor, rows))).collect();
        let positions: Vec<u32> = (0..rows as u32).collect();
        [
            rms_norm(&tape, &x[0], &scale, 1e-5).unwrap(),
            rotary(&tape, &x[0], &Angles::new(&[1.0, 0.5, 0.1], &positions)).unwrap(),
            swiglu(&tape, &x[1], &x[2]).unwrap(),
            attention(&tape, [&x[0], &x[1], &x[2]], HEADS, &segments).unwrap(),
        ]
        .map(|value| values(&value.tensor))
    };
    for rows in [1, 2, 31, 33, 40] {
        let alone = in_threads(1, || run(rows, segments(&[rows])));
        for threads in [1, 2] {
            let longer = in_threads(threads, || run(80, segments(&[80])));
            let beside = in_threads(threads, || run(80, segments(&[rows, 80])));
            for (alone, (longer, beside)) in alone.iter().zip(longer.iter().zip(&beside)) {
                assert_eq!(alone[..], longer[..alone.len()], "{rows} rows, {threads} threads: what comes later");
                assert_eq!(alone[..], beside[..alone.len()], "{rows} rows, {threads} threads: a neighbour");
            }
        }
    }
}

#[test]
fn gradients_do_not_depend_on_threads() {
    for operation in operations() {
        let one = in_threads(1, || operation.gradients());
        assert_eq!(one, in_threads(2, || operation.gradients()), "{}", operation.name);
    }
}

/// One pass of a product with both its weights.
fn learn(weight: &Arc<Parameter>, bias: &Arc<Parameter>) {
    let tape = Tape::new();
    let x = tape.constant(matrix("x", 4, 6));
    let out = linear(&tape, &x, weight, Some(bias)).unwrap();
    tape.backward(&out, matrix("g", 4, 5), None).unwrap();
}

#[test]
fn accumulators_add_up_until_they_are_cleared() {
    let (weight, bias) = (parameter(&matrix("w", 5, 6)), parameter(&vector("b", 5)));
    assert!(weight.gradient().is_none());
    learn(&weight, &bias);
    let once = [&weight, &bias].map(|parameter| values(&parameter.gradient().unwrap()));
    learn(&weight, &bias);
    for (parameter, once) in [&weight, &bias].into_iter().zip(&once) {
        let twice: Vec<f64> = once.iter().map(|value| 2.0 * f64::from(*value)).collect();
        close(&values(&parameter.gradient().unwrap()), &twice, "twice");
        parameter.clear();
        assert!(parameter.gradient().is_none());
    }
    learn(&weight, &bias);
    assert_eq!(once, [&weight, &bias].map(|parameter| values(&parameter.gradient().unwrap())));
}

#[test]
fn what_is_frozen_gets_no_gradient_and_hands_on_that_of_its_input() {
    let frozen = Arc::new(Parameter::new("w", matrix("w", 5, 6), false));
    let bias = parameter(&vector("b", 5));
    learn(&frozen, &bias);
    assert!(frozen.gradient().is_none() && bias.gradient().is_some());
    let tape = Tape::new();
    let x = tape.leaf(matrix("x", 4, 6));
    let out = linear(&tape, &x, &frozen, None).unwrap();
    assert!(tape.backward(&out, matrix("g", 4, 5), Some(&x)).unwrap().is_some());
    assert!(frozen.gradient().is_none());
}

#[test]
fn an_update_is_seen_by_the_next_product_although_the_weight_was_laid_out() {
    let (weight, bias) = (parameter(&matrix("w", 5, 6)), parameter(&vector("b", 5)));
    weight.pack().unwrap();
    learn(&weight, &bias);
    let gradient = values(&weight.gradient().unwrap());
    let mut updated: Vec<f32> =
        values(weight.value()).iter().zip(gradient).map(|(value, slope)| value - slope).collect();
    weight.swap(&mut updated).unwrap();
    let fresh = parameter(weight.value());
    let tape = Tape::off();
    let x = tape.constant(matrix("x", 4, 6));
    let out = |weight| values(&linear(&tape, &x, weight, None).unwrap().tensor);
    assert_eq!(out(&weight), out(&fresh));
    assert_ne!(out(&weight), out(&parameter(&matrix("w", 5, 6))));
}

#[test]
fn tokens_and_rows_that_are_not_there_are_refused() {
    let (tape, table) = (Tape::off(), parameter(&matrix("table", 6, 4)));
    assert!(embedding(&tape, &table, &[6]).unwrap_err().to_string().contains('6'));
    let x = tape.constant(matrix("x", 3, 4));
    assert!(select_rows(&tape, &x, &[3]).unwrap_err().to_string().contains('3'));
    assert!(Logprobs::new(&x.tensor, &table, &[0, 1, 6], 1.0).is_err());
    assert!(Logprobs::new(&x.tensor, &table, &[0, 1], 1.0).is_err());
}
