//! Which decoder is this, and how large are its parts?

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// The largest width, vocabulary or number of positions: far beyond every known model, and far from an overflow.
const LARGEST: usize = 1 << 24;
/// The largest number of layers and of heads.
const MOST: usize = 1 << 12;
const KNOWN: &str = "LlamaForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM";

/// The shape of a decoder of the Llama kind: RMS norms, rotary positions, grouped queries, SwiGLU.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Decoder blocks.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Width inside the feed-forward block.
    pub intermediate: usize,
    /// Rows of the embedding; a tokenizer may have fewer tokens.
    pub vocabulary: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the rotary frequencies are stretched, if they are.
    pub rope_scaling: Option<RopeScaling>,
    /// Added to the mean square in RMS norms.
    pub rms_eps: f64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether the projections of queries, keys and values have biases (Qwen2).
    pub qkv_bias: bool,
    /// Whether each head of queries and keys has an RMS norm (Qwen3).
    pub qk_norm: bool,
    /// Positions that the model was made for.
    pub max_positions: usize,
    /// Tokens that end a text.
    pub eos: Vec<u32>,
}

/// Llama 3.1's scaling of rotary frequencies (`rope_type` "llama3").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeScaling {
    /// What low frequencies are divided by.
    pub factor: f64,
    /// Wavelengths longer than `original_max_positions` over this are divided in full.
    pub low_freq_factor: f64,
    /// Wavelengths shorter than `original_max_positions` over this stay as they are.
    pub high_freq_factor: f64,
    /// Positions before the stretching.
    pub original_max_positions: usize,
}

impl ModelConfig {
    /// Reads a `config.json` of Hugging Face's libraries (versions 4 and 5 of transformers).
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for what is no such file, an architecture that is not known, a feature that is not (sliding
    /// windows, quantised weights, other scalings of positions), and numbers of which no model can be made.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_json(path, &read_json(path)?)
    }

    /// As [`ModelConfig::open`]; `path` is for messages.
    pub(crate) fn from_json(path: &Path, value: &Value) -> Result<Self> {
        let fields = Fields { path, map: value.as_object().ok_or_else(|| Error::file(path, "a JSON object", "none"))? };
        let family = fields.family()?;
        fields.refuse_the_unknown(family)?;
        let hidden = fields.count("hidden_size")?;
        let heads = fields.count("num_attention_heads")?;
        let default_head = || match family {
            "qwen3" => Ok(128),
            _ if heads > 0 && hidden.is_multiple_of(heads) => Ok(hidden / heads),
            _ => Err(fields.wrong("hidden_size", "a multiple of `num_attention_heads`", hidden)),
        };
        let config = Self {
            hidden,
            layers: fields.count("num_hidden_layers")?,
            heads,
            kv_heads: fields.optional_count("num_key_value_heads")?.unwrap_or(heads),
            head_dim: fields.optional_count("head_dim")?.map_or_else(default_head, Ok)?,
            intermediate: fields.count("intermediate_size")?,
            vocabulary: fields.count("vocab_size")?,
            rope_theta: fields.rope_theta()?,
            rope_scaling: fields.rope_scaling()?,
            rms_eps: fields.number("rms_norm_eps")?.unwrap_or(1e-6),
            tied: fields.flag("tie_word_embeddings")?,
            qkv_bias: family == "qwen2",
            qk_norm: family == "qwen3",
            max_positions: fields.count("max_position_embeddings")?,
            eos: fields.ids("eos_token_id")?,
        };
        config.check().map_err(|(what, expected, found)| fields.wrong(what, expected, found))?;
        Ok(config)
    }

