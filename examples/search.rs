//! Asks an index of the sample corpus three questions in one batch.
//!
//! `cargo run --release --example search -- INDEX` (build one first: `make quickstart`, or the example `build`)

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::path::PathBuf;

use hindsearch::indexes::SearchParams;
use hindsearch::retriever::{OpenOptions, Retriever};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let index = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(".cache/sample"), PathBuf::from);
    let retriever = Retriever::open(&index, OpenOptions::default())?;
    let questions = ["Who discovered radium?", "Which river flows through Vienna?", "Who painted The Kiss?"];
    // A batch shares the work: one call for many queries is faster than many calls.
    let rankings = retriever.retrieve_texts(&questions, &SearchParams::top(3))?;
    for (question, ranking) in questions.iter().zip(rankings) {
        println!("{question}");
        for hit in ranking {
            println!("  {:.3}  {} (row {})", hit.score, hit.passage.display_title(), hit.row);
        }
    }
    Ok(())
}
