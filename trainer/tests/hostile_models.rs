//! Files of models that are damaged or made to do damage are refused with a word about the file: no panic, and nothing is allocated
//! that a file only claims to need.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;

use common::models::{GgufParts, golden, json as read_json};
use hindsearch_trainer::{ModelFiles, Result, Weights};
use serde_json::json;

fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden("models").join(name)).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn weights(path: &Path) -> Result<Weights> {
    ModelFiles::open(path)?.weights()
}

/// A safetensors file with this header.
fn file(header: &[u8], data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, &vec![0; data]].concat()
}

#[test]
fn damaged_safetensors_are_refused() {
    let folder = copy("qwen2");
    let path = folder.path().join("model.safetensors");
    let good = fs::read(&path).unwrap();
    let tensor = |dtype: &str, shape: serde_json::Value, end: u64| {
        let header = json!({ "model.norm.weight": { "dtype": dtype, "shape": shape, "data_offsets": [0, end] } });
        file(header.to_string().as_bytes(), 128)
    };
    let huge = u64::MAX.to_le_bytes();
    let faults: [(Vec<u8>, &str); 14] = [
        (Vec::new(), "safetensors"),
        (vec![1, 2, 3], "safetensors"),
        (good[..good.len() / 2].to_vec(), "safetensors"),
        (good[..good.len() - 1].to_vec(), "safetensors"),
        ([&good[..], b"x"].concat(), "safetensors"),
        ([&huge, &good[8..]].concat(), "safetensors"),
        ([&(90_000_000_u64).to_le_bytes(), &good[8..]].concat(), "safetensors"),
        (file(b"[1, 2]", 0), "safetensors"),
        (file(b"\xff\xfe", 0), "safetensors"),
        (file(b"{}", 0), "model.embed_tokens.weight"),
        (tensor("I64", json!([16]), 128), "I64"),
        (tensor("F32", json!([1_u64 << 40, 1_u64 << 40]), 128), "safetensors"),
        (tensor("F32", json!([64]), 256), "safetensors"),
        (tensor("F32", json!([32]), 128), "model.embed_tokens.weight"),
    ];
    for (number, (bytes, named)) in faults.into_iter().enumerate() {
        fs::write(&path, bytes).unwrap();
        let error = weights(folder.path()).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("model.safetensors"), "{number}: {error}");
    }
    // Whatever byte of the header is turned, there is an answer.
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for at in (0..header).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, bytes).unwrap();
        drop(weights(folder.path()));
    }
    fs::remove_file(&path).unwrap();
    let error = weights(folder.path()).unwrap_err().to_string();
    assert!(error.contains("model.safetensors") && error.contains("not found"), "{error}");
}

#[test]
fn indexes_of_shards_that_lead_astray_are_refused() {
    let folder = copy("qwen3");
    let index = folder.path().join("model.safetensors.index.json");
    let good = read_json(&index);
    let refusal = |index_now: &serde_json::Value| {
        fs::write(&index, index_now.to_string()).unwrap();
        weights(folder.path()).unwrap_err().to_string()
    };
    let norm = "model.norm.weight";
    for place in
        ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "model.safetensors.index.json", "..\\x.safetensors"]
    {
        let mut other = good.clone();
        other["weight_map"][norm] = place.into();
        let error = refusal(&other);
        assert!(error.contains(norm) && error.contains("index.json"), "{place}: {error}");
    }
    let mut number = good.clone();
    number["weight_map"][norm] = 7.into();
    assert!(refusal(&number).contains(norm));
    assert!(refusal(&json!({ "weight_map": {} })).contains("model.embed_tokens.weight"));
    assert!(refusal(&json!([])).contains("weight_map"));

    let mut absent = good.clone();
    absent["weight_map"][norm] = "model-00009-of-00003.safetensors".into();
    assert!(refusal(&absent).contains("model-00009"));
    let mut unsaid = good.clone();
    unsaid["weight_map"].as_object_mut().unwrap().remove(norm);
    assert!(refusal(&unsaid).contains(norm));
    let mut invented = good.clone();
    let place = invented["weight_map"][norm].clone();
    invented["weight_map"]["model.norm.bias"] = place;
    fs::write(&index, invented.to_string()).unwrap();
    assert!(weights(folder.path()).is_err(), "an index that names a tensor which is nowhere");

    // A shard that is an index, or leads to itself.
    fs::write(&index, good.to_string()).unwrap();
    let shard = folder.path().join("model-00002-of-00003.safetensors");
    fs::write(&shard, good.to_string()).unwrap();
    assert!(weights(folder.path()).unwrap_err().to_string().contains("model-00002-of-00003.safetensors"));
    #[cfg(unix)]
    {
        fs::remove_file(&shard).unwrap();
        std::os::unix::fs::symlink(&shard, &shard).unwrap();
        assert!(weights(folder.path()).unwrap_err().to_string().contains("model-00002-of-00003.safetensors"));
    }
}

