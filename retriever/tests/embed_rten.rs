//! The second runtime gives the vectors of the first.
#![cfg(feature = "rten")]

mod embed_support;

use embed_support::*;
use hindsearch_retriever::Result;
use hindsearch_retriever::embed::{Backend, EmbedOptions, InputKind};

fn rten() -> EmbedOptions {
    EmbedOptions { backend: Backend::Rten, ..EmbedOptions::default() }
}

#[test]
fn both_runtimes_agree() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let texts = texts(300, 40);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (first, second) = (open(folder.path(), EmbedOptions::default())?, open(folder.path(), rten())?);
    assert_eq!(second.fingerprint().backend, Backend::Rten);
    let expected = first.embed(&texts, InputKind::Passage)?;
    let found = second.embed(&texts, InputKind::Passage)?;
    found.rows().zip(expected.rows()).for_each(|(found, expected)| assert_close(found, expected));
    Ok(())
}

#[test]
fn half_precision_weights_are_widened() -> Result<()> {
    let halves = table().iter().flatten().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect();
    let weights = tensor("table", &[WORDS.len(), 3], FLOAT16, halves);
    let nodes = [node("Gather", &["table", "input_ids"], "last_hidden_state")];
    let graph = graph(&nodes, &[weights], &["input_ids"], ("last_hidden_state", FLOAT16, 3));
    let folder = model_folder(&[("model.onnx", graph)]);
    let vectors = open(folder.path(), rten())?.embed(&["red dog"], InputKind::Passage)?;
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]", "red", "dog", "[SEP]"]));
    Ok(())
}

#[test]
fn a_graph_that_a_runtime_cannot_load_names_file_and_runtime() {
    let weights = tensor("table", &[WORDS.len(), 3], FLOAT, floats(&table()));
    let nodes = [node("NoSuchOperator", &["table", "input_ids"], "last_hidden_state")];
    let graph = graph(&nodes, &[weights], &["input_ids"], ("last_hidden_state", FLOAT, 3));
    let folder = model_folder(&[("model.onnx", graph)]);
    for (options, runtime) in [(rten(), "rten"), (EmbedOptions::default(), "ONNX Runtime")] {
        let error = open(folder.path(), options).err().expect("an error");
        assert_says(&error, &["model.onnx", runtime, "NoSuchOperator"]);
    }
}
