//! Tokens keep their promise: they are those of Python's libraries, text from outside never becomes a control token, and where a
//! token ends in a text is exact. The golden files are from `golden/make_texts.py`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use common::models::{GgufParts, golden, json};
use hindsearch_env::Measure;
use hindsearch_trainer::{Detokenizer, ModelFiles, StopMatch, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Decoded {
    ids: Vec<u32>,
    text: String,
}

fn tokenizer() -> Arc<Tokenizer> {
    Arc::new(Tokenizer::open(&golden("models/llama")).unwrap())
}

fn texts() -> Vec<String> {
    serde_json::from_value(json(&golden("texts.json"))["texts"].clone()).unwrap()
}

#[test]
fn tokens_are_those_of_python_whatever_the_splitting_rule() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    let expected = json(&golden("texts.json"))["tokens"].clone();
    for kind in ["gpt-2", "smollm", "qwen2", "llama-bpe"] {
        GgufParts::of("llama", kind).write(&path);
        let model = ModelFiles::open(&path).unwrap();
        let tokenizer = model.tokenizer().unwrap();
        let found: Vec<Vec<u32>> = texts().iter().map(|text| tokenizer.encode(text).unwrap()).collect();
        assert_eq!(serde_json::json!(found), expected[kind], "{kind}");

        // And the same from the files that are written beside the weights.
        for (name, bytes) in model.companions().unwrap() {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let again = Tokenizer::open(folder.path()).unwrap();
        let found: Vec<Vec<u32>> = texts().iter().map(|text| again.encode(text).unwrap()).collect();
        assert_eq!(serde_json::json!(found), expected[kind], "{kind}");
        assert_eq!((again.eos(), again.special_ids()), (tokenizer.eos(), tokenizer.special_ids()), "{kind}");
    }
    let tokenizer = tokenizer();
    let found: Vec<Vec<u32>> = texts().iter().map(|text| tokenizer.encode(text).unwrap()).collect();
    assert_eq!(serde_json::json!(found), expected["gpt-2"]);
}

#[test]
fn ids_become_the_text_of_python_whatever_their_bytes() {
    let tokenizer = tokenizer();
    let golden: Vec<Decoded> = serde_json::from_value(json(&golden("texts.json"))["decoded"].clone()).unwrap();
    assert!(golden.iter().any(|decoded| decoded.text.contains('\u{fffd}')));
    for Decoded { ids, text } in golden {
        assert_eq!(tokenizer.decode(&ids), text, "{ids:?}");
        let plain: Vec<u32> = ids.iter().copied().filter(|&id| !tokenizer.is_special(id)).collect();
        let mut detokenizer = Detokenizer::new(&tokenizer, &[]);
        assert!(ids.iter().all(|&id| detokenizer.push(id).is_none()));
        let (said, ends) = detokenizer.message();
        assert_eq!(said, tokenizer.decode(&plain), "control tokens say nothing: {ids:?}");
        assert_eq!(ends.len(), ids.len());
        assert_eq!(ends.last(), Some(&said.len()));
        assert!(ends.is_sorted() && ends.iter().all(|&end| said.is_char_boundary(end)), "{ids:?}");
    }
    for text in texts() {
        let ids = tokenizer.encode(&text).unwrap();
        assert_eq!(tokenizer.decode(&ids), text);
        let mut detokenizer = Detokenizer::new(&tokenizer, &[]);
        let mut bytes = 0;
        let expected = ids.iter().map(|&id| {
            detokenizer.push(id);
            bytes += tokenizer.token_bytes(id).unwrap().len();
            text.ceil_char_boundary(bytes)
        });
        let expected: Vec<usize> = expected.collect();
        assert_eq!(detokenizer.message(), (text, expected));
    }
}

#[test]
fn text_from_outside_never_becomes_a_control_token() {
    let tokenizer = tokenizer();
    let specials = tokenizer.special_ids();
    assert_eq!(specials.len(), 7);
    for &special in &specials {
        let written = tokenizer.decode(&[special]);
        for text in [written.clone(), format!("a{written}{written}b"), format!("\n {written}\n")] {
            let ids = tokenizer.encode(&text).unwrap();
            assert!(ids.iter().all(|id| !specials.contains(id)), "{text}");
            assert_eq!(tokenizer.decode(&ids), text);
            assert_eq!(tokenizer.length(&text), ids.len());
        }
        assert_eq!(tokenizer.special_id(&written), Some(special));
    }
    // A word of the vocabulary that controls nothing stays a token.
    assert_eq!(tokenizer.encode("<tool_call>").unwrap().len(), 1);
    assert_eq!(tokenizer.special_id("<tool_call>"), None);
}

#[test]
fn ends_of_texts_and_of_the_model_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    let mut parts = GgufParts::of("llama", "llama-bpe");
    assert_eq!(tokenizer().eos(), [2]);
    assert_eq!(common::models::model("llama").tokenizer().unwrap().eos(), [0, 2]);
    assert!(tokenizer().begin().is_empty());
    parts.metadata.insert("tokenizer.ggml.add_bos_token".into(), Value::Bool(true));
    parts.metadata.insert("tokenizer.ggml.eot_token_id".into(), Value::U32(0));
    parts.write(&path);
    let tokenizer = ModelFiles::open(&path).unwrap().tokenizer().unwrap();
    assert_eq!((tokenizer.eos(), tokenizer.begin()), (&[0, 2][..], &[1][..]));
    assert_eq!(tokenizer.encode("a").unwrap().len(), 1, "nothing is added to a text");
}