    /// The `config.json` with which transformers loads the weights; `dtype` as torch names it.
    pub(crate) fn to_json(&self, dtype: &str) -> Value {
        let (architecture, family) = match (self.qkv_bias, self.qk_norm) {
            (true, _) => ("Qwen2ForCausalLM", "qwen2"),
            (_, true) => ("Qwen3ForCausalLM", "qwen3"),
            _ => ("LlamaForCausalLM", "llama"),
        };
        let scaling = self.rope_scaling.map(|scaling| {
            json!({
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_positions,
            })
        });
        json!({
            "architectures": [architecture],
            "model_type": family,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.max_positions,
            "rope_theta": self.rope_theta,
            "rope_scaling": scaling,
            "rms_norm_eps": self.rms_eps,
            "hidden_act": "silu",
            "attention_bias": false,
            "mlp_bias": false,
            "use_sliding_window": false,
            "tie_word_embeddings": self.tied,
            "bos_token_id": null,
            "eos_token_id": self.eos,
            "torch_dtype": dtype,
        })
    }

    /// Whether a model can be made of these numbers; else which field, what it may be, and what it is.
    pub(crate) fn check(&self) -> std::result::Result<(), (&'static str, &'static str, String)> {
        let counts = [
            ("hidden_size", self.hidden, LARGEST, "1 to 16777216"),
            ("num_hidden_layers", self.layers, MOST, "1 to 4096"),
            ("num_attention_heads", self.heads, MOST, "1 to 4096"),
            ("num_key_value_heads", self.kv_heads, MOST, "1 to 4096"),
            ("head_dim", self.head_dim, MOST, "1 to 4096"),
            ("intermediate_size", self.intermediate, LARGEST, "1 to 16777216"),
            ("vocab_size", self.vocabulary, LARGEST, "1 to 16777216"),
            ("max_position_embeddings", self.max_positions, LARGEST, "1 to 16777216"),
        ];
        for (what, found, most, expected) in counts {
            if found == 0 || found > most {
                return Err((what, expected, found.to_string()));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(("num_key_value_heads", "a divisor of `num_attention_heads`", self.kv_heads.to_string()));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(("head_dim", "an even number", self.head_dim.to_string()));
        }
        if self.qkv_bias && self.qk_norm {
            return Err(("architecture", "biases (Qwen2) or norms of heads (Qwen3)", "both".into()));
        }
        let positive = |number: f64| number.is_finite() && number > 0.0;
        for (what, number) in [("rope_theta", self.rope_theta), ("rms_norm_eps", self.rms_eps)] {
            if !positive(number) {
                return Err((what, "a positive number", number.to_string()));
            }
        }
        if let Some(scaling) = self.rope_scaling {
            let factors = [scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor];
            let usable = factors.into_iter().all(positive) && scaling.low_freq_factor < scaling.high_freq_factor;
            if !usable || !(1..=LARGEST).contains(&scaling.original_max_positions) {
                return Err((
                    "rope_scaling",
                    "positive factors, the low one below the high one",
                    format!("{scaling:?}"),
                ));
            }
        }
        match self.eos.iter().find(|&&id| id as usize >= self.vocabulary) {
            Some(id) => Err(("eos_token_id", "ids below `vocab_size`", id.to_string())),
            None => Ok(()),
        }
    }
}

/// A JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::file(path, "JSON", error.to_string()))
}

/// The ids in a field that holds one, several or none.
pub(crate) fn token_ids(value: Option<&Value>) -> Option<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => id(one).map(|id| vec![id]),
    }
}

