//! A closed world small enough to learn in minutes: pages of made-up names, questions that hide a name behind misleading words, and a
//! language model that knows nothing yet.
//!
//! `tools/small_world.sh` calls, one after the other (`make train-demo` and `make methods` do, and train):
//!
//! ```text
//! small_world corpus OUT       # OUT/corpus.jsonl, of which `hindsearch build` makes OUT/index
//! small_world tasks OUT        # questions, train.jsonl and test.jsonl, with no page in both; and plays.jsonl, in which one that knows the
//!                              # format plays and is mostly misled; `hindsearch experience build` makes OUT/lessons.jsonl of them
//! small_world warmup OUT       # OUT/warmup.jsonl, episodes to imitate: some as they were played, some behind a hint or guided by
//!                              # experience, so that the model has seen what these are; and OUT/model, a million weights
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to people")]

mod model;
mod tutor;
mod world;

use std::fs;
use std::path::Path;

use hindsearch::env::tasks::{ReadOptions, TaskSet, read};
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
        ["warmup", out] => warmup(Path::new(out)),
        _ => Err("usage: small_world corpus|tasks|warmup OUT".into()),
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

/// Questions, and plays of the misled.
fn tasks(out: &Path) -> Outcome<()> {
    let retriever = Retriever::open(&out.join("index"), OpenOptions::default())?;
    let (pages, mut files) = (pages(), [Vec::new(), Vec::new()]);
    for number in 0..pages.len() {
        let is_tested = number % TESTED == 0;
        let asked = (0..QUESTIONS).map(|sample| question(&pages, number, sample, is_tested)).collect::<Vec<_>>();
        let kept = asked.into_iter().filter_map(|question| is_good(&retriever, &question).transpose());
        files[usize::from(is_tested)].extend(kept.collect::<Outcome<Vec<_>>>()?);
    }
    for (name, mut questions) in ["train.jsonl", "test.jsonl"].into_iter().zip(files) {
        world::shuffle(&mut questions, name);
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
    let path = out.join("plays.jsonl");
    tutor::plays(&retriever, &pages, learnt(out)?.tasks(), &path)?;
    println!("{}: plays of the misled", path.display());
    Ok(())
}

/// Episodes to imitate, and the model.
fn warmup(out: &Path) -> Outcome<()> {
    let retriever = Retriever::open(&out.join("index"), OpenOptions::default())?;
    let (pages, path) = (pages(), out.join("warmup.jsonl"));
    let episodes = tutor::episodes(&retriever, &pages, learnt(out)?.tasks(), out)?;
    tutor::write(&path, &episodes)?;
    println!("{}: {} episodes", path.display(), episodes.len());
    let told = episodes.iter().flat_map(|episode| &episode.spans).map(|span| span.text.clone());
    let files = model::language(pages.iter().map(Page::told).chain(told.collect::<Vec<_>>()))?;
    let output = ModelOutput { files, ..ModelOutput::default() };
    // The model comes last: where it is, all is there.
    Ok(write_model(&out.join("model"), &model::config(), &model::weights()?, &output)?)
}

/// The questions to learn on, as a run reads them.
fn learnt(out: &Path) -> Outcome<TaskSet> {
    Ok(read(&[out.join("train.jsonl")], &ReadOptions::default())?)
}

/// A question whose name finds its page, and whose whole text does not.
fn is_good(retriever: &Retriever, question: &Question) -> Outcome<Option<Question>> {
    let found = retriever.retrieve_texts(&[&question.page.name, &question.text], &SearchParams::top(1))?;
    let is_page = |ranking: &Vec<hindsearch::retriever::Ranked>| {
        ranking.first().is_some_and(|best| best.passage.id == question.page.id)
    };
    Ok((is_page(&found[0]) && !is_page(&found[1])).then(|| question.clone()))
}
