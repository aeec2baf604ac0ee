//! A closed world small enough to learn in minutes: pages of made-up names, questions that hide a name behind misleading words, and a
//! language model that knows nothing yet.
//!
//! `cargo run --release --example small_world -- corpus OUT`, then `hindsearch build OUT/corpus.jsonl --out OUT/index`, then
//! `cargo run --release --example small_world -- tasks OUT` (`make train-demo` and `make methods` do it, and train)
//!
//! writes `OUT/model` (a million weights, with a tokenizer that is trained on the world's words), `OUT/train.jsonl` and
//! `OUT/test.jsonl`, and `OUT/warmup.jsonl`: episodes that show the format, most of them with a search that is misled, and some with a hint
//! of how to search, so that the model has seen what a hint is. No page is in both files of questions.

#![allow(clippy::print_stdout, reason = "an example talks to people")]

mod model;
mod tutor;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use hindsearch::indexes::SearchParams;
use hindsearch::retriever::{OpenOptions, Retriever};
use hindsearch::trainer::{ModelOutput, write_model};
use serde_json::json;

use world::{Page, Question, pages, question};

/// Every so many pages are tested on.
const TESTED: usize = 6;
/// Questions about a page.
const QUESTIONS: u64 = 2;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["corpus", out] => corpus(Path::new(out)),
        ["tasks", out] => tasks(Path::new(out)),
        _ => Err("usage: small_world corpus OUT | small_world tasks OUT".into()),
    }
}

/// The pages, in the format of the quick start's corpus.
fn corpus(out: &Path) -> Outcome<()> {
    fs::create_dir_all(out)?;
    let line = |page: &Page| {
        let contents = format!("\"{}\"\n{}", page.name, page.words);
        format!("{}\n", json!({ "id": page.id, "contents": contents }))
    };
    let lines: String = pages().iter().map(line).collect();
    let path = out.join("corpus.jsonl");
    fs::write(&path, lines)?;
    println!("{}: {} pages", path.display(), pages().len());
    Ok(())
}

/// Questions, episodes to imitate, and the model.
fn tasks(out: &Path) -> Outcome<()> {
    let retriever = Retriever::open(&out.join("index"), OpenOptions::default())?;
    let (pages, mut files) = (pages(), [Vec::new(), Vec::new()]);
    for number in 0..pages.len() {
        let is_tested = number % TESTED == 0;
        let asked = (0..QUESTIONS).map(|sample| question(&pages, number, sample, is_tested)).collect::<Vec<_>>();
        let kept = asked.into_iter().filter_map(|question| is_good(&retriever, &question).transpose());
        files[usize::from(is_tested)].extend(kept.collect::<Outcome<Vec<_>>>()?);
    }
    for (name, questions) in ["train.jsonl", "test.jsonl"].into_iter().zip(&mut files) {
        world::shuffle(questions, name);
        let line = |question: &Question| {
            let task = json!({
                "id": question.id, "question": question.text, "golden_answers": [question.page.words],
                "metadata": { "gold_passage_ids": [question.page.id] },
            });
            format!("{task}\n")
        };
        fs::write(out.join(name), questions.iter().map(line).collect::<String>())?;
        println!("{}: {} questions", out.join(name).display(), questions.len());
    }
    let [learnt, _] = files;
    let warmup: PathBuf = out.join("warmup.jsonl");
    let episodes = tutor::episodes(&retriever, &pages, &learnt)?;
    let hints: Vec<String> =
        episodes.iter().flat_map(|episode| episode.spans.first()).map(|span| span.text.clone()).collect();
    tutor::write(&warmup, &episodes)?;
    println!("{}: {} episodes", warmup.display(), episodes.len());
    let files = model::language(pages.iter().map(Page::told).chain(hints))?;
    let output = ModelOutput { files, ..ModelOutput::default() };
    // The model comes last: where it is, all is there.
    Ok(write_model(&out.join("model"), &model::config(), &model::weights()?, &output)?)
}

/// A question whose name finds its page, and whose whole text does not.
fn is_good(retriever: &Retriever, question: &Question) -> Outcome<Option<Question>> {
    let found = retriever.retrieve_texts(&[&question.page.name, &question.text], &SearchParams::top(1))?;
    let is_page = |ranking: &Vec<hindsearch::retriever::Ranked>| {
        ranking.first().is_some_and(|best| best.passage.id == question.page.id)
    };
    Ok((is_page(&found[0]) && !is_page(&found[1])).then(|| question.clone()))
}
