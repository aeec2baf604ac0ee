//! A model's files keep their promise: what transformers and llama.cpp wrote is read to the last bit, and what is written is what
//! was read. The golden models are from `golden/make_models.py`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use common::models::{GgufParts, golden, json, model};
use hindsearch_trainer::{
    ModelConfig, ModelFiles, ModelOutput, RopeScaling, StoredType, Weight, Weights, expected_tensors, read_tensors,
    write_model,
};

#[test]
fn configurations_are_read_as_transformers_wrote_them() {
    let llama = ModelConfig {
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        intermediate: 48,
        vocabulary: 384,
        rope_theta: 500_000.0,
        rope_scaling: Some(RopeScaling {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_positions: 64,
        }),
        rms_eps: 1e-5,
        tied: false,
        qkv_bias: false,
        qk_norm: false,
        max_positions: 512,
        eos: vec![0, 2],
    };
    assert_eq!(*model("llama").config(), llama);
    let qwen2 = ModelConfig {
        rope_theta: 10_000.0,
        rope_scaling: None,
        rms_eps: 1e-6,
        tied: true,
        qkv_bias: true,
        eos: vec![2],
        ..llama
    };
    assert_eq!(*model("qwen2").config(), qwen2);
    let qwen3 = ModelConfig { head_dim: 16, qkv_bias: false, qk_norm: true, ..qwen2 };
    assert_eq!(*model("qwen3").config(), qwen3);
}

#[test]
fn weights_are_those_that_transformers_wrote() {
    let facts = json(&golden("models.json"));
    for name in ["llama", "qwen2", "qwen3"] {
        let model = model(name);
        let weights = model.weights().unwrap();
        let facts = facts[name].as_object().unwrap();
        let expected = expected_tensors(model.config());
        assert_eq!(expected.len(), facts.len(), "{name}");
        for (tensor, shape) in expected {
            let (weight, fact) = (weights.get(&tensor).unwrap(), &facts[&tensor]);
            assert_eq!(serde_json::json!(shape), fact["shape"], "{name} {tensor}");
            let sum: f64 = weight.data.iter().map(|&number| f64::from(number)).sum();
            assert!((sum - fact["sum"].as_f64().unwrap()).abs() < 1e-9, "{name} {tensor}: {sum}");
            let ends = [&weight.data[..3], &weight.data[weight.data.len() - 3..]];
            for (numbers, end) in ends.into_iter().zip(["first", "last"]) {
                let golden = fact[end].as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32);
                assert_eq!(numbers, golden.collect::<Vec<_>>(), "{name} {tensor}");
            }
        }
    }
}

#[test]
fn a_model_that_is_written_is_the_one_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["llama", "qwen2", "qwen3"] {
        let first = model(name);
        let weights = first.weights().unwrap();
        for (shards, shard_bytes) in [(1, 1 << 30), (3, 60_000)] {
            let path = folder.path().join(format!("{name}-{shards}"));
            let output = ModelOutput { files: first.companions().unwrap(), shard_bytes, ..ModelOutput::default() };
            write_model(&path, first.config(), &weights, &output).unwrap();
            let second = ModelFiles::open(&path).unwrap();
            assert_eq!(second.config(), first.config());
            assert_eq!(second.weights().unwrap(), weights);
            assert_eq!(second.companions().unwrap(), first.companions().unwrap());
            let files = fs::read_dir(&path).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
            let mut files: Vec<String> = files.filter(|file| file.ends_with(".safetensors")).collect();
            files.sort();
            assert_eq!(files.len() == 1, shards == 1, "{files:?}");
            let tensors = files.iter().flat_map(|file| read_tensors(&path.join(file)).unwrap());
            assert_eq!(tensors.filter(|(name, _)| name == "lm_head.weight").count(), usize::from(!first.config().tied));
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 6, "nothing but the models: {left:?}");
}

#[test]
fn bf16_rounds_to_the_nearest_and_loses_nothing_that_was_bf16() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, config: &ModelConfig, weights: &Weights| {
        let path = folder.path().join(name);
        let output = ModelOutput { stored: StoredType::Bf16, ..ModelOutput::default() };
        write_model(&path, config, weights, &output).unwrap();
        ModelFiles::open(&path).unwrap().weights().unwrap()
    };
    let qwen2 = model("qwen2");
    let weights = qwen2.weights().unwrap();
    assert_eq!(write("qwen2", qwen2.config(), &weights), weights);

    let llama = model("llama");
    let weights = llama.weights().unwrap();
    let rounded = write("llama", llama.config(), &weights);
    for (name, _) in expected_tensors(llama.config()) {
        let pairs = weights.get(&name).unwrap().data.iter().zip(&rounded.get(&name).unwrap().data);
        for (&before, &after) in pairs {
            assert_eq!(after.to_bits() & 0xffff, 0, "{name}");
            assert!((before - after).abs() <= before.abs() / 256.0, "{name}: {before} {after}");
        }
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_partial_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let qwen2 = model("qwen2");
    let weights = qwen2.weights().unwrap();
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("notes"), "mine").unwrap();
    let write = |path: &std::path::Path, output: &ModelOutput| write_model(path, qwen2.config(), &weights, output);
    let error = write(&taken, &ModelOutput::default()).unwrap_err().to_string();
    assert!(error.contains("taken") && error.contains("nothing is yet"), "{error}");
    for name in ["../outside", "config.json", "a/b", "..", ""] {
        let output = ModelOutput { files: vec![(name.into(), Vec::new())], ..ModelOutput::default() };
        assert!(write(&folder.path().join("new"), &output).is_err(), "{name}");
    }
    let other = ModelConfig { layers: 3, ..qwen2.config().clone() };
    let error = write_model(&folder.path().join("new"), &other, &weights, &ModelOutput::default()).unwrap_err();
    assert!(error.to_string().contains("model.layers.2.input_layernorm.weight"), "{error}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["taken"]);
}