/// The fields of a `config.json`.
struct Fields<'a> {
    path: &'a Path,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn wrong(&self, what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
        Error::file(self.path, format!("`{what}` to be {expected}"), found.to_string())
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn family(&self) -> Result<&'static str> {
        let named = self.get("architectures").and_then(|all| all[0].as_str());
        let kind = self.get("model_type").and_then(Value::as_str);
        match (named, kind) {
            (Some("LlamaForCausalLM"), _) | (None, Some("llama")) => Ok("llama"),
            (Some("Qwen2ForCausalLM"), _) | (None, Some("qwen2")) => Ok("qwen2"),
            (Some("Qwen3ForCausalLM"), _) | (None, Some("qwen3")) => Ok("qwen3"),
            (other, kind) => Err(self.wrong("architectures", KNOWN, other.or(kind).unwrap_or("nothing"))),
        }
    }

    /// Refuses what would change the numbers and is not computed here.
    fn refuse_the_unknown(&self, family: &str) -> Result<()> {
        let refuse = |name: &str, expected: &str| match self.get(name) {
            Some(found) => Err(self.wrong(name, expected, found)),
            None => Ok(()),
        };
        refuse("quantization_config", "absent: weights in f32, bf16 or f16")?;
        let is_on = |name: &str| self.get(name).is_some_and(|value| value != &Value::Bool(false));
        if is_on("use_sliding_window") {
            refuse("use_sliding_window", "false: every layer attends to the whole text")?;
        }
        let is_full = |layer: &Value| layer == "full_attention";
        if self.get("layer_types").and_then(Value::as_array).is_some_and(|all| !all.iter().all(is_full)) {
            refuse("layer_types", "`full_attention` for every layer")?;
        }
        if family != "qwen2" && is_on("attention_bias") {
            refuse("attention_bias", "false, but for Qwen2ForCausalLM")?;
        }
        if is_on("mlp_bias") {
            refuse("mlp_bias", "false")?;
        }
        if self.get("hidden_act").is_some_and(|act| act != "silu") {
            refuse("hidden_act", "silu")?;
        }
        if self.get("partial_rotary_factor").is_some_and(|share| share.as_f64() != Some(1.0)) {
            refuse("partial_rotary_factor", "1")?;
        }
        Ok(())
    }

    fn optional_count(&self, name: &str) -> Result<Option<usize>> {
        let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
        let read = |value: &Value| count(value).ok_or_else(|| self.wrong(name, "a count", value));
        self.get(name).map(read).transpose()
    }

    fn count(&self, name: &str) -> Result<usize> {
        self.optional_count(name)?.ok_or_else(|| self.wrong(name, "a count", "nothing"))
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        let read = |value: &Value| value.as_f64().ok_or_else(|| self.wrong(name, "a number", value));
        self.get(name).map(read).transpose()
    }

    fn flag(&self, name: &str) -> Result<bool> {
        let read = |value: &Value| value.as_bool().ok_or_else(|| self.wrong(name, "true or false", value));
        self.get(name).map_or(Ok(false), read)
    }

    fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let found = self.get(name);
        token_ids(found).ok_or_else(|| self.wrong(name, "token ids", found.unwrap_or(&Value::Null)))
    }

    /// What is said about positions: `rope_parameters` since version 5 of transformers, `rope_scaling` before.
    fn rope(&self) -> Result<Option<Fields<'_>>> {
        let named = ["rope_parameters", "rope_scaling"].into_iter().find_map(|name| Some((name, self.get(name)?)));
        let Some((name, value)) = named else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.wrong(name, "a JSON object", value))?;
        Ok(Some(Fields { path: self.path, map }))
    }

    fn rope_theta(&self) -> Result<f64> {
        let inside = self.rope()?.map(|rope| rope.number("rope_theta")).transpose()?.flatten();
        Ok(inside.or(self.number("rope_theta")?).unwrap_or(10_000.0))
    }

    fn rope_scaling(&self) -> Result<Option<RopeScaling>> {
        let Some(rope) = self.rope()? else { return Ok(None) };
        let kind = rope.get("rope_type").or_else(|| rope.get("type")).and_then(Value::as_str).unwrap_or("default");
        let factor = |name| rope.number(name)?.ok_or_else(|| rope.wrong(name, "a number", "nothing"));
        match kind {
            "default" => Ok(None),
            "llama3" => Ok(Some(RopeScaling {
                factor: factor("factor")?,
                low_freq_factor: factor("low_freq_factor")?,
                high_freq_factor: factor("high_freq_factor")?,
                original_max_positions: rope.count("original_max_position_embeddings")?,
            })),
            other => Err(self.wrong("rope_type", "default or llama3", other)),
        }
    }
}