#[test]
fn damaged_gguf_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    GgufParts::of("llama", "gpt-2").write(&path);
    let good = fs::read(&path).unwrap();
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = weights(&path).unwrap_err().to_string();
        assert!(error.contains("model.gguf"), "{error}");
    };
    refusal(b"");
    refusal(b"GGML");
    for part in [4, 8, 20, 100, 5000, good.len() / 2, good.len() - 40] {
        refusal(&good[..part]);
    }
    // Counts of tensors and of metadata, and the length of the first key.
    for at in [8, 16, 24] {
        for huge in [u64::MAX, 1 << 30, 1 << 40] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&huge.to_le_bytes());
            refusal(&bytes);
        }
    }
    // Whatever byte before the tensors is turned, there is an answer.
    for at in (0..9000).step_by(61) {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        if let Ok(model) = ModelFiles::open(&path) {
            drop((model.weights(), model.tokenizer(), model.chat_template(), model.companions()));
        }
    }
}

#[test]
fn a_gguf_file_that_claims_huge_tensors_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    GgufParts::of("llama", "gpt-2").write(&path);
    let good = fs::read(&path).unwrap();
    let name = b"output_norm.weight";
    let at = good.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4;
    assert_eq!(good[at..at + 8], 32_u64.to_le_bytes());
    for claim in [u64::MAX, 1 << 62, 1 << 40] {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let error = weights(&path).unwrap_err().to_string();
        assert!(error.contains("output_norm.weight") && error.contains("[32]"), "{error}");
    }
}

#[test]
fn damaged_words_about_a_model_are_refused() {
    let folder = copy("llama");
    let refuse = |name: &str, bytes: &[u8], open: &dyn Fn() -> Option<String>| {
        let path = folder.path().join(name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let error = open().unwrap_or_else(|| panic!("{name}"));
        assert!(error.contains(name), "{name}: {error}");
        fs::write(&path, good).unwrap();
    };
    let open = || ModelFiles::open(folder.path());
    let error = |error: hindsearch_trainer::Error| error.to_string();
    let deep = "[".repeat(100_000);
    for bytes in [&b""[..], b"[]", b"{", b"\xff", deep.as_bytes()] {
        refuse("config.json", bytes, &|| open().err().map(error));
    }
    for bytes in [&b"{"[..], br#"{"eos_token_id": 9999}"#, br#"{"eos_token_id": "</s>"}"#] {
        refuse("generation_config.json", bytes, &|| open().err().map(error));
    }
    refuse("tokenizer_config.json", b"{", &|| open().unwrap().tokenizer().err().map(error));
    refuse("chat_template.jinja", b"{% if %}", &|| open().unwrap().chat_template().err().map(error));
    refuse("chat_template.jinja", b"\xff\xfe", &|| open().unwrap().chat_template().err().map(error));
    fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    refuse("tokenizer_config.json", br#"{"chat_template": 7}"#, &|| open().unwrap().chat_template().err().map(error));
    assert!(ModelFiles::open(&folder.path().join("nowhere")).unwrap_err().to_string().contains("nowhere"));
}
