//! A text's vector is what the model card promises: prefix, tokens, pooling, unit length.

mod embed_support;

use embed_support::*;
use half::f16;
use hindsearch_retriever::embed::{CardOverrides, EmbedOptions, InputKind, Pooling, Precision};
use hindsearch_retriever::{Error, Result};

fn options(card: CardOverrides) -> EmbedOptions {
    EmbedOptions { card, threads: 2, ..EmbedOptions::default() }
}

#[test]
fn mean_pooling_counts_every_token_of_the_text_and_no_padding() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    let vectors = embedder.embed(&["red dog", "blue cat bird green red", ""], InputKind::Passage)?;
    let rows: Vec<&[f32]> = vectors.rows().collect();
    assert_close(rows[0], &mean_of(&table(), &["[CLS]", "red", "dog", "[SEP]"]));
    assert_close(rows[1], &mean_of(&table(), &["[CLS]", "blue", "cat", "bird", "green", "red", "[SEP]"]));
    assert_close(rows[2], &mean_of(&table(), &["[CLS]", "[SEP]"]));
    Ok(())
}

#[test]
fn padding_inside_a_batch_changes_nothing() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let mut options = EmbedOptions::default();
    options.batch.padding = 0.9;
    let embedder = open(folder.path(), options)?;
    let vectors = embedder.embed(&["red", "red dog cat bird blue"], InputKind::Passage)?;
    assert_eq!(embedder.stats().batches, 1, "the two texts must have met in one batch");
    assert_eq!(embedder.stats().padded_tokens, 14);
    assert_close(vectors.rows().next().expect("a row"), &mean_of(&table(), &["[CLS]", "red", "[SEP]"]));
    Ok(())
}

#[test]
fn cls_pooling_takes_the_first_token() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let card = CardOverrides { pooling: Some(Pooling::Cls), ..CardOverrides::default() };
    let vectors = open(folder.path(), options(card))?.embed(&["red dog"], InputKind::Passage)?;
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]"]));
    Ok(())
}

#[test]
fn queries_and_passages_get_their_own_prefix() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let card = CardOverrides { id: Some("intfloat/e5-base-v2".into()), ..CardOverrides::default() };
    let embedder = open(folder.path(), options(card))?;
    let query = embedder.embed(&["red"], InputKind::Query)?;
    let passage = embedder.embed(&["red"], InputKind::Passage)?;
    assert_close(query.as_slice(), &mean_of(&table(), &["[CLS]", "query:", "red", "[SEP]"]));
    assert_close(passage.as_slice(), &mean_of(&table(), &["[CLS]", "passage:", "red", "[SEP]"]));
    Ok(())
}

#[test]
fn without_normalisation_the_plain_mean_comes_back() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let card = CardOverrides { normalize: Some(false), ..CardOverrides::default() };
    let vectors = open(folder.path(), options(card))?.embed(&["red"], InputKind::Passage)?;
    let (cls, sep, red) = (table()[2], table()[3], table()[6]);
    let expected: Vec<f32> = (0..3).map(|i| (cls[i] + sep[i] + red[i]) / 3.0).collect();
    assert_close(vectors.as_slice(), &expected);
    Ok(())
}

#[test]
fn the_tokenizer_files_own_truncation_and_padding_do_not_count() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    let text = ["red"; 30].join(" ");
    let vectors = embedder.embed(&[&text], InputKind::Passage)?;
    let words = [&["[CLS]", "[SEP]"][..], &["red"; 30]].concat();
    assert_close(vectors.as_slice(), &mean_of(&table(), &words));
    let stats = embedder.stats();
    assert_eq!((stats.tokens, stats.padded_tokens, stats.truncated), (32, 32, 0));
    Ok(())
}

#[test]
fn texts_beyond_the_limit_are_cut_and_counted() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let card = CardOverrides { max_length: Some(5), ..CardOverrides::default() };
    let embedder = open(folder.path(), options(card))?;
    let vectors = embedder.embed(&["red dog cat bird blue", "red dog cat"], InputKind::Passage)?;
    for row in vectors.rows() {
        assert_close(row, &mean_of(&table(), &["[CLS]", "red", "dog", "cat", "[SEP]"]));
    }
    let stats = embedder.stats();
    assert_eq!((stats.texts, stats.tokens, stats.truncated), (2, 10, 1));
    Ok(())
}

#[test]
fn a_limit_without_room_for_text_or_beyond_the_positions_is_refused() {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    for max_length in [0, 1, 2, 65, usize::MAX] {
        let card = CardOverrides { max_length: Some(max_length), ..CardOverrides::default() };
        let error = open(folder.path(), options(card)).err().expect("an error");
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
        assert!(error.to_string().contains("max_length"), "{error}");
    }
}

#[test]
fn half_precision_graphs_give_the_same_vectors() -> Result<()> {
    let halves: Vec<u8> = table().iter().flatten().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
    let weights = tensor("table", &[WORDS.len(), 3], FLOAT16, halves);
    let nodes = [node("Gather", &["table", "input_ids"], "last_hidden_state")];
    let graph = graph(&nodes, &[weights], &["input_ids"], ("last_hidden_state", FLOAT16, 3));
    let folder = model_folder(&[("onnx/model_fp16.onnx", graph)]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    assert_eq!(embedder.fingerprint().passages.precision, Precision::Fp16);
    let vectors = embedder.embed(&["red dog"], InputKind::Passage)?;
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]", "red", "dog", "[SEP]"]));
    Ok(())
}

