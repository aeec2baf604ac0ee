//! How does a GGUF file (llama.cpp's format) become a configuration and weights in Hugging Face's names and order?

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use serde_json::json;

use super::weights::{EMBEDDING, HEAD, Weight, Weights, expected_tensors};
use super::{ModelConfig, RopeScaling};
use crate::{Error, Result};

/// Factors by which Llama 3.1's scaling divides the rotary frequencies.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// An open GGUF file.
#[derive(Debug)]
pub(crate) struct Gguf {
    path: PathBuf,
    content: Content,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut reader = BufReader::new(file);
        // The library divides by the alignment that the file gives, which may be 0.
        let read = catch_unwind(AssertUnwindSafe(|| Content::read(&mut reader)));
        let unusable = |found: String| Error::file(path, "a GGUF file", found);
        let content = read.map_err(|_| unusable("one that breaks its reader".into()))?;
        let content = content.map_err(|error| unusable(error.to_string()))?;
        let gguf = Self { path: path.to_path_buf(), content };
        if gguf.integer("split.count").is_some_and(|parts| parts > 1) {
            return Err(
                gguf.wrong("a model in one file", "a part of one; join the parts with llama-gguf-split --merge")
            );
        }
        Ok(gguf)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::file(&self.path, expected, found)
    }

    pub fn integer(&self, key: &str) -> Option<u64> {
        match *self.content.metadata.get(key)? {
            Value::U8(number) => Some(number.into()),
            Value::U16(number) => Some(number.into()),
            Value::U32(number) => Some(number.into()),
            Value::U64(number) => Some(number),
            Value::I8(number) => number.try_into().ok(),
            Value::I16(number) => number.try_into().ok(),
            Value::I32(number) => number.try_into().ok(),
            Value::I64(number) => number.try_into().ok(),
            _ => None,
        }
    }

    pub fn flag(&self, key: &str) -> bool {
        matches!(self.content.metadata.get(key), Some(Value::Bool(true)))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.content.metadata.get(key).and_then(as_text)
    }

    pub fn list(&self, key: &str) -> Option<&[Value]> {
        match self.content.metadata.get(key)? {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// The texts of a list; an error where there is none.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let texts = self.list(key).and_then(|list| list.iter().map(as_text).collect());
        texts.ok_or_else(|| self.wrong(format!("`{key}`, a list of texts"), "none"))
    }

    /// Tokens that end a text.
    pub fn eos(&self) -> Vec<u32> {
        let ids = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"].map(|key| self.integer(key));
        let mut ids: Vec<u32> = ids.into_iter().flatten().filter_map(|id| u32::try_from(id).ok()).collect();
        ids.dedup();
        ids
    }

    /// The configuration, by way of the fields of a `config.json`, so that one reader knows what is accepted.
    pub fn config(&self) -> Result<ModelConfig> {
        let kind = self.text("general.architecture").unwrap_or("nothing");
        let architecture = match kind {
            "llama" => "LlamaForCausalLM",
            "qwen2" => "Qwen2ForCausalLM",
            "qwen3" => "Qwen3ForCausalLM",
            other => return Err(self.wrong("`general.architecture` to be llama, qwen2 or qwen3", other)),
        };
        let integer = |key: &str| self.integer(&format!("{kind}.{key}"));
        // The shortest decimal of an f32: 0.00001 rather than 0.00000999...
        let decimal = |key: &str| match self.content.metadata.get(&format!("{kind}.{key}")) {
            Some(Value::F32(number)) => number.to_string().parse::<f64>().ok(),
            Some(Value::F64(number)) => Some(*number),
            _ => None,
        };
        if let Some(other) = self.text(&format!("{kind}.rope.scaling.type")).filter(|kind| *kind != "none") {
            return Err(self.wrong("no scaling of positions, or Llama 3.1's", other));
        }
        let (width, heads) = (integer("embedding_length"), integer("attention.head_count"));
        let head_dim = integer("attention.key_length").or_else(|| width?.checked_div(heads?));
        for key in ["attention.value_length", "rope.dimension_count"] {
            if integer(key).is_some_and(|found| Some(found) != head_dim) {
                return Err(
                    self.wrong(format!("`{kind}.{key}` to be the width of a head"), format!("{:?}", integer(key)))
                );
            }
        }
        let embedding = self.content.tensor_infos.get("token_embd.weight");
        let config = json!({
            "architectures": [architecture],
            "hidden_size": width,
            "num_hidden_layers": integer("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": integer("attention.head_count_kv"),
            "head_dim": head_dim,
            "intermediate_size": integer("feed_forward_length"),
            "vocab_size": embedding.and_then(|info| info.shape.dims().first().copied()),
            "max_position_embeddings": integer("context_length"),
            "rope_theta": decimal("rope.freq_base"),
            "rms_norm_eps": decimal("attention.layer_norm_rms_epsilon"),
            "tie_word_embeddings": !self.content.tensor_infos.contains_key("output.weight"),
            "eos_token_id": self.eos(),
        });
        let mut config = ModelConfig::from_json(&self.path, &config)?;
        if self.content.tensor_infos.contains_key(ROPE_FACTORS) {
            config.rope_scaling = Some(self.rope_scaling(&config)?);
        }
        Ok(config)
    }

    /// The file has the outcome of the scaling, one factor a frequency. The settings are those of Llama 3.1 and 3.2 where they give
    /// these factors, and not known where they do not.
    fn rope_scaling(&self, config: &ModelConfig) -> Result<RopeScaling> {
        let factors = self.tensor(ROPE_FACTORS, &[config.head_dim / 2])?;
        let largest = factors.data.iter().copied().fold(1.0, f32::max);
        let scaling = RopeScaling {
            factor: largest.into(),
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_positions: 8192,
        };
        let expected = (0..config.head_dim / 2).map(|pair| {
            let exponent = (2 * pair) as f64 / config.head_dim as f64;
            let turns = 8192.0 / (std::f64::consts::TAU * config.rope_theta.powf(exponent));
            let smooth = ((turns - 1.0) / 3.0).clamp(0.0, 1.0);
            1.0 / ((1.0 - smooth) / scaling.factor + smooth)
        });
        match expected.zip(&factors.data).all(|(expected, &found)| (expected / f64::from(found) - 1.0).abs() < 1e-3) {
            true => Ok(scaling),
            false => Err(self.wrong(
                format!("`{ROPE_FACTORS}` as Llama 3.1 and 3.2 have them"),
                "other factors; use the model's folder of safetensors",
            )),
        }
    }

    /// The weights, in f32.
    pub fn weights(&self, config: &ModelConfig) -> Result<Weights> {
        let permuted = self.text("general.architecture") == Some("llama");
        let mut tensors = Vec::new();
        let mut known = HashSet::from([ROPE_FACTORS.to_owned()]);
        for (name, shape) in expected_tensors(config) {
            let theirs = gguf_name(&name);
            let mut weight = self.tensor(&theirs, &shape)?;
            if permuted && (name.contains("self_attn.q_proj") || name.contains("self_attn.k_proj")) {
                restore_order(&mut weight, config.head_dim);
            }
            known.insert(theirs);
            tensors.push((name, weight));
        }
        if let Some((name, info)) = self.content.tensor_infos.iter().find(|(name, _)| !known.contains(*name)) {
            let expected = format!("tensor `{name}` to be absent from {} layers of this architecture", config.layers);
            return Err(self.wrong(expected, format!("one of shape {:?}", info.shape.dims())));
        }
        Weights::from_file(&self.path, config, tensors)
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Weight> {
        let expected = || format!("tensor `{name}` of shape {shape:?}");
        let info = self.content.tensor_infos.get(name).ok_or_else(|| self.wrong(expected(), "none of this name"))?;
        // Before anything is allocated for it.
        if info.shape.dims() != shape {
            return Err(self.wrong(expected(), format!("{:?}", info.shape.dims())));
        }
        let mut file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let unusable = |error: candle_core::Error| self.wrong(expected(), error.to_string());
        let tensor = self.content.tensor(&mut file, name, &Device::Cpu).map_err(unusable)?;
        let numbers = tensor.dequantize(&Device::Cpu).and_then(|tensor| tensor.flatten_all()?.to_vec1());
        Ok(Weight { shape: shape.to_vec(), data: numbers.map_err(unusable)? })
    }
}

fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// llama.cpp puts the two halves of a head's rows, which turn together, side by side; transformers keeps them apart.
fn restore_order(weight: &mut Weight, head_dim: usize) {
    let width = weight.shape.get(1).copied().unwrap_or(1);
    for head in weight.data.chunks_mut(head_dim * width) {
        let rows: Vec<&[f32]> = head.chunks(width).collect();
        let halves = rows.iter().step_by(2).chain(rows.iter().skip(1).step_by(2));
        let restored: Vec<f32> = halves.flat_map(|row| row.iter().copied()).collect();
        head.copy_from_slice(&restored);
    }
}

/// llama.cpp's name for a tensor.
fn gguf_name(name: &str) -> String {
    match name {
        EMBEDDING => return "token_embd.weight".into(),
        HEAD => return "output.weight".into(),
        "model.norm.weight" => return "output_norm.weight".into(),
        _ => {}
    }
    const PARTS: [(&str, &str); 11] = [
        ("input_layernorm", "attn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    let name = name.replacen("model.layers.", "blk.", 1);
    PARTS.iter().fold(name, |name, (ours, theirs)| name.replacen(ours, theirs, 1))
}
