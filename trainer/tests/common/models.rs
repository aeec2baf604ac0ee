//! Golden models, and GGUF files made of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use hindsearch_trainer::{ChatTemplate, ModelFiles, Weight};
use serde_json::Value as Json;

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).expect("a golden file")).expect("JSON")
}

pub fn model(name: &str) -> ModelFiles {
    ModelFiles::open(&golden("models").join(name)).expect("a golden model")
}

/// A template of the golden ones.
pub fn template(name: &str) -> ChatTemplate {
    let source = std::fs::read_to_string(golden("templates").join(name)).expect("a golden template");
    let tokens = [("bos_token", "<|begin_of_text|>"), ("eos_token", "<|im_end|>")];
    let tokens = tokens.map(|(name, token)| (name.to_owned(), token.to_owned()));
    ChatTemplate::from_source(&source, BTreeMap::from(tokens)).expect("a template")
}

/// The file of SmolLM2, where this machine has it.
pub fn smollm2() -> Option<PathBuf> {
    let path = std::env::var_os("HINDSEARCH_SMOLLM2").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: HINDSEARCH_SMOLLM2 does not name the GGUF file of SmolLM2-135M-Instruct");
    }
    path
}

/// What a GGUF file is made of.
#[derive(Clone)]
pub struct GgufParts {
    pub metadata: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, (Weight, GgmlDType)>,
}

impl GgufParts {
    /// A golden model, as llama.cpp's converter would write it in f32, with the golden tokenizer.
    pub fn of(name: &str, splitting: &str) -> Self {
        let model = model(name);
        let config = model.config().clone();
        let mut metadata = BTreeMap::from([("general.architecture".to_owned(), Value::String(name.into()))]);
        let counts = [
            ("embedding_length", config.hidden),
            ("block_count", config.layers),
            ("attention.head_count", config.heads),
            ("attention.head_count_kv", config.kv_heads),
            ("attention.key_length", config.head_dim),
            ("feed_forward_length", config.intermediate),
            ("context_length", config.max_positions),
        ];
        for (key, count) in counts {
            metadata.insert(format!("{name}.{key}"), Value::U32(count as u32));
        }
        metadata.insert(format!("{name}.rope.freq_base"), Value::F32(config.rope_theta as f32));
        metadata.insert(format!("{name}.attention.layer_norm_rms_epsilon"), Value::F32(config.rms_eps as f32));
        tokenizer(&mut metadata, splitting);

        let mut tensors = BTreeMap::new();
        for (tensor, mut weight) in model.weights().expect("golden weights").into_tensors() {
            let is_turned = tensor.contains("q_proj") || tensor.contains("k_proj");
            if name == "llama" && is_turned {
                weight = turned(&weight, config.head_dim);
            }
            tensors.insert(llama_cpp_name(&tensor), (weight, GgmlDType::F32));
        }
        Self { metadata, tensors }
    }

    pub fn write(&self, path: &Path) {
        let mut file = File::create(path).expect("a file");
        let tensor = |(weight, kind): &(Weight, GgmlDType)| {
            let tensor = Tensor::from_vec(weight.data.clone(), weight.shape.clone(), &Device::Cpu).expect("a tensor");
            QTensor::quantize(&tensor, *kind).expect("a quantised tensor")
        };
        let tensors: Vec<(&str, QTensor)> =
            self.tensors.iter().map(|(name, stored)| (name.as_str(), tensor(stored))).collect();
        let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
        let metadata: Vec<(&str, &Value)> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        gguf_file::write(&mut file, &metadata, &tensors).expect("a GGUF file");
    }
}

fn tokenizer(metadata: &mut BTreeMap<String, Value>, splitting: &str) {
    let tokenizer = json(&golden("models/llama/tokenizer.json"));
    let mut tokens: BTreeMap<u64, (&str, i32)> = BTreeMap::new();
    for (token, id) in tokenizer["model"]["vocab"].as_object().expect("a vocabulary") {
        tokens.insert(id.as_u64().expect("an id"), (token, 1));
    }
    for added in tokenizer["added_tokens"].as_array().expect("added tokens") {
        let kind = if added["special"] == true { 3 } else { 4 };
        tokens.insert(added["id"].as_u64().expect("an id"), (added["content"].as_str().expect("a token"), kind));
    }
    let merge = |merge: &Json| match merge {
        Json::Array(pair) => format!("{} {}", pair[0].as_str().expect("a part"), pair[1].as_str().expect("a part")),
        other => other.as_str().expect("a merge").to_owned(),
    };
    let merges = tokenizer["model"]["merges"].as_array().expect("merges").iter().map(merge);
    let mut set = |key: &str, value| metadata.insert(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::String("gpt2".into()));
    set("pre", Value::String(splitting.into()));
    set("tokens", Value::Array(tokens.values().map(|(token, _)| Value::String((*token).to_owned())).collect()));
    set("token_type", Value::Array(tokens.values().map(|(_, kind)| Value::I32(*kind)).collect()));
    set("merges", Value::Array(merges.map(Value::String).collect()));
    set("bos_token_id", Value::U32(1));
    set("eos_token_id", Value::U32(2));
}

/// As llama.cpp keeps the rows of queries and keys: row i of a head's first half, then row i of its second half.
fn turned(weight: &Weight, head_dim: usize) -> Weight {
    let width = weight.shape[1];
    let row = |number: usize| &weight.data[number * width..(number + 1) * width];
    let heads = weight.shape[0] / head_dim;
    let mut data = Vec::new();
    for head in 0..heads {
        for pair in 0..head_dim / 2 {
            data.extend_from_slice(row(head * head_dim + pair));
            data.extend_from_slice(row(head * head_dim + head_dim / 2 + pair));
        }
    }
    Weight { shape: weight.shape.clone(), data }
}

fn llama_cpp_name(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".into(),
        "model.norm.weight" => return "output_norm.weight".into(),
        "lm_head.weight" => return "output.weight".into(),
        _ => {}
    }
    let (block, part) = name.trim_start_matches("model.layers.").split_once('.').expect("a block");
    let (module, kind) = part.rsplit_once('.').expect("a kind");
    let module = match module {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        other => panic!("{other}"),
    };
    format!("blk.{block}.{module}.{kind}")
}
