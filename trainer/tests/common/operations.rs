//! The operations of a model, on inputs made by a formula.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use hindsearch_trainer::ops::{
    Angles, Heads, Parameter, Tape, Value, add_scaled, attention, embedding, linear, residual, rms_norm, rotary,
    select_rows, swiglu,
};

use super::numbers;

pub const HEADS: Heads = Heads { heads: 4, kv_heads: 2, dim: 6 };

/// A matrix of numbers in -1..1 that depend on the name.
pub fn matrix(name: &str, rows: usize, width: usize) -> Tensor {
    let values: Vec<f32> = numbers(name, rows * width).into_iter().map(|number| 2.0 * number as f32).collect();
    Tensor::from_vec(values, (rows, width), &Device::Cpu).unwrap()
}

pub fn vector(name: &str, width: usize) -> Tensor {
    matrix(name, 1, width).flatten_all().unwrap()
}

/// An operation: its inputs, its weights, and how it is called.
pub struct Operation {
    pub name: &'static str,
    pub inputs: Vec<Tensor>,
    pub weights: Vec<Tensor>,
    pub call: fn(&Tape, &[Value], &[Arc<Parameter>]) -> Value,
}

/// Segments that end here, one after the other.
pub fn segments(ends: &[usize]) -> Arc<[Range<usize>]> {
    ends.iter().enumerate().map(|(at, end)| at.checked_sub(1).map_or(0, |before| ends[before])..*end).collect()
}

pub fn operations() -> Vec<Operation> {
    let inputs = |name: &str, count: usize, rows, width| -> Vec<Tensor> {
        (0..count).map(|at| matrix(&format!("{name} {at}"), rows, width)).collect()
    };
    let heads = |rows| vec![matrix("q", rows, 24), matrix("k", rows, 12), matrix("v", rows, 12)];
    vec![
        Operation {
            name: "linear",
            inputs: inputs("linear", 1, 5, 7),
            weights: vec![matrix("w", 9, 7), vector("b", 9)],
            call: |tape, x, w| linear(tape, &x[0], &w[0], Some(&w[1])).unwrap(),
        },
        Operation {
            name: "linear without a bias, with more rows than a block",
            inputs: inputs("linear", 1, 29, 3),
            weights: vec![matrix("w", 40, 3)],
            call: |tape, x, w| linear(tape, &x[0], &w[0], None).unwrap(),
        },
        Operation {
            name: "add_scaled",
            inputs: inputs("add", 2, 3, 5),
            weights: vec![],
            call: |tape, x, _| add_scaled(tape, &x[0], &x[1], -1.7).unwrap(),
        },
        Operation {
            name: "residual",
            inputs: inputs("residual", 2, 3, 5),
            weights: vec![],
            call: |tape, x, _| residual(tape, &x[0], &x[1]).unwrap(),
        },
        Operation {
            name: "a value that is used twice",
            inputs: inputs("twice", 1, 3, 4),
            weights: vec![],
            call: |tape, x, _| swiglu(tape, &x[0], &residual(tape, &x[0], &x[0]).unwrap()).unwrap(),
        },
        Operation {
            name: "rms_norm",
            inputs: inputs("norm", 1, 19, 21),
            weights: vec![vector("scale", 21)],
            call: |tape, x, w| rms_norm(tape, &x[0], &w[0], 1e-3).unwrap(),
        },
        Operation {
            name: "rms_norm of each head",
            inputs: inputs("norms", 1, 3, 24),
            weights: vec![vector("scale", 6)],
            call: |tape, x, w| rms_norm(tape, &x[0], &w[0], 1e-3).unwrap(),
        },
        Operation {
            name: "rotary",
            inputs: inputs("rotary", 1, 3, 12),
            weights: vec![],
            call: |tape, x, _| rotary(tape, &x[0], &Angles::new(&[1.0, 0.3, 0.01], &[0, 5, 900])).unwrap(),
        },
        Operation {
            name: "swiglu",
            inputs: inputs("gate", 2, 3, 7),
            weights: vec![],
            call: |tape, x, _| swiglu(tape, &x[0], &x[1]).unwrap(),
        },
        Operation {
            name: "select_rows",
            inputs: inputs("rows", 1, 5, 3),
            weights: vec![],
            call: |tape, x, _| select_rows(tape, &x[0], &[4, 0, 2]).unwrap(),
        },
        Operation {
            name: "embedding",
            inputs: vec![],
            weights: vec![matrix("table", 6, 4)],
            call: |tape, _, w| embedding(tape, &w[0], &[3, 0, 3, 5]).unwrap(),
        },
        Operation {
            name: "attention",
            inputs: heads(9),
            weights: vec![],
            call: |tape, x, _| attention(tape, [&x[0], &x[1], &x[2]], HEADS, &segments(&[5, 6, 9])).unwrap(),
        },
        Operation {
            name: "attention over more than a block",
            inputs: heads(45),
            weights: vec![],
            call: |tape, x, _| attention(tape, [&x[0], &x[1], &x[2]], HEADS, &segments(&[2, 45])).unwrap(),
        },
    ]
}
