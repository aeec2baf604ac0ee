//! The gate of the feed-forward layer.

use candle_core::Result;
use rayon::prelude::*;

use super::device;
use super::placement::is_host;
use super::tape::{Tape, Value};
use super::tensor::{tensor, view};
use super::wide::{NullaryFnOnce, exp, wide};

/// Values that a thread takes at a time.
const CHUNK: usize = 1 << 14;

/// `silu(gate) * up` (Shazeer 2020), where `silu(x) = x / (1 + e^-x)`; of one shape.
///
/// # Errors
/// Those of the tensors.
pub fn swiglu(tape: &Tape, gate: &Value, up: &Value) -> Result<Value> {
    if !is_host(&gate.tensor) {
        let out = device::swiglu(&gate.tensor, &up.tensor)?;
        return Ok(tape.push(&[gate, up], false, out, || {
            let (gate, up) = (gate.tensor.clone(), up.tensor.clone());
            Box::new(move |gradient| {
                let (to_gate, to_up) = device::swiglu_back(&gate, &up, gradient)?;
                Ok(vec![Some(to_gate), Some(to_up)])
            })
        }));
    }
    let (g, u) = (view(&gate.tensor)?, view(&up.tensor)?);
    let mut out = vec![0.0; g.len()];
    let chunks = out.par_chunks_mut(CHUNK).zip(g.par_chunks(CHUNK).zip(u.par_chunks(CHUNK)));
    chunks.for_each(|(out, (g, u))| {
        wide(Gate { out, g, u });
    });
    drop((g, u));
    Ok(tape.push(&[gate, up], false, tensor(out, gate.tensor.shape().clone())?, || {
        let (gate, up) = (gate.tensor.clone(), up.tensor.clone());
        Box::new(move |gradient| {
            let (g, u, d) = (view(&gate)?, view(&up)?, view(gradient)?);
            let (mut to_gate, mut to_up) = (vec![0.0; g.len()], vec![0.0; g.len()]);
            let outs = to_gate.par_chunks_mut(CHUNK).zip(to_up.par_chunks_mut(CHUNK));
            let ins = g.par_chunks(CHUNK).zip(u.par_chunks(CHUNK)).zip(d.par_chunks(CHUNK));
            outs.zip(ins).for_each(|((to_gate, to_up), ((g, u), d))| {
                wide(Gradients { to_gate, to_up, g, u, d });
            });
            let shape = gate.shape();
            Ok(vec![Some(tensor(to_gate, shape.clone())?), Some(tensor(to_up, shape.clone())?)])
        })
    }))
}

struct Gate<'a> {
    out: &'a mut [f32],
    g: &'a [f32],
    u: &'a [f32],
}

impl NullaryFnOnce for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.out.iter_mut().zip(self.g.iter().zip(self.u)).for_each(|(out, (g, u))| *out = g * sigmoid(*g) * u);
    }
}

struct Gradients<'a> {
    to_gate: &'a mut [f32],
    to_up: &'a mut [f32],
    g: &'a [f32],
    u: &'a [f32],
    d: &'a [f32],
}

impl NullaryFnOnce for Gradients<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let inputs = self.g.iter().zip(self.u).zip(self.d);
        for ((to_gate, to_up), ((g, u), d)) in self.to_gate.iter_mut().zip(self.to_up).zip(inputs) {
            let s = sigmoid(*g);
            *to_up = d * g * s;
            // silu'(x) = s (1 + x (1 - s))
            *to_gate = d * u * s * (1.0 + g * (1.0 - s));
        }
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}