#[test]
fn tensors_that_do_not_belong_are_named() {
    let qwen2 = model("qwen2");
    let tensors = || qwen2.weights().unwrap().into_tensors();
    let refusal = |tensors| Weights::new(qwen2.config(), tensors).unwrap_err().to_string();

    let mut missing = tensors();
    missing.remove("model.layers.1.self_attn.k_proj.bias");
    let error = refusal(missing);
    assert!(error.contains("model.layers.1.self_attn.k_proj.bias") && error.contains("[16]"), "{error}");

    let mut surplus = tensors();
    surplus.insert("model.layers.2.mlp.up_proj.weight".into(), Weight { shape: vec![1], data: vec![0.0] });
    let error = refusal(surplus);
    assert!(error.contains("model.layers.2.mlp.up_proj.weight") && error.contains("2 layers"), "{error}");

    let mut other = tensors();
    other.insert("model.norm.weight".into(), Weight { shape: vec![31], data: vec![0.0; 31] });
    let error = refusal(other);
    assert!(error.contains("model.norm.weight") && error.contains("[32]") && error.contains("[31]"), "{error}");

    let mut infinite = tensors();
    infinite.get_mut("model.norm.weight").unwrap().data[3] = f32::NAN;
    let error = refusal(infinite);
    assert!(error.contains("model.norm.weight") && error.contains("finite"), "{error}");

    // The head of a tied model may be there again, if it is the embedding.
    let mut tied = tensors();
    let mut head = tied["model.embed_tokens.weight"].clone();
    tied.insert("lm_head.weight".into(), head.clone());
    assert_eq!(Weights::new(qwen2.config(), tied.clone()).unwrap(), qwen2.weights().unwrap());
    head.data[0] += 1.0;
    tied.insert("lm_head.weight".into(), head);
    assert!(refusal(tied).contains("lm_head.weight"));
}