#[test]
fn the_measure_counts_tokens_and_cuts_behind_them() {
    let tokenizer = tokenizer();
    for text in texts().iter().map(String::as_str).chain(["🙂🙃", "naïve <|im_end|> 🙂"]) {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.length(text), ids.len());
        let mut bytes = 0;
        for (most, &id) in ids.iter().enumerate() {
            assert_eq!(tokenizer.head(text, most), text.floor_char_boundary(bytes), "{text:?}, {most}");
            bytes += tokenizer.token_bytes(id).unwrap().len();
        }
        assert_eq!(bytes, text.len());
        for most in [ids.len(), ids.len() + 1, usize::MAX] {
            assert_eq!(tokenizer.head(text, most), text.len());
        }
    }
}

#[test]
fn cuts_stay_between_characters_where_texts_are_normalised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    GgufParts::of("llama", "qwen2").write(&path);
    let tokenizer = ModelFiles::open(&path).unwrap().tokenizer().unwrap();
    let text = "cafe\u{301} A\u{30a}ngstr\u{f6}m 🙂";
    assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()), "caf\u{e9} \u{c5}ngstr\u{f6}m 🙂");
    let heads: Vec<usize> = (0..=tokenizer.length(text)).map(|most| tokenizer.head(text, most)).collect();
    assert!(heads.is_sorted() && heads.iter().all(|&head| text.is_char_boundary(head)), "{heads:?}");
    assert_eq!((heads[0], heads[heads.len() - 1]), (0, text.len()));
}

#[test]
fn long_texts_without_borders_of_words_are_encoded_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    for kind in ["gpt-2", "smollm", "qwen2", "llama-bpe"] {
        GgufParts::of("llama", kind).write(&path);
        let tokenizer = ModelFiles::open(&path).unwrap().tokenizer().unwrap();
        for piece in [" ", "a", "\n", "1", "🙂", "=", "\u{0}", "<|im_end|>"] {
            let text = piece.repeat(100_000 / piece.len()) + "end";
            assert!(tokenizer.decode(&tokenizer.encode(&text).unwrap()) == text, "{kind} {piece:?}");
        }
    }
}

#[test]
fn a_token_that_ends_inside_a_character_ends_behind_it() {
    let tokenizer = tokenizer();
    // "🦀" has four bytes and no token of its own.
    let ids = tokenizer.encode("a🦀").unwrap();
    let lengths: Vec<usize> = ids.iter().map(|&id| tokenizer.token_bytes(id).unwrap().len()).collect();
    assert!(lengths.len() >= 3, "{lengths:?}");
    let mut detokenizer = Detokenizer::new(&tokenizer, &[]);
    detokenizer.push(ids[0]);
    detokenizer.push(ids[1]);
    assert_eq!(detokenizer.message(), ("a\u{fffd}".into(), vec![1, 4]), "cut off, it is no character");
    assert!(ids[2..].iter().all(|&id| detokenizer.push(id).is_none()));
    detokenizer.push(tokenizer.special_id("<|im_end|>").unwrap());
    let mut ends = vec![1];
    ends.resize(ids.len() + 1, 5);
    assert_eq!(detokenizer.message(), ("a🦀".into(), ends));
}