#[test]
fn position_and_segment_ids_are_given_to_graphs_that_ask() -> Result<()> {
    // Token vectors plus a multiple of the position: 0, 1, 2, ... in each row.
    let axes = tensor("axes", &[1], INT64, 2i64.to_le_bytes().to_vec());
    let cast = |input: &str, output: &str| with_int(node("Cast", &[input], output), "to", FLOAT);
    let nodes = [
        node("Gather", &["table", "input_ids"], "tokens"),
        node("Add", &["position_ids", "token_type_ids"], "sums"),
        cast("sums", "floats"),
        node("Unsqueeze", &["floats", "axes"], "columns"),
        node("Add", &["tokens", "columns"], "last_hidden_state"),
    ];
    let weights = [tensor("table", &[WORDS.len(), 3], FLOAT, floats(&table())), axes];
    let inputs = ["input_ids", "attention_mask", "token_type_ids", "position_ids"];
    let folder = model_folder(&[("model.onnx", graph(&nodes, &weights, &inputs, ("last_hidden_state", FLOAT, 3)))]);
    let card = CardOverrides { normalize: Some(false), ..CardOverrides::default() };
    let vectors = open(folder.path(), options(card))?.embed(&["red"], InputKind::Passage)?;
    let (cls, sep, red) = (table()[2], table()[3], table()[6]);
    let expected: Vec<f32> = (0..3).map(|i| (cls[i] + red[i] + sep[i]) / 3.0 + 1.0).collect();
    assert_close(vectors.as_slice(), &expected);
    Ok(())
}

#[test]
fn a_graph_that_pools_by_itself_is_taken_at_its_word() -> Result<()> {
    // The sum over tokens, named as exporters name the pooled output.
    let axes = tensor("axes", &[1], INT64, 1i64.to_le_bytes().to_vec());
    let nodes = [
        node("Gather", &["table", "input_ids"], "tokens"),
        with_int(node("ReduceSum", &["tokens", "axes"], "sentence_embedding"), "keepdims", 0),
    ];
    let weights = [tensor("table", &[WORDS.len(), 3], FLOAT, floats(&table())), axes];
    let folder =
        model_folder(&[("model.onnx", graph(&nodes, &weights, &["input_ids"], ("sentence_embedding", FLOAT, 2)))]);
    write(folder.path(), "modules.json", r#"[{"type": "sentence_transformers.models.Dense"}]"#);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    assert!(embedder.card().pooled_by_graph);
    let vectors = embedder.embed(&["red dog"], InputKind::Passage)?;
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]", "red", "dog", "[SEP]"]));
    Ok(())
}

#[test]
fn queries_may_use_another_graph_than_passages() -> Result<()> {
    let doubled: Vec<i8> = table().iter().flatten().map(|x| x.round() as i8 * 2).collect();
    let weights = [
        tensor("table", &[WORDS.len(), 3], INT8, doubled.iter().map(|x| *x as u8).collect()),
        tensor("scale", &[], FLOAT, 0.5f32.to_le_bytes().to_vec()),
    ];
    let nodes = [
        node("Gather", &["table", "input_ids"], "codes"),
        node("DequantizeLinear", &["codes", "scale"], "last_hidden_state"),
    ];
    let int8 = graph(&nodes, &weights, &["input_ids"], ("last_hidden_state", FLOAT, 3));
    let folder = model_folder(&[("onnx/model.onnx", lookup_graph(&table())), ("onnx/model_int8.onnx", int8)]);
    let precisions =
        |query, passage| EmbedOptions { query_precision: query, passage_precision: passage, ..EmbedOptions::default() };
    let embedder = open(folder.path(), precisions(Some(Precision::Fp32), Some(Precision::Int8)))?;
    let words = ["[CLS]", "red", "dog", "[SEP]"];
    let rounded: Vec<[f32; 3]> = table().iter().map(|row| row.map(f32::round)).collect();
    assert_close(embedder.embed(&["red dog"], InputKind::Query)?.as_slice(), &mean_of(&table(), &words));
    assert_close(embedder.embed(&["red dog"], InputKind::Passage)?.as_slice(), &mean_of(&rounded, &words));
    let print = embedder.fingerprint();
    assert_eq!(
        (print.queries.file.as_str(), print.passages.file.as_str()),
        ("onnx/model.onnx", "onnx/model_int8.onnx")
    );
    assert_ne!(print.queries.blake3, print.passages.blake3);
    let alike = open(folder.path(), EmbedOptions::default())?;
    assert_eq!(alike.fingerprint().queries, print.queries, "without a wish the most precise graph serves both");
    assert_eq!(alike.fingerprint().passages, print.queries);
    Ok(())
}

#[test]
fn useless_vectors_are_errors() {
    for (bad, complaint) in [(f32::NAN, "NaN"), (f32::INFINITY, "NaN or infinity"), (0.0, "zeros")] {
        let mut weights = table();
        weights[9] = [bad; 3];
        if bad == 0.0 {
            weights[2] = [0.0; 3];
            weights[3] = [0.0; 3];
        }
        let folder = model_folder(&[("model.onnx", lookup_graph(&weights))]);
        let embedder = open(folder.path(), EmbedOptions::default()).expect("an embedder");
        let error = error_of(embedder.embed(&["red", "dog"], InputKind::Passage));
        assert!(error.contains(complaint), "{error}");
        assert!(embedder.embed(&["red"], InputKind::Passage).is_ok(), "the embedder goes on after an error");
    }
}
