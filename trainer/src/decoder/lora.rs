//! Low-rank adapters: frozen weights with small matrices beside them that learn (Hu et al. 2022).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use hindsearch_indexes::WholeFile;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Decoder;
use crate::model::{StoredType, Weight, Weights, write_tensors};
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

/// The projections of a block.
const TARGETS: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
/// More would be more than the weights themselves.
const MOST_RANK: usize = 1 << 14;

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
        Self { rank: 16, alpha: 32.0, targets: TARGETS.map(String::from).to_vec() }
    }
}

impl LoraConfig {
    /// What types cannot say.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a rank of 0, a scale that is not finite, and projections that no model has.
    pub fn check(&self) -> Result<()> {
        if self.rank == 0 || self.rank > MOST_RANK {
            return Err(Error::invalid("lora.rank", format!("1 to {MOST_RANK}"), self.rank.to_string()));
        }
        if !self.alpha.is_finite() {
            return Err(Error::invalid("lora.alpha", "a finite number", self.alpha.to_string()));
        }
        let unknown = self.targets.iter().find(|target| !TARGETS.contains(&target.as_str()));
        match unknown.cloned().or(self.targets.is_empty().then(|| "none".into())) {
            Some(found) => Err(Error::invalid("lora.targets", format!("one or more of {}", TARGETS.join(", ")), found)),
            None => Ok(()),
        }
    }
}

impl Decoder {
    /// A copy of all weights with the adapters added to them: the model without adapters that says the same, up to rounding.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn merged(&self) -> Result<Weights> {
        let mut tensors = self.weights()?.into_tensors();
        for projection in self.blocks.iter().flat_map(|block| block.projections().map(|(_, projection)| projection)) {
            let (Some(adapter), Some(weight)) = (&projection.adapter, tensors.get_mut(projection.weight.name())) else {
                continue;
            };
            // W + scale * B A, row by row of W.
            let (a, b) = (adapter.a.to_vec()?, adapter.b.to_vec()?);
            let (rank, input) = adapter.a.value().dims2()?;
            for (row, b) in weight.data.chunks_exact_mut(input).zip(b.chunks_exact(rank)) {
                for (a, b) in a.chunks_exact(input).zip(b) {
                    row.iter_mut().zip(a).for_each(|(weight, a)| *weight += adapter.scale * b * a);
                }
            }
        }
        Weights::new(&self.config, tensors)
    }

    /// Writes the adapters as PEFT reads them (`adapter_config.json`, `adapter_model.safetensors`) into a folder, whose name comes
    /// last; `base` names the model that they belong to.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there are no adapters or something is in the way; [`Error::Io`].
    pub fn write_adapters(&self, folder: &Path, config: &LoraConfig, base: &str) -> Result<()> {
        let adapters = self.parameters().into_iter().filter(|parameter| parameter.is_adapter());
        let named = adapters.map(|parameter| {
            let weight = Weight { shape: parameter.value().dims().to_vec(), data: parameter.to_vec()? };
            Ok((format!("base_model.model.{}", parameter.name()), weight))
        });
        let tensors = named.collect::<Result<Vec<_>>>()?;
        if tensors.is_empty() {
            return Err(Error::invalid("the model", "one with adapters", "none"));
        }
        let described = json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": config.rank,
            "lora_alpha": config.alpha, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": false,
            "inference_mode": true, "target_modules": config.targets,
        });
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let tensors: Vec<(&str, &Weight)> = tensors.iter().map(|(name, weight)| (name.as_str(), weight)).collect();
        write_tensors(&folder.join("adapter_model.safetensors"), &tensors, StoredType::F32)?;
        let path = folder.join("adapter_config.json");
        let mut file = WholeFile::create(&path)?;
        file.write_all(format!("{described:#}\n").as_bytes()).map_err(Error::io("write", &path))?;
        Ok(file.publish()?)
    }

    /// Puts an adapter beside each projection that is named. B is 0, so the model says what it said; A is uniform within
    /// `1 / sqrt(in)`, as PEFT's. The decoder should have been made with weights that do not learn.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a projection that is not known, or a rank of 0.
    pub fn add_adapters(&mut self, config: &LoraConfig, seed: u64) -> Result<()> {
        config.check()?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for block in &mut self.blocks {
            for (name, projection) in block.projections_mut() {
                if !config.targets.iter().any(|target| target == name) {
                    continue;
                }
                let (out, input) = projection.weight.value().dims2()?;
                let bound = 1.0 / (input as f32).sqrt();
                let values: Vec<f32> = (0..config.rank * input).map(|_| random.random_range(-bound..bound)).collect();
                let base = projection.weight.name().trim_end_matches(".weight").to_owned();
                let parameter = |part: &str, value| {
                    Parameter::placed(format!("{base}.{part}.weight"), value, true, &self.placement).map(Arc::new)
                };
                let a = Tensor::from_vec(values, (config.rank, input), &Device::Cpu)?;
                let b = Tensor::zeros((out, config.rank), a.dtype(), &Device::Cpu)?;
                let (a, b) = (parameter("lora_A", a)?, parameter("lora_B", b)?);
                projection.adapter = Some(Adapter { a, b, scale: (config.alpha / config.rank as f64) as f32 });
            }
        }
        Ok(())
    }
}
