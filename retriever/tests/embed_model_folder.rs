//! A folder that is not a usable model gives one error that says what was looked for, what is there, and what to do.

mod embed_support;

use std::path::Path;

use embed_support::*;
use hindsearch_indexes::ErrorKind;
use hindsearch_retriever::embed::{
    CardOverrides, EmbedOptions, HubSettings, ModelCard, ModelSource, Pooling, Precision, inspect,
};
use hindsearch_retriever::{Error, Result};

fn error_opening(folder: &Path) -> Error {
    open(folder, EmbedOptions::default()).err().expect("an error")
}

#[test]
fn a_missing_folder_is_not_found() {
    let error = error_opening(Path::new("no/such/model/folder"));
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_says(&error, &["`no/such/model/folder`", "intfloat/e5-base-v2"]);
}

#[test]
fn a_folder_of_other_things_is_told_apart_from_half_a_model() {
    let empty = tempfile::tempdir().expect("a folder");
    assert_says(
        &error_opening(empty.path()),
        &["tokenizer.json", "onnx/model.onnx", "onnx/model_int8.onnx", "empty folder"],
    );
    write(empty.path(), "notes.txt", "");
    assert_says(&error_opening(empty.path()), &["`notes.txt`"]);
    assert_says(&error_opening(&empty.path().join("notes.txt")), &["a file"]);
    write(empty.path(), "tokenizer.json", tokenizer());
    assert_says(&error_opening(empty.path()), &["without a graph"]);
    let graph = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    std::fs::remove_file(graph.path().join("tokenizer.json")).expect("removed");
    assert_says(&error_opening(graph.path()), &["without `tokenizer.json`"]);
}

#[test]
fn the_missing_precision_is_named_with_those_that_are_there() {
    let folder = model_folder(&[("onnx/model.onnx", lookup_graph(&table()))]);
    let options = EmbedOptions { passage_precision: Some(Precision::Int8), ..EmbedOptions::default() };
    let error = open(folder.path(), options).err().expect("an error");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_says(&error, &["int8", "`onnx/model.onnx` (fp32)", "model_int8_static.onnx"]);
}

#[test]
fn what_is_no_graph_is_recognised_before_any_runtime_sees_it() {
    let cut = lookup_graph(&table());
    let cases: [(&[u8], &str); 4] = [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"<html>not found</html>", "an ONNX graph"),
        (b"", "no graph inside"),
        (&cut[..cut.len() / 2], "cut file"),
    ];
    for (content, complaint) in cases {
        let folder = model_folder(&[("model.onnx", content.to_vec())]);
        assert_says(&error_opening(folder.path()), &["model.onnx", complaint]);
    }
}

#[test]
fn weights_in_another_file_are_missed_and_hashed() -> Result<()> {
    let weights = external_tensor("table", &[WORDS.len(), 3], FLOAT, "model.onnx_data");
    let nodes = [node("Gather", &["table", "input_ids"], "last_hidden_state")];
    let graph = graph(&nodes, &[weights], &["input_ids"], ("last_hidden_state", FLOAT, 3));
    let folder = model_folder(&[("onnx/model.onnx", graph)]);
    assert_says(&error_opening(folder.path()), &["model.onnx_data", "does not exist"]);
    write(folder.path(), "onnx/model.onnx_data", floats(&table()));
    let first = open(folder.path(), EmbedOptions::default())?;
    assert_close(
        first.embed(&["red"], hindsearch_retriever::embed::InputKind::Query)?.as_slice(),
        &mean_of(&table(), &["[CLS]", "red", "[SEP]"]),
    );
    let mut other = table();
    other[0][0] += 1.0;
    write(folder.path(), "onnx/model.onnx_data", floats(&other));
    let second = open(folder.path(), EmbedOptions::default())?;
    assert_ne!(first.fingerprint().passages.blake3, second.fingerprint().passages.blake3);
    Ok(())
}

#[test]
fn graphs_of_another_kind_name_their_inputs_and_outputs() {
    let weights = tensor("table", &[WORDS.len(), 3], FLOAT, floats(&table()));
    let nodes = [node("Gather", &["table", "pixel_values"], "last_hidden_state")];
    let pixels = graph(&nodes, std::slice::from_ref(&weights), &["pixel_values"], ("last_hidden_state", FLOAT, 3));
    let folder = model_folder(&[("model.onnx", pixels)]);
    assert_says(&error_opening(folder.path()), &["pixel_values", "input_ids", "feature extraction"]);
    let axes = tensor("axes", &[1], INT64, 2i64.to_le_bytes().to_vec());
    let nodes = [node("Gather", &["table", "input_ids"], "tokens"), node("ReduceSum", &["tokens", "axes"], "logits")];
    let logits = graph(&nodes, &[weights, axes], &["input_ids"], ("logits", FLOAT, 2));
    let folder = model_folder(&[("model.onnx", logits)]);
    assert_says(&error_opening(folder.path()), &["`logits`", "last_hidden_state"]);
}

