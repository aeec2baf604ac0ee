//! Builds an index of the sample corpus from a program, with progress on stderr.
//!
//! `cargo run --release --example build -- OUT`

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::path::PathBuf;

use hindsearch::indexes::{ElementType, IndexKind, Interrupt};
use hindsearch::retriever::build::{BuildOptions, IndexOptions, build};
use hindsearch::retriever::embed::{EmbedOptions, ModelSource};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(".cache/example"), PathBuf::from);
    let options = BuildOptions {
        corpus: vec!["examples/data/corpus.jsonl".into()],
        format: None,
        vectors: Vec::new(),
        out,
        model: ModelSource::Default,
        embed: EmbedOptions::default(),
        index: IndexOptions {
            kind: IndexKind::Flat,
            element_type: ElementType::F16,
            recall_floor: 0.95,
            connectivity: 16,
            expansion_add: 128,
        },
        restart: false,
        settings: serde_json::json!({ "made by": "examples/build.rs" }),
    };
    // Called from worker threads too; a graphical program would send these to its window.
    let on_stage =
        |stage, step: hindsearch::indexes::Progress| eprintln!("{stage:?}: {} of {:?}", step.done, step.total);
    // Keep a clone of the interrupt and call `stop` on it to end the build early; the next call goes on.
    let report = build(&options, &on_stage, &Interrupt::new())?;
    println!("{} passages in {}, generation {}", report.manifest.rows, report.out, report.generation);
    Ok(())
}
