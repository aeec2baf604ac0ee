//! The vectors are those of the reference implementation, whatever the batch, the precision and the runtime.
//! `golden.json` in `tests/fixtures/*` tells how it was made.

mod embed_support;

use std::fs;
use std::path::{Path, PathBuf};

use embed_support::*;
use hindsearch_indexes::Vectors;
use hindsearch_retriever::Result;
use hindsearch_retriever::embed::{
    CardOverrides, EmbedOptions, Embedder, InputKind, ModelSource, Pooling, Precision, TextTokenizer,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    tokens: Vec<usize>,
    mean: Vec<Vec<f32>>,
    #[serde(default)]
    cls: Vec<Vec<f32>>,
    /// Mean pooling with texts cut at 64 tokens.
    #[serde(default)]
    mean_64: Vec<Vec<f32>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

fn golden(name: &str) -> Golden {
    let bytes = fs::read(fixture(name).join("golden.json")).expect("the golden file");
    serde_json::from_slice(&bytes).expect("a golden file")
}

fn embed(embedder: &Embedder, texts: &[String]) -> Result<Vectors> {
    embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>(), InputKind::Passage)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Lowest cosine and greatest difference of a value.
fn distance(found: &Vectors, expected: &[Vec<f32>]) -> (f64, f32) {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.rows().zip(expected);
    let lowest = pairs().map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
    (lowest, pairs().flat_map(|(a, b)| a.iter().zip(b).map(|(x, y)| (x - y).abs())).fold(0.0, f32::max))
}

#[track_caller]
fn assert_golden(found: &Vectors, expected: &[Vec<f32>]) {
    let (cosine, difference) = distance(found, expected);
    assert!(cosine >= 0.9999 && difference <= 1e-3, "lowest cosine {cosine}, greatest difference {difference}");
}

fn tiny(options: EmbedOptions) -> Result<Embedder> {
    open(&fixture("tiny-bert"), options)
}

#[test]
fn fp32_vectors_are_those_of_the_reference() -> Result<()> {
    let golden = golden("tiny-bert");
    let card = |card: CardOverrides| EmbedOptions { card, ..EmbedOptions::default() };
    assert_golden(&embed(&tiny(EmbedOptions::default())?, &golden.texts)?, &golden.mean);
    let cls = CardOverrides { pooling: Some(Pooling::Cls), ..CardOverrides::default() };
    assert_golden(&embed(&tiny(card(cls))?, &golden.texts)?, &golden.cls);
    let short = CardOverrides { max_length: Some(64), ..CardOverrides::default() };
    let short = tiny(card(short))?;
    assert_golden(&embed(&short, &golden.texts)?, &golden.mean_64);
    let longer = golden.tokens.iter().filter(|&&tokens| tokens > 64).count() as u64;
    assert!(longer > 0);
    assert_eq!(short.stats().truncated, longer);
    Ok(())
}

#[test]
fn texts_have_the_tokens_of_the_reference() -> Result<()> {
    let golden = golden("tiny-bert");
    let folder = fixture("tiny-bert");
    let tokenizer = TextTokenizer::open(&folder.join("tokenizer.json"), &folder, 256)?;
    for (text, &expected) in golden.texts.iter().zip(&golden.tokens) {
        assert_eq!(tokenizer.tokens(text)?.ids.len(), expected, "{text:?}");
    }
    // The file's own truncation and padding to 128 must not show.
    assert!(golden.tokens.iter().any(|&tokens| tokens > 128) && golden.tokens.iter().any(|&tokens| tokens < 128));
    Ok(())
}

#[test]
fn smaller_precisions_stay_close() -> Result<()> {
    let golden = golden("tiny-bert");
    // 32 dimensions of random weights quantise worse than a trained model.
    for (file, precision, floor) in [
        ("model_fp16.onnx", Precision::Fp16, 0.9999),
        ("model_int8.onnx", Precision::Int8, 0.99),
        ("model_int8_static.onnx", Precision::Int8, 0.95),
    ] {
        let folder = copy_with_graph(file);
        let embedder = open(folder.path(), EmbedOptions::default())?;
        assert_eq!(embedder.fingerprint().passages.precision, precision);
        let (cosine, _) = distance(&embed(&embedder, &golden.texts)?, &golden.mean);
        assert!(cosine >= floor, "{file}: {cosine}");
    }
    Ok(())
}

#[test]
fn a_vector_does_not_depend_on_its_neighbours() -> Result<()> {
    let words: Vec<String> = golden("tiny-bert").texts.join(" ").split_whitespace().map(str::to_owned).collect();
    let text = |i: usize| {
        let start = i * 37 % words.len();
        words[start..(start + 1 + i * 7919 % 90).min(words.len())].join(" ")
    };
    let texts: Vec<String> = (0..500).map(text).collect();
    for file in ["model.onnx", "model_fp16.onnx", "model_int8.onnx", "model_int8_static.onnx"] {
        let folder = copy_with_graph(file);
        let mut options = EmbedOptions::default();
        options.batch.padding = 0.5;
        let embedder = open(folder.path(), options)?;
        let together = embed(&embedder, &texts)?;
        for (text, row) in texts.iter().zip(together.rows()) {
            let alone = embedder.embed(&[text], InputKind::Passage)?;
            assert!(cosine(alone.as_slice(), row) >= 0.99999, "{file}: {text:?}");
        }
        assert_eq!(embedder.stats().batches < 1000, file != "model_int8.onnx", "{file}: who was batched");
    }
    Ok(())
}

/// A copy of the model folder whose only graph is `file`.
fn copy_with_graph(file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"]
    {
        write(folder.path(), name, fs::read(fixture("tiny-bert").join(name)).expect("a file of the fixture"));
    }
    write(folder.path(), "onnx/model.onnx", fs::read(fixture("tiny-bert/onnx").join(file)).expect("a graph"));
    folder
}

#[test]
fn the_default_model_stays_close_to_its_fp32_reference() -> Result<()> {
    let golden = golden("minilm");
    let embedder = Embedder::open(&ModelSource::Default, EmbedOptions::default())?;
    let (cosine, _) = distance(&embed(&embedder, &golden.texts)?, &golden.mean);
    assert!(cosine >= 0.98, "lowest cosine {cosine}");
    assert_eq!(embedder.stats().tokens, golden.tokens.iter().map(|&tokens| tokens as u64).sum::<u64>());
    Ok(())
}

#[cfg(feature = "rten")]
#[test]
fn the_second_runtime_agrees_with_the_first() -> Result<()> {
    let golden = golden("tiny-bert");
    let rten = EmbedOptions { backend: hindsearch_retriever::embed::Backend::Rten, ..EmbedOptions::default() };
    let found = embed(&tiny(rten)?, &golden.texts)?;
    assert_golden(&found, &golden.mean);
    let expected = embed(&tiny(EmbedOptions::default())?, &golden.texts)?;
    let expected: Vec<Vec<f32>> = expected.rows().map(<[f32]>::to_vec).collect();
    let (_, difference) = distance(&found, &expected);
    assert!(difference <= 1e-4, "{difference}");
    Ok(())
}