#[test]
fn files_of_different_models_are_noticed() {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    write(folder.path(), "config.json", r#"{"hidden_size": 768, "vocab_size": 12}"#);
    assert_says(&error_opening(folder.path()), &["768", "config.json", "found 3"]);
    write(folder.path(), "config.json", r#"{"hidden_size": 3, "vocab_size": 7}"#);
    let error = error_opening(folder.path());
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_says(&error, &["below the model's 7", "up to 11"]);
    write(folder.path(), "config.json", "{");
    assert_says(&error_opening(folder.path()), &["config.json", "JSON"]);
    write(folder.path(), "config.json", "{}");
    write(folder.path(), "tokenizer.json", "{}");
    assert_says(&error_opening(folder.path()), &["tokenizer.json"]);
}

#[test]
fn only_scales_over_the_whole_batch_forbid_neighbours() -> Result<()> {
    let output = ("last_hidden_state", FLOAT, 3);
    let scan = |nodes: &[Vec<u8>], weights: &[Vec<u8>]| {
        let folder = model_folder(&[("model.onnx", graph(nodes, weights, &["input_ids"], output))]);
        inspect(&folder.path().join("model.onnx"))
    };
    let codes = tensor("codes", &[2, 2], INT8, vec![1; 4]);
    let weight_only = scan(&[node("DequantizeLinear", &["codes", "scale"], "x")], std::slice::from_ref(&codes))?;
    assert_eq!(weight_only.precision, Precision::Int8);
    assert!(!weight_only.dynamic_quantization && !weight_only.integer_products);
    let dynamic =
        scan(&[node("DynamicQuantizeLinear", &["a"], "b"), node("MatMulInteger", &["b", "codes"], "c")], &[codes])?;
    assert!(dynamic.dynamic_quantization && dynamic.integer_products);
    let zero_point = tensor("zero", &[], INT8, vec![0]);
    let floats = tensor("w", &[2], FLOAT, vec![0; 8]);
    assert_eq!(scan(&[node("Add", &["w", "w"], "x")], &[zero_point, floats])?.precision, Precision::Fp32);
    Ok(())
}

#[test]
fn the_folder_beats_the_table_and_wishes_beat_both() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let card = |id: &str, wishes: &CardOverrides| ModelCard::derive(folder.path(), id, wishes);
    let none = CardOverrides::default();

    let e5 = card("intfloat/multilingual-e5-small", &none)?;
    assert_eq!(
        (&*e5.query_prefix, &*e5.passage_prefix, e5.pooling, e5.max_length),
        ("query: ", "passage: ", Pooling::Mean, 512)
    );
    let bge = card("BAAI/bge-small-en-v1.5", &none)?;
    assert_eq!((bge.pooling, &*bge.passage_prefix), (Pooling::Cls, ""));
    assert!(bge.query_prefix.starts_with("Represent this sentence for searching"));
    let minilm = card("sentence-transformers/all-MiniLM-L6-v2", &none)?;
    assert_eq!((&*minilm.query_prefix, minilm.max_length, minilm.pooling), ("", 256, Pooling::Mean));
    assert_eq!(card("Alibaba-NLP/gte-base-en-v1.5", &none)?.pooling, Pooling::Cls);
    assert!(e5.assumed.is_empty() && bge.assumed.is_empty() && minilm.assumed.is_empty());
    assert_eq!(card("somebody/unheard-of", &none)?.assumed, ["pooling", "prefixes"]);

    write(
        folder.path(),
        "config.json",
        r#"{"_name_or_path": "intfloat/e5-base-v2", "hidden_size": 768, "max_position_embeddings": 512}"#,
    );
    assert_eq!(card("my-copy", &none)?.query_prefix, "query: ");
    write(folder.path(), "sentence_bert_config.json", r#"{"max_seq_length": 128}"#);
    write(
        folder.path(),
        "1_Pooling/config.json",
        r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
    );
    write(folder.path(), "config_sentence_transformers.json", r#"{"prompts": {"query": "Q: ", "document": "D: "}}"#);
    let told = card("intfloat/e5-base-v2", &none)?;
    assert_eq!((told.max_length, told.pooling, told.dimensions), (128, Pooling::Cls, 768));
    assert_eq!((&*told.query_prefix, &*told.passage_prefix), ("Q: ", "D: "));

    let wishes = CardOverrides {
        pooling: Some(Pooling::Mean),
        query_prefix: Some(String::new()),
        passage_prefix: Some("p ".into()),
        max_length: Some(200),
        ..CardOverrides::default()
    };
    let wished = card("intfloat/e5-base-v2", &wishes)?;
    assert_eq!(
        (wished.pooling, wished.max_length, &*wished.query_prefix, &*wished.passage_prefix),
        (Pooling::Mean, 200, "", "p ")
    );
    let saved = serde_json::to_string(&wished).expect("JSON");
    assert_eq!(serde_json::from_str::<ModelCard>(&saved).expect("a card"), wished);
    Ok(())
}

#[test]
fn limits_never_exceed_the_positions_of_the_model() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let none = CardOverrides::default();
    write(folder.path(), "tokenizer_config.json", r#"{"model_max_length": 1000000000000000019884624838656}"#);
    assert_eq!(ModelCard::derive(folder.path(), "x", &none)?.max_length, 512);
    write(folder.path(), "config.json", r#"{"max_position_embeddings": 514, "model_type": "xlm-roberta"}"#);
    assert_eq!(ModelCard::derive(folder.path(), "x", &none)?.max_length, 512);
    write(folder.path(), "sentence_bert_config.json", r#"{"max_seq_length": 4096}"#);
    assert_eq!(ModelCard::derive(folder.path(), "x", &none)?.max_length, 512);
    Ok(())
}

#[test]
fn pooling_that_is_not_known_is_refused_unless_overridden() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "1_Pooling/config.json", r#"{"pooling_mode_lasttoken": true}"#);
    let error = ModelCard::derive(folder.path(), "x", &CardOverrides::default()).expect_err("an error");
    assert_says(&error, &["lasttoken", "`mean` or `cls`"]);
    let wish = CardOverrides { pooling: Some(Pooling::Cls), ..CardOverrides::default() };
    assert_eq!(ModelCard::derive(folder.path(), "x", &wish)?.pooling, Pooling::Cls);
    Ok(())
}

#[test]
fn a_hub_id_is_found_in_the_cache_without_network() -> Result<()> {
    let cache = tempfile::tempdir().expect("a folder");
    let home = cache.path().as_os_str().to_owned();
    let settings = HubSettings::from_lookup(&|name| (name == "HF_HOME").then(|| home.clone()));
    let source = ModelSource::parse("somebody/tiny");
    let options = || EmbedOptions { hub: Some(settings.clone()), ..EmbedOptions::default() };
    let open = || hindsearch_retriever::embed::Embedder::open(&source, options());
    assert_says(&open().err().expect("an error"), &["somebody/tiny", "main", "models--somebody--tiny"]);

    let model = cache.path().join("hub/models--somebody--tiny");
    write(&model, "refs/main", "0a1b2c");
    assert_says(&open().err().expect("an error"), &["0a1b2c"]);
    write(&model, "snapshots/0a1b2c/tokenizer.json", tokenizer());
    write(&model, "snapshots/0a1b2c/config.json", r#"{"hidden_size": 3}"#);
    write(&model, "snapshots/0a1b2c/onnx/model.onnx", lookup_graph(&table()));
    assert_eq!(open()?.card().id, "somebody/tiny");
    assert!(ModelSource::parse("somebody/tiny@0a1b2c").locate(&settings, &[None]).is_ok());
    assert!(ModelSource::parse("somebody/tiny@../../x").locate(&settings, &[None]).is_err());
    Ok(())
}

#[test]
fn names_are_read_as_folders_or_hub_ids() {
    let hub = |id: &str, revision: &str| ModelSource::Hub { id: id.into(), revision: revision.into() };
    assert_eq!(ModelSource::parse("intfloat/e5-base-v2"), hub("intfloat/e5-base-v2", "main"));
    assert_eq!(ModelSource::parse("intfloat/e5-base-v2@v1"), hub("intfloat/e5-base-v2", "v1"));
    for folder in ["./x", "../x/y", "/x/y", "x", "a/b/c", "~/x", "tests", "a/../b", "a b/c"] {
        assert_eq!(ModelSource::parse(folder), ModelSource::Folder(folder.into()));
    }
}

#[cfg(not(feature = "rten"))]
#[test]
fn a_runtime_that_was_not_built_in_is_unavailable() {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let options = EmbedOptions { backend: hindsearch_retriever::embed::Backend::Rten, ..EmbedOptions::default() };
    let error = open(folder.path(), options).err().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_says(&error, &["`rten`", "feature"]);
}
