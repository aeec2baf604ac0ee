//! Low-rank adapters: frozen weights with small matrices beside them that learn (Hu et al. 2022).

use std::sync::Arc;

use candle_core::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Decoder;
use crate::ops::Parameter;
use crate::{Error, Result};

/// What is added to a projection: `scale * x A^T B^T`.
#[derive(Clone)]
pub(super) struct Adapter {
    /// `[rank, in]`.
    pub a: Arc<Parameter>,
    /// `[out, rank]`.
    pub b: Arc<Parameter>,
    pub scale: f32,
}

/// Which adapters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// Values between the two matrices.
    pub rank: usize,
    /// Adapters are scaled by `alpha / rank`.
    pub alpha: f64,
    /// Which projections: `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`.
    pub targets: Vec<String>,
}

impl Default for LoraConfig {
    fn default() -> Self {
        let targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
        Self { rank: 16, alpha: 32.0, targets: targets.map(String::from).to_vec() }
    }
}

impl Decoder {
    /// Puts an adapter beside each projection that is named. B is 0, so the model says what it said; A is uniform within
    /// `1 / sqrt(in)`, as PEFT's. The decoder should have been made with weights that do not learn.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a projection that is not known, or a rank of 0.
    pub fn add_adapters(&mut self, config: &LoraConfig, seed: u64) -> Result<()> {
        if config.rank == 0 {
            return Err(Error::invalid("lora.rank", "1 or more", "0"));
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut known = Vec::new();
        for block in &mut self.blocks {
            known = block.projections().map(|(name, _)| name).to_vec();
            for (name, projection) in block.projections_mut() {
                if !config.targets.iter().any(|target| target == name) {
                    continue;
                }
                let (out, input) = projection.weight.value().dims2()?;
                let bound = 1.0 / (input as f32).sqrt();
                let values: Vec<f32> = (0..config.rank * input).map(|_| random.random_range(-bound..bound)).collect();
                let base = projection.weight.name().trim_end_matches(".weight").to_owned();
                let parameter =
                    |part: &str, value| Arc::new(Parameter::new(format!("{base}.{part}.weight"), value, true));
                let a = Tensor::from_vec(values, (config.rank, input), &Device::Cpu)?;
                let b = Tensor::zeros((out, config.rank), a.dtype(), &Device::Cpu)?;
                let (a, b) = (parameter("lora_A", a), parameter("lora_B", b));
                projection.adapter = Some(Adapter { a, b, scale: (config.alpha / config.rank as f64) as f32 });
            }
        }
        match config.targets.iter().find(|target| !known.contains(&target.as_str())) {
            Some(unknown) => Err(Error::invalid("lora.targets", known.join(", "), unknown.clone())),
            None => Ok(()),
        }
    }
}
