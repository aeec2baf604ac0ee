//! The language model: one decoder for Qwen2, Qwen3, Llama and SmolLM2, in training and in inference.

mod block;
mod lora;
mod pass;

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::model::{ModelConfig, RopeScaling, Weight, Weights};
use crate::ops::{Angles, Heads, Parameter, Placement, Tape, Value, wide_logits};
use crate::{Error, Result};

pub use lora::LoraConfig;
pub use pass::{Packed, Pass};

use block::Block;

/// A decoder of language, with its weights.
pub struct Decoder {
    config: ModelConfig,
    embedding: Arc<Parameter>,
    blocks: Vec<Block>,
    norm: Arc<Parameter>,
    /// The embedding, where they are tied.
    head: Arc<Parameter>,
    frequencies: Vec<f32>,
    placement: Placement,
}

impl Decoder {
    /// A decoder of these weights in f32 on the CPU; all of them learn, or none does.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a weight that is missing: the weights are another model's.
    pub fn new(config: &ModelConfig, weights: Weights, learns: bool) -> Result<Self> {
        Self::placed(config, weights, learns, &Placement::host())
    }

    /// [`Self::new`], elsewhere or in another type.
    ///
    /// # Errors
    /// As [`Self::new`]; those of the device.
    pub fn placed(config: &ModelConfig, weights: Weights, learns: bool, placement: &Placement) -> Result<Self> {
        let mut weights = Unused { weights: weights.into_tensors(), learns, placement };
        let embedding = weights.take("model.embed_tokens.weight")?;
        let blocks = (0..config.layers).map(|layer| Block::new(config, layer, &mut weights));
        let blocks = blocks.collect::<Result<_>>()?;
        let norm = weights.take("model.norm.weight")?;
        let head = if config.tied { embedding.clone() } else { weights.take("lm_head.weight")? };
        let frequencies = frequencies(config);
        let (config, placement) = (config.clone(), placement.clone());
        Ok(Self { config, embedding, blocks, norm, head, frequencies, placement })
    }

    /// A copy of all weights, without adapters.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn weights(&self) -> Result<Weights> {
        let all = self.parameters().into_iter().filter(|parameter| !parameter.is_adapter());
        let all = all.map(|parameter| {
            let weight = Weight { shape: parameter.value().dims().to_vec(), data: parameter.to_vec()? };
            Ok((parameter.name().to_owned(), weight))
        });
        Weights::new(&self.config, all.collect::<Result<Vec<_>>>()?)
    }

    /// The model as it is now, and stays: without adapters it shares the weights that do not learn, otherwise it is a copy.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn frozen(&self) -> Result<Self> {
        if self.parameters().iter().any(|parameter| parameter.learns() && !parameter.is_adapter()) {
            return Self::placed(&self.config, self.weights()?, false, &self.placement);
        }
        let blocks = self.blocks.iter().map(Block::without_adapters).collect();
        let (embedding, norm, head) = (self.embedding.clone(), self.norm.clone(), self.head.clone());
        let (config, placement) = (self.config.clone(), self.placement.clone());
        Ok(Self { config, embedding, blocks, norm, head, frequencies: self.frequencies.clone(), placement })
    }

    /// Where the weights are, and in which type.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// All weights, adapters among them, in the order of their names.
    pub fn parameters(&self) -> Vec<Arc<Parameter>> {
        let mut all = vec![self.embedding.clone(), self.norm.clone()];
        if !self.config.tied {
            all.push(self.head.clone());
        }
        all.extend(self.blocks.iter().flat_map(Block::parameters));
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// What turns hidden states into logits, `[vocabulary, hidden]`.
    pub fn head(&self) -> &Arc<Parameter> {
        &self.head
    }

    /// `[rows, vocabulary]` of last hidden states, `[rows, hidden]`; f32, or f64 where the model computes in it.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        if !self.placement.is_host() {
            return Ok(wide_logits(hidden, self.head.value())?);
        }
        let tape = Tape::off();
        Ok(crate::ops::linear(&tape, &tape.constant(hidden.clone()), &self.head, None)?.tensor)
    }

    /// How heads are laid out.
    pub fn heads(&self) -> Heads {
        Heads { heads: self.config.heads, kv_heads: self.config.kv_heads, dim: self.config.head_dim }
    }

    fn angles(&self, positions: &[u32]) -> Arc<Angles> {
        Angles::new(&self.frequencies, positions)
    }

    /// Hidden states of `tokens` before the last norm, where nothing is to be learnt; `attend` is given the layer, queries, keys
    /// and values.
    pub(crate) fn infer(
        &self,
        tokens: &[u32],
        positions: &[u32],
        attend: &mut dyn FnMut(usize, [&Value; 3]) -> candle_core::Result<Tensor>,
    ) -> Result<Tensor> {
        let tape = Tape::off();
        let angles = self.angles(positions);
        let mut x = crate::ops::embedding(&tape, &self.embedding, tokens)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(&tape, &x, &angles, &mut |qkv| Ok(tape.constant(attend(layer, qkv)?)))?;
        }
        Ok(x.tensor)
    }

    /// The last norm, of some rows of what [`Self::infer`] gave.
    pub(crate) fn finish(&self, x: &Tensor, rows: &[u32]) -> Result<Tensor> {
        let tape = Tape::off();
        Ok(self.last(&tape, &tape.constant(x.clone()), rows)?.tensor)
    }

    /// The last norm, of some rows.
    fn last(&self, tape: &Tape, x: &Value, rows: &[u32]) -> Result<Value> {
        let x = crate::ops::select_rows(tape, x, rows)?;
        Ok(crate::ops::rms_norm(tape, &x, &self.norm, self.config.rms_eps as f32)?)
    }
}

/// Weights that are still to be given out.
struct Unused<'a> {
    weights: BTreeMap<String, Weight>,
    learns: bool,
    placement: &'a Placement,
}

impl Unused<'_> {
    fn take(&mut self, name: &str) -> Result<Arc<Parameter>> {
        let Some(weight) = self.weights.remove(name) else {
            let remedy = "the weights are those of another configuration".into();
            return Err(Error::NotFound { what: format!("weight `{name}`"), remedy });
        };
        let value = Tensor::from_vec(weight.data, weight.shape, &Device::Cpu)?;
        Ok(Arc::new(Parameter::placed(name, value, self.learns, self.placement)?))
    }
}

/// Radians a position, one for each pair of values of a head.
fn frequencies(config: &ModelConfig) -> Vec<f32> {
    let pairs = config.head_dim / 2;
    let plain = |pair: usize| 1.0 / config.rope_theta.powf(2.0 * pair as f64 / config.head_dim as f64);
    (0..pairs)
        .map(|pair| config.rope_scaling.map_or(plain(pair), |scaling| stretch(plain(pair), scaling)) as f32)
        .collect()
}

/// Llama 3.1's: low frequencies are divided, high ones stay, those between are blended.
fn stretch(frequency: f64, scaling: RopeScaling) -> f64 {
    let turns = scaling.original_max_positions as f64 * frequency / std::f64::consts::TAU;
    let (low, high) = (scaling.low_freq_factor, scaling.high_freq_factor);
    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
    frequency * (kept + (1.0 - kept) / scaling.factor)
}