#[test]
fn models_that_would_be_computed_wrongly_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = |changes: serde_json::Value| {
        let mut config = json(&golden("models/qwen2/config.json"));
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let path = folder.path().join("config.json");
        fs::write(&path, config.to_string()).unwrap();
        ModelConfig::open(&path).map_err(|error| error.to_string())
    };
    assert!(config(serde_json::json!({})).is_ok());
    let faults = [
        (r#"{"architectures": ["MistralForCausalLM"]}"#, "Qwen3ForCausalLM"),
        (r#"{"use_sliding_window": true, "sliding_window": 4096}"#, "use_sliding_window"),
        (r#"{"layer_types": ["full_attention", "sliding_attention"]}"#, "layer_types"),
        (r#"{"quantization_config": {"quant_method": "awq"}}"#, "quantization_config"),
        (r#"{"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}"#, "yarn"),
        (r#"{"rope_parameters": null, "rope_scaling": {"type": "linear", "factor": 2.0}}"#, "linear"),
        (r#"{"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}"#, "low_freq_factor"),
        (r#"{"hidden_act": "gelu"}"#, "hidden_act"),
        (r#"{"mlp_bias": true}"#, "mlp_bias"),
        (r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": true}"#, "attention_bias"),
        (r#"{"num_attention_heads": 0}"#, "hidden_size"),
        (r#"{"num_attention_heads": 0, "head_dim": 8}"#, "num_attention_heads"),
        (r#"{"num_key_value_heads": 3}"#, "divisor"),
        (r#"{"num_attention_heads": 3, "num_key_value_heads": 3}"#, "multiple"),
        (r#"{"head_dim": 7}"#, "even"),
        (r#"{"hidden_size": -1}"#, "hidden_size"),
        (r#"{"hidden_size": 18446744073709551615, "head_dim": 8}"#, "16777216"),
        (r#"{"num_hidden_layers": 1000000000}"#, "num_hidden_layers"),
        (r#"{"vocab_size": 4611686018427387904}"#, "vocab_size"),
        (r#"{"rms_norm_eps": 0.0}"#, "rms_norm_eps"),
        (r#"{"rms_norm_eps": "small"}"#, "small"),
        (r#"{"eos_token_id": 384}"#, "eos_token_id"),
        (r#"{"eos_token_id": [1, -2]}"#, "eos_token_id"),
        (r#"{"intermediate_size": null}"#, "nothing"),
    ];
    for (changes, named) in faults {
        let error = config(serde_json::from_str(changes).unwrap()).expect_err(changes);
        assert!(error.contains(named) && error.contains("config.json"), "{changes}: {error}");
    }
}

#[test]
fn older_configurations_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = json(&golden("models/llama/config.json"));
    let fields = config.as_object_mut().unwrap();
    let mut rope = fields.remove("rope_parameters").unwrap();
    let theta = rope.as_object_mut().unwrap().remove("rope_theta").unwrap();
    fields.extend([("rope_theta".to_owned(), theta), ("rope_scaling".to_owned(), rope)]);
    fields.remove("head_dim");
    fields.remove("architectures");
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    assert_eq!(ModelConfig::open(&path).unwrap(), *model("llama").config());
}

#[test]
fn a_gguf_file_holds_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["llama", "qwen2", "qwen3"] {
        let path = folder.path().join(format!("{name}.gguf"));
        let parts = GgufParts::of(name, "gpt-2");
        parts.write(&path);
        let (gguf, original) = (ModelFiles::open(&path).unwrap(), model(name));
        let expected = ModelConfig { rope_scaling: None, eos: vec![2], ..original.config().clone() };
        assert_eq!(*gguf.config(), expected);
        assert_eq!(gguf.weights().unwrap(), original.weights().unwrap(), "{name}");

        // In 8 bits with a scale for each 32 numbers, the largest of which are exact.
        let mut parts = parts;
        let (_, kind) = parts.tensors.get_mut("token_embd.weight").unwrap();
        *kind = GgmlDType::Q8_0;
        parts.write(&path);
        let weights = ModelFiles::open(&path).unwrap().weights().unwrap();
        let found = weights.get("model.embed_tokens.weight").unwrap();
        let exact = original.weights().unwrap();
        let exact = exact.get("model.embed_tokens.weight").unwrap();
        for (found, exact) in found.data.chunks(32).zip(exact.data.chunks(32)) {
            let largest = exact.iter().fold(0.0, |largest: f32, number| largest.max(number.abs()));
            let worst = found.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= largest / 200.0, "{worst} of {largest}");
        }
    }
}

#[test]
fn llama_3_s_scaling_is_recognised_in_a_gguf_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    let mut parts = GgufParts::of("llama", "llama-bpe");
    // Llama 3.1's factors for a base of 500000 and heads of 8, by hand: turns in 8192 positions are 1303.8, 49.0, 1.8438 and
    // 0.0693, so the first two stay, the third is in between, the fourth is divided by 8.
    let between = {
        let smooth = (1.843_787_6_f64 - 1.0) / 3.0;
        (1.0 / ((1.0 - smooth) / 8.0 + smooth)) as f32
    };
    let factors = |third: f32| (Weight { shape: vec![4], data: vec![1.0, 1.0, third, 8.0] }, GgmlDType::F32);
    parts.tensors.insert("rope_freqs.weight".into(), factors(between));
    parts.write(&path);
    let scaling =
        RopeScaling { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_positions: 8192 };
    let model = ModelFiles::open(&path).unwrap();
    assert_eq!(model.config().rope_scaling, Some(scaling));
    assert!(model.weights().is_ok());

    parts.tensors.insert("rope_freqs.weight".into(), factors(2.0));
    parts.write(&path);
    let error = ModelFiles::open(&path).unwrap_err().to_string();
    assert!(error.contains("rope_freqs.weight") && error.contains("safetensors"), "{error}");
}

#[test]
fn gguf_files_that_are_not_understood_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let faults = [
        ("general.architecture", Value::String("gemma3".into()), "gemma3"),
        ("llama.rope.scaling.type", Value::String("yarn".into()), "yarn"),
        ("llama.rope.dimension_count", Value::U32(4), "rope.dimension_count"),
        ("llama.block_count", Value::U32(3), "blk.2.attn_norm.weight"),
        ("llama.block_count", Value::U32(1), "blk.1."),
        ("llama.embedding_length", Value::U32(64), "token_embd.weight"),
        ("split.count", Value::U16(2), "llama-gguf-split"),
        ("general.alignment", Value::U32(0), "a GGUF file"),
    ];
    for (key, value, named) in faults {
        let mut parts = GgufParts::of("llama", "gpt-2");
        parts.metadata.insert(key.into(), value);
        parts.write(&path);
        let weights = ModelFiles::open(&path).and_then(|model| model.weights());
        let error = weights.unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("model.gguf"), "{named}: {error}");
    }
}

#[test]
fn smollm2_is_read_whole() {
    let Some(path) = common::models::smollm2() else { return };
    let model = ModelFiles::open(&path).unwrap();
    let expected = ModelConfig {
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        intermediate: 1536,
        vocabulary: 49_152,
        rope_theta: 100_000.0,
        rope_scaling: None,
        rms_eps: 1e-5,
        tied: true,
        qkv_bias: false,
        qk_norm: false,
        max_positions: 8192,
        eos: vec![2],
    };
    assert_eq!(*model.config(), expected);
    let weights = model.weights().unwrap().into_tensors();
    assert_eq!(weights.values().map(|weight| weight.data.len()).sum::<usize>(), 134_515_008);
}
