//! An exact index of some passages, with the small model of the fixtures.

use std::path::Path;

use hindsearch_indexes::{ElementType, IndexKind, Interrupt};
use hindsearch_retriever::build::{BuildOptions, IndexOptions, build};
use hindsearch_retriever::embed::{EmbedOptions, ModelSource};
use serde_json::Value;

/// Publishes an index of `lines`, each a passage as in a wiki-18 corpus, at `folder/index`.
pub fn publish(folder: &Path, lines: &[Value]) {
    let corpus = folder.join("corpus.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&corpus, text).expect("a written corpus");
    let options = BuildOptions {
        corpus: vec![corpus],
        format: None,
        vectors: Vec::new(),
        out: folder.join("index"),
        model: ModelSource::Folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tiny-bert")),
        embed: EmbedOptions::default(),
        index: IndexOptions {
            kind: IndexKind::Flat,
            element_type: ElementType::F32,
            recall_floor: 0.0,
            connectivity: 16,
            expansion_add: 64,
        },
        restart: false,
        settings: Value::Null,
    };
    build(&options, &|_, _| (), &Interrupt::new()).expect("a built index");
}
