//! How does the tokenizer in a GGUF file become a `tokenizer.json`?
//!
//! candle has a reader for it, which takes llama.cpp's names of splitting rules for others: SmolLM's digits and Llama 3's whole
//! words then come out differently from what the models were trained on.

use candle_core::quantized::gguf_file::Value as Metadata;
use serde_json::{Map, Value, json};

use crate::Result;
use crate::model::Gguf;

/// llama.cpp's kinds of tokens.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
/// How words are told apart: by Qwen2 (arXiv 2407.10671; a digit is a token) and by Llama 3 (up to three digits are one).
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The file's tokenizer in the format of the `tokenizers` library.
pub(super) fn tokenizer_json(gguf: &Gguf) -> Result<Value> {
    let model = gguf.text("tokenizer.ggml.model").unwrap_or("none");
    if model != "gpt2" {
        return Err(gguf.wrong("a tokenizer of the kind `gpt2` (byte-level)", format!("`{model}`")));
    }
    let tokens = gguf.texts("tokenizer.ggml.tokens")?;
    let merges = gguf.texts("tokenizer.ggml.merges")?;
    let kind = gguf.text("tokenizer.ggml.pre").unwrap_or("default");
    let bytes = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex });
    let split = |pattern: &str| {
        let split =
            json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
        json!({ "type": "Sequence", "pretokenizers": [split, bytes(false)] })
    };
    let digits = json!({ "type": "Digits", "individual_digits": true });
    let (words, whole_words) = match kind {
        "smollm" => (json!({ "type": "Sequence", "pretokenizers": [digits, bytes(true)] }), false),
        "qwen2" => (split(QWEN2), false),
        "llama-bpe" | "llama3" | "llama-v3" => (split(LLAMA3), true),
        "gpt-2" | "gpt2" | "default" => (bytes(true), false),
        other => {
            let expected = "`tokenizer.ggml.pre` to be smollm, qwen2, llama-bpe or gpt-2";
            return Err(gguf.wrong(expected, format!("`{other}`; use the model's folder with its tokenizer.json")));
        }
    };
    let kinds = gguf.list("tokenizer.ggml.token_type").unwrap_or_default();
    let vocabulary: Map<String, Value> =
        tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), json!(id))).collect();
    let added = tokens.iter().enumerate().filter_map(|(id, token)| {
        let kind = kinds.get(id).and_then(number)?;
        let special = kind == CONTROL;
        (special || kind == USER_DEFINED).then(|| {
            json!({ "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special })
        })
    });
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": (kind == "qwen2").then(|| json!({ "type": "NFC" })),
        "pre_tokenizer": words,
        "post_processor": begin(gguf, &tokens),
        "decoder": bytes(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": whole_words,
            "vocab": vocabulary,
            "merges": merges,
        },
    }))
}

/// What puts the token for the beginning before a text, where the file asks for it.
fn begin(gguf: &Gguf, tokens: &[&str]) -> Option<Value> {
    let id = gguf.integer("tokenizer.ggml.bos_token_id").filter(|_| gguf.flag("tokenizer.ggml.add_bos_token"))?;
    let token = tokens.get(usize::try_from(id).ok()?)?;
    let (special, text) =
        (json!({ "SpecialToken": { "id": token, "type_id": 0 } }), json!({ "Sequence": { "id": "A", "type_id": 0 } }));
    Some(json!({
        "type": "TemplateProcessing",
        "single": [special, text],
        "pair": [special, text, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": { *token: { "id": token, "ids": [id], "tokens": [token] } },
    }))
}

/// The files of a tokenizer that transformers loads, with the chat template.
pub(crate) fn gguf_tokenizer_files(gguf: &Gguf) -> Result<Vec<(String, Vec<u8>)>> {
    let tokenizer = tokenizer_json(gguf)?;
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
    config.insert("clean_up_tokenization_spaces".into(), json!(false));
    for (name, token) in named_tokens(gguf)? {
        config.insert(name.into(), json!(token));
    }
    let mut files = vec![
        ("tokenizer.json".to_owned(), format!("{tokenizer}\n").into_bytes()),
        ("tokenizer_config.json".to_owned(), format!("{:#}\n", Value::Object(config)).into_bytes()),
    ];
    if let Some(template) = gguf.text("tokenizer.chat_template") {
        files.push(("chat_template.jinja".to_owned(), template.as_bytes().to_vec()));
    }
    Ok(files)
}

/// The control tokens that have a name, as `tokenizer_config.json` calls them.
pub(super) fn named_tokens(gguf: &Gguf) -> Result<Vec<(&'static str, String)>> {
    let tokens = gguf.texts("tokenizer.ggml.tokens")?;
    let token = |(name, key): (&'static str, &str)| {
        let id = usize::try_from(gguf.integer(&format!("tokenizer.ggml.{key}"))?).ok()?;
        tokens.get(id).map(|token| (name, (*token).to_owned()))
    };
    let names = [
        ("bos_token", "bos_token_id"),
        ("eos_token", "eos_token_id"),
        ("pad_token", "padding_token_id"),
        ("unk_token", "unknown_token_id"),
    ];
    Ok(names.into_iter().filter_map(token).collect())
}

fn number(value: &Metadata) -> Option<u64> {
    match *value {
        Metadata::U32(number) => Some(number.into()),
        Metadata::I32(number) => number.try_into().ok(),
        Metadata::U8(number) => Some(number.into()),
        _ => None,
    }
}