#[test]
fn stop_strings_are_found_wherever_tokens_end() {
    let tokenizer = tokenizer();
    let stops = ["</search>".to_owned(), "é".to_owned(), String::new()];
    let found = |ids: &[u32]| {
        let mut detokenizer = Detokenizer::new(&tokenizer, &stops);
        ids.iter().find_map(|&id| detokenizer.push(id))
    };
    let text = "<search> radium </search> and more</search>";
    let end = text.find("</search>").unwrap() + "</search>".len();

    // Byte by byte, over many tokens.
    let bytes: Vec<u32> = text.chars().map(|letter| tokenizer.encode(&letter.to_string()).unwrap()[0]).collect();
    assert_eq!(found(&bytes), Some(StopMatch { token: end - 1, byte: end }));
    // As the tokenizer would split it.
    let ids = tokenizer.encode(text).unwrap();
    let stop = found(&ids).unwrap();
    assert_eq!(stop.byte, end);
    assert!(tokenizer.decode(&ids[..stop.token]).len() < end && tokenizer.decode(&ids[..=stop.token]).len() >= end);
    // A character over two tokens; the match is behind a byte that is no text and is written as three.
    let letters: Vec<u32> =
        (0..384).filter(|&id| tokenizer.token_bytes(id).is_some_and(|bytes| bytes.len() == 1)).collect();
    let byte = |byte: u8| *letters.iter().find(|&&id| tokenizer.token_bytes(id) == Some(&[byte])).unwrap();
    assert_eq!(found(&[byte(0xff), byte(0xc3), byte(0xa9)]), Some(StopMatch { token: 2, byte: 5 }));
    // Inside a token.
    let (id, at) = (0..384)
        .find_map(|id| {
            let text = std::str::from_utf8(tokenizer.token_bytes(id)?).ok()?;
            (text.len() > 3 && !tokenizer.is_special(id)).then(|| (id, text[1..2].to_owned()))
        })
        .unwrap();
    let inner = [at];
    let mut detokenizer = Detokenizer::new(&tokenizer, &inner);
    assert_eq!(detokenizer.push(id), Some(StopMatch { token: 0, byte: 2 }));
    // Control tokens say nothing, so a stop string goes on behind them.
    let end_of_turn = tokenizer.special_id("<|im_end|>").unwrap();
    let around = [&bytes[..end - 3], &[end_of_turn], &bytes[end - 3..end]].concat();
    assert_eq!(found(&around), Some(StopMatch { token: end, byte: end }));
    assert_eq!(found(&tokenizer.encode("</searc h>").unwrap()), None);
}

#[test]
fn tokenizers_that_cannot_be_exact_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let good = json(&golden("models/llama/tokenizer.json"));
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Tokenizer::open(folder.path()).unwrap_err().to_string()
    };
    let mut other = good.clone();
    other["decoder"] = serde_json::json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
    let error = refusal(other.to_string().as_bytes());
    assert!(error.contains("ByteLevel") && error.contains("tokenizer.json"), "{error}");

    let mut huge = good.clone();
    huge["model"]["vocab"]["\u{120}huge"] = serde_json::json!(4_000_000_000_u32);
    assert!(refusal(huge.to_string().as_bytes()).contains("4000000000"));

    let text = good.to_string();
    for bytes in [&b""[..], b"{}", b"\xff\xfe", &text.as_bytes()[..text.len() / 2]] {
        assert!(refusal(bytes).contains("tokenizer.json"));
    }

    // One of another model: ids beyond the embedding.
    let config =
        json(&golden("models/llama/config.json")).to_string().replace("\"vocab_size\":384", "\"vocab_size\":300");
    fs::write(folder.path().join("config.json"), config).unwrap();
    fs::write(&path, text).unwrap();
    let error = ModelFiles::open(folder.path()).unwrap().tokenizer().unwrap_err().to_string();
    assert!(error.contains("300") && error.contains("379"), "{error}");
}

#[test]
fn kinds_of_gguf_tokenizers_that_are_not_known_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama.gguf");
    for (key, value) in [("pre", "deepseek-coder"), ("model", "llama")] {
        let mut parts = GgufParts::of("llama", "gpt-2");
        parts.metadata.insert(format!("tokenizer.ggml.{key}"), Value::String(value.into()));
        parts.write(&path);
        let error = ModelFiles::open(&path).unwrap().tokenizer().unwrap_err().to_string();
        assert!(error.contains(value) && error.contains("llama.gguf"), "{error}");
    }
}

#[test]
fn smollm2_splits_digits_and_begins_words_with_their_spaces() {
    let Some(path) = common::models::smollm2() else { return };
    let tokenizer = ModelFiles::open(&path).unwrap().tokenizer().unwrap();
    let pieces = |text: &str| {
        let ids = tokenizer.encode(text).unwrap();
        ids.iter().map(|&id| tokenizer.decode(&[id])).collect::<Vec<_>>()
    };
    assert_eq!(pieces("The capital of France"), ["The", " capital", " of", " France"]);
    assert_eq!(pieces("in 1898"), ["in", " ", "1", "8", "9", "8"]);
    // From transformers 5.10.4 with the files that are written beside the weights (`python/load_written.py`).
    let golden = [10576, 3658, 1961, 1460, 281, 216, 33, 40, 41, 40, 47];
    assert_eq!(tokenizer.encode("Who discovered radium in 1898?").unwrap(), golden);
    assert_eq!(tokenizer.special_id("<|im_start|>"), Some(1));
    assert_eq!(tokenizer.eos(), [2]);
}
