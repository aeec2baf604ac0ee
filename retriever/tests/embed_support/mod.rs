//! Makes model folders by hand: a tokenizer of twelve words and graphs that look tokens up in a small table, so that
//! every vector can be worked out on paper.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::Path;

use hindsearch_retriever::embed::{EmbedOptions, Embedder, ModelSource};
use hindsearch_retriever::{Error, Result};
use tempfile::TempDir;

/// The vocabulary; a token's id is its position.
pub const WORDS: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query:", "passage:", "red", "green", "blue", "dog", "cat", "bird"];

/// The token vectors: row `i` belongs to word `i`. Different for every word, of mixed signs.
pub fn table() -> Vec<[f32; 3]> {
    (0..WORDS.len()).map(|i| [i as f32 - 3.5, ((i * 5) % 7) as f32 - 1.25, ((i * 3) % 11) as f32 - 4.0]).collect()
}

/// The tokenizer, with a truncation to 4 tokens and a padding to 16 that nobody asked for.
pub fn tokenizer() -> String {
    let vocabulary: Vec<String> = WORDS.iter().enumerate().map(|(id, word)| format!("{word:?}: {id}")).collect();
    format!(
        r#"{{"version": "1.0",
        "truncation": {{"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}},
        "padding": {{"strategy": {{"Fixed": 16}}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                     "pad_type_id": 0, "pad_token": "[PAD]"}},
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {{"type": "WhitespaceSplit"}},
        "post_processor": {{"type": "TemplateProcessing",
            "single": [{{"SpecialToken": {{"id": "[CLS]", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}},
                       {{"SpecialToken": {{"id": "[SEP]", "type_id": 0}}}}],
            "pair": [{{"Sequence": {{"id": "A", "type_id": 0}}}}, {{"Sequence": {{"id": "B", "type_id": 1}}}}],
            "special_tokens": {{"[CLS]": {{"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
                                "[SEP]": {{"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}}}}},
        "decoder": null,
        "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "[UNK]"}}}}"#,
        vocabulary.join(", ")
    )
}

/// A folder with a tokenizer, a configuration and the given graphs.
pub fn model_folder(graphs: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "tokenizer.json", tokenizer());
    write(folder.path(), "config.json", r#"{"hidden_size": 3, "vocab_size": 12, "max_position_embeddings": 64}"#);
    for (name, graph) in graphs {
        write(folder.path(), name, graph);
    }
    folder
}

/// Writes a file and the folders above it.
pub fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(&path, content).expect("a written file");
}

/// Opens the model in `folder`.
pub fn open(folder: &Path, options: EmbedOptions) -> Result<Embedder> {
    Embedder::open(&ModelSource::Folder(folder.into()), options)
}

/// The error of a result that must be one.
pub fn error_of<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

/// Fails unless the message has all parts.
#[track_caller]
pub fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text} lacks one of {parts:?}");
}

/// The unit vector along the sum of the words' token vectors: what mean pooling must give.
pub fn mean_of(table: &[[f32; 3]], words: &[&str]) -> Vec<f32> {
    let mut sum = [0f64; 3];
    for word in words {
        let id = WORDS.iter().position(|known| known == word).unwrap_or(1);
        sum.iter_mut().zip(table[id]).for_each(|(sum, x)| *sum += f64::from(x));
    }
    let norm = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
    sum.iter().map(|x| (x / norm) as f32).collect()
}

/// Fails unless two vectors agree to a few units in the last place of values below 1.
#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-6, "found {found:?}, expected {expected:?}");
    }
}

/// `last_hidden_state = table[input_ids]`, with an `attention_mask` that the graph ignores.
pub fn lookup_graph(table: &[[f32; 3]]) -> Vec<u8> {
    let weights = tensor("table", &[table.len(), 3], FLOAT, floats(table));
    let nodes = [node("Gather", &["table", "input_ids"], "last_hidden_state")];
    graph(&nodes, &[weights], &["input_ids", "attention_mask"], ("last_hidden_state", FLOAT, 3))
}

/// Texts of one to `longest` words, without order in their lengths.
pub fn texts(count: usize, longest: usize) -> Vec<String> {
    let word = |i: usize| WORDS[4 + i % 8];
    (0..count)
        .map(|i| (0..1 + i * 7919 % longest).map(|j| word(i * 31 + j * j)).collect::<Vec<_>>().join(" "))
        .collect()
}

/// Raw bytes of the table.
pub fn floats(table: &[[f32; 3]]) -> Vec<u8> {
    table.iter().flatten().flat_map(|x| x.to_le_bytes()).collect()
}

/// ONNX element types.
pub const FLOAT: u64 = 1;
/// See [`FLOAT`].
pub const INT8: u64 = 3;
/// See [`FLOAT`].
pub const INT64: u64 = 7;
/// See [`FLOAT`].
pub const FLOAT16: u64 = 10;

/// An ONNX model of the given nodes and weights; inputs are int64 [batch, sequence], the output is
/// (name, element type, rank).
pub fn graph(nodes: &[Vec<u8>], weights: &[Vec<u8>], inputs: &[&str], output: (&str, u64, usize)) -> Vec<u8> {
    let mut graph = Vec::new();
    nodes.iter().for_each(|node| bytes(&mut graph, 1, node));
    bytes(&mut graph, 2, b"test");
    weights.iter().for_each(|weight| bytes(&mut graph, 5, weight));
    inputs.iter().for_each(|input| bytes(&mut graph, 11, &value_info(input, INT64, 2)));
    bytes(&mut graph, 12, &value_info(output.0, output.1, output.2));
    let mut opset = Vec::new();
    bytes(&mut opset, 1, b"");
    number(&mut opset, 2, 17);
    let mut model = Vec::new();
    number(&mut model, 1, 8);
    bytes(&mut model, 7, &graph);
    bytes(&mut model, 8, &opset);
    model
}

/// A node with one output.
pub fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut node = Vec::new();
    inputs.iter().for_each(|input| bytes(&mut node, 1, input.as_bytes()));
    bytes(&mut node, 2, output.as_bytes());
    bytes(&mut node, 4, op.as_bytes());
    node
}

/// Adds an output to a node.
pub fn with_output(mut node: Vec<u8>, output: &str) -> Vec<u8> {
    bytes(&mut node, 2, output.as_bytes());
    node
}

/// Adds an integer attribute to a node.
pub fn with_int(mut node: Vec<u8>, name: &str, value: u64) -> Vec<u8> {
    let mut attribute = Vec::new();
    bytes(&mut attribute, 1, name.as_bytes());
    number(&mut attribute, 3, value);
    number(&mut attribute, 20, 2);
    bytes(&mut node, 5, &attribute);
    node
}

/// A weight.
pub fn tensor(name: &str, shape: &[usize], element: u64, raw: Vec<u8>) -> Vec<u8> {
    let mut tensor = tensor_head(name, shape, element);
    bytes(&mut tensor, 9, &raw);
    tensor
}

/// A weight kept in another file.
pub fn external_tensor(name: &str, shape: &[usize], element: u64, file: &str) -> Vec<u8> {
    let mut tensor = tensor_head(name, shape, element);
    let mut entry = Vec::new();
    bytes(&mut entry, 1, b"location");
    bytes(&mut entry, 2, file.as_bytes());
    bytes(&mut tensor, 13, &entry);
    number(&mut tensor, 14, 1);
    tensor
}

fn tensor_head(name: &str, shape: &[usize], element: u64) -> Vec<u8> {
    let mut tensor = Vec::new();
    shape.iter().for_each(|&length| number(&mut tensor, 1, length as u64));
    number(&mut tensor, 2, element);
    bytes(&mut tensor, 8, name.as_bytes());
    tensor
}

fn value_info(name: &str, element: u64, rank: usize) -> Vec<u8> {
    let mut shape = Vec::new();
    for axis in 0..rank {
        let mut dimension = Vec::new();
        bytes(&mut dimension, 2, format!("{name}_{axis}").as_bytes());
        bytes(&mut shape, 1, &dimension);
    }
    let (mut tensor, mut kind, mut info) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, element);
    bytes(&mut tensor, 2, &shape);
    bytes(&mut kind, 1, &tensor);
    bytes(&mut info, 1, name.as_bytes());
    bytes(&mut info, 2, &kind);
    info
}

fn bytes(message: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(message, field << 3 | 2);
    varint(message, content.len() as u64);
    message.extend_from_slice(content);
}

fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
