//! One layer of the decoder: attention, then the feed-forward network, each after a norm and added to the stream.

use std::sync::Arc;

use candle_core::Result;

use super::Unused;
use super::lora::Adapter;
use crate::model::ModelConfig;
use crate::ops::{Angles, Parameter, Tape, Value, add_scaled, linear, residual, rms_norm, rotary, swiglu};

/// A matrix, perhaps with a bias and an adapter.
#[derive(Clone)]
pub(super) struct Projection {
    pub weight: Arc<Parameter>,
    pub bias: Option<Arc<Parameter>>,
    pub adapter: Option<Adapter>,
}

impl Projection {
    fn new(weights: &mut Unused<'_>, name: &str, bias: bool) -> crate::Result<Self> {
        let weight = weights.take(&format!("{name}.weight"))?;
        let bias = if bias { Some(weights.take(&format!("{name}.bias"))?) } else { None };
        Ok(Self { weight, bias, adapter: None })
    }

    fn apply(&self, tape: &Tape, x: &Value) -> Result<Value> {
        let out = linear(tape, x, &self.weight, self.bias.as_ref())?;
        let Some(adapter) = &self.adapter else { return Ok(out) };
        let inner = linear(tape, x, &adapter.a, None)?;
        add_scaled(tape, &out, &linear(tape, &inner, &adapter.b, None)?, adapter.scale)
    }

    fn parameters(&self) -> impl Iterator<Item = Arc<Parameter>> {
        let adapter = self.adapter.iter().flat_map(|adapter| [adapter.a.clone(), adapter.b.clone()]);
        [self.weight.clone()].into_iter().chain(self.bias.clone()).chain(adapter)
    }
}

/// A layer.
#[derive(Clone)]
pub(super) struct Block {
    input_norm: Arc<Parameter>,
    q: Projection,
    k: Projection,
    v: Projection,
    o: Projection,
    /// Norms of each head's queries and keys (Qwen3).
    qk_norms: Option<[Arc<Parameter>; 2]>,
    post_norm: Arc<Parameter>,
    gate: Projection,
    up: Projection,
    down: Projection,
    eps: f32,
}

impl Block {
    pub fn new(config: &ModelConfig, layer: usize, weights: &mut Unused<'_>) -> crate::Result<Self> {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let mut norm = |part: &str| weights.take(&name(&format!("{part}.weight")));
        let input_norm = norm("input_layernorm")?;
        let post_norm = norm("post_attention_layernorm")?;
        let qk_norms = if config.qk_norm { Some([norm("self_attn.q_norm")?, norm("self_attn.k_norm")?]) } else { None };
        let bias = config.qkv_bias;
        let mut matrix = |part: &str, bias| Projection::new(weights, &name(part), bias);
        Ok(Self {
            input_norm,
            q: matrix("self_attn.q_proj", bias)?,
            k: matrix("self_attn.k_proj", bias)?,
            v: matrix("self_attn.v_proj", bias)?,
            o: matrix("self_attn.o_proj", false)?,
            qk_norms,
            post_norm,
            gate: matrix("mlp.gate_proj", false)?,
            up: matrix("mlp.up_proj", false)?,
            down: matrix("mlp.down_proj", false)?,
            eps: config.rms_eps as f32,
        })
    }

    /// The stream after this layer; `x` is `[tokens, hidden]`. `attend` turns queries, keys and values into what was attended to.
    pub fn forward(
        &self,
        tape: &Tape,
        x: &Value,
        angles: &Arc<Angles>,
        attend: &mut dyn FnMut([&Value; 3]) -> Result<Value>,
    ) -> Result<Value> {
        let inner = rms_norm(tape, x, &self.input_norm, self.eps)?;
        let mut q = self.q.apply(tape, &inner)?;
        let mut k = self.k.apply(tape, &inner)?;
        let v = self.v.apply(tape, &inner)?;
        drop(inner);
        if let Some([q_norm, k_norm]) = &self.qk_norms {
            q = rms_norm(tape, &q, q_norm, self.eps)?;
            k = rms_norm(tape, &k, k_norm, self.eps)?;
        }
        let (q, k) = (rotary(tape, &q, angles)?, rotary(tape, &k, angles)?);
        let attended = attend([&q, &k, &v])?;
        let x = residual(tape, x, &self.o.apply(tape, &attended)?)?;
        let inner = rms_norm(tape, &x, &self.post_norm, self.eps)?;
        let gated = swiglu(tape, &self.gate.apply(tape, &inner)?, &self.up.apply(tape, &inner)?)?;
        residual(tape, &x, &self.down.apply(tape, &gated)?)
    }

    /// The same weights alone.
    pub fn without_adapters(&self) -> Self {
        let mut block = self.clone();
        block.projections_mut().into_iter().for_each(|(_, projection)| projection.adapter = None);
        block
    }

    pub fn parameters(&self) -> impl Iterator<Item = Arc<Parameter>> {
        let norms = [self.input_norm.clone(), self.post_norm.clone()].into_iter();
        let norms = norms.chain(self.qk_norms.iter().flatten().cloned());
        norms.chain(self.projections().into_iter().flat_map(|(_, projection)| projection.parameters()))
    }

    /// The matrices, by the last part of their names.
    pub fn projections(&self) -> [(&'static str, &Projection); 7] {
        [
            ("q_proj", &self.q),
            ("k_proj", &self.k),
            ("v_proj", &self.v),
            ("o_proj", &self.o),
            ("gate_proj", &self.gate),
            ("up_proj", &self.up),
            ("down_proj", &self.down),
        ]
    }

    pub fn projections_mut(&mut self) -> [(&'static str, &mut Projection); 7] {
        [
            ("q_proj", &mut self.q),
            ("k_proj", &mut self.k),
            ("v_proj", &mut self.v),
            ("o_proj", &mut self.o),
            ("gate_proj", &mut self.gate),
            ("up_proj", &mut self.up),
            ("down_proj", &mut self.down),
        ]
    }
}
