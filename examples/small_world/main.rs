//! A world small enough to learn in minutes: a language model that knows nothing yet, and questions over the sample corpus that are
//! answered by searching and copying.
//!
//! `cargo run --release --example small_world -- INDEX OUT` (`make train-demo` does it, and trains)
//!
//! writes `OUT/model` (a million weights, with a tokenizer that is trained on the corpus) and `OUT/train.jsonl` and `OUT/test.jsonl`:
//! which page is about these eight words? A question is kept where a search for its words finds its page. No page is in both files.

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hindsearch::indexes::SearchParams;
use hindsearch::retriever::{OpenOptions, Passage, Retriever};
use hindsearch::trainer::{ModelConfig, ModelOutput, Position, Weight, Weights, expected_tensors, write_model};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use serde_json::json;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::{AddedToken, Tokenizer};

/// Tokens of the vocabulary.
const VOCABULARY: usize = 1024;
/// Words of a question, and how long each is at least.
const WORDS: usize = 8;
const LETTERS: usize = 5;
/// Questions that are tried for each passage.
const QUESTIONS: u64 = 40;
/// Every so many pages are tested on.
const TESTED: usize = 6;
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [index, out] = &arguments[..] else { return Err("usage: small_world INDEX OUT".into()) };
    let retriever = Retriever::open(index, OpenOptions::default())?;
    let rows = 0..retriever.corpus().len();
    let passages = rows.map(|row| retriever.corpus().get(row)).collect::<Result<Vec<Passage>, _>>()?;
    fs::create_dir_all(out)?;
    questions(&retriever, &passages, out)?;
    let output = ModelOutput { files: language(&passages)?, ..ModelOutput::default() };
    // The model comes last: where it is, all is there.
    Ok(write_model(&out.join("model"), &config(), &weights()?, &output)?)
}

/// A Llama of a million weights.
fn config() -> ModelConfig {
    ModelConfig {
        hidden: 128,
        layers: 4,
        heads: 4,
        kv_heads: 4,
        head_dim: 32,
        intermediate: 384,
        vocabulary: VOCABULARY,
        rope_theta: 10_000.0,
        rope_scaling: None,
        rms_eps: 1e-5,
        tied: true,
        qkv_bias: false,
        qk_norm: false,
        max_positions: 512,
        eos: vec![0],
    }
}

/// Norms of 1, and matrices that keep the size of what goes through them.
fn weights() -> Outcome<Weights> {
    let weight = |(name, shape): (String, Vec<usize>)| {
        let mut random = Position { seed: 0, purpose: "initialization", update: 0, task: &name, sample: 0 }.stream();
        let width = (3.0 / shape.last().copied().unwrap_or(1) as f32).sqrt();
        let value = |_| if shape.len() == 1 { 1.0 } else { random.random_range(-width..width) };
        let data = (0..shape.iter().product::<usize>()).map(value).collect();
        (name, Weight { shape, data })
    };
    Ok(Weights::new(&config(), expected_tensors(&config()).into_iter().map(weight))?)
}

/// The files of a byte-level tokenizer that is trained on the passages, and of a chat template.
fn language(passages: &[Passage]) -> Outcome<Vec<(String, Vec<u8>)>> {
    let controls = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(|text| AddedToken::from(text, true));
    let bytes = ByteLevel::new(false, true, true);
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(VOCABULARY)
        .special_tokens(controls.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let told =
        |passage: &Passage| format!("<search> <answer> <information> {} {}", passage.display_title(), passage.text);
    tokenizer.train(&mut TrainerWrapper::from(trainer), passages.iter().map(told))?;
    let about = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "chat_template": TEMPLATE,
    });
    Ok(vec![
        ("tokenizer.json".into(), tokenizer.to_string(false)?.into_bytes()),
        ("tokenizer_config.json".into(), serde_json::to_vec_pretty(&about)?),
    ])
}

/// Questions that name words of a page and ask for its title.
fn questions(retriever: &Retriever, passages: &[Passage], out: &Path) -> Outcome<()> {
    let mut pages = BTreeMap::new();
    for passage in passages {
        let number = pages.len();
        pages.entry(passage.display_title()).or_insert(number);
    }
    let mut files = [Vec::new(), Vec::new()];
    for passage in passages {
        let title = passage.display_title();
        let asked: Vec<String> = (0..QUESTIONS).filter_map(|sample| words(passage, sample)).collect();
        let texts: Vec<&str> = asked.iter().map(String::as_str).collect();
        let found = retriever.retrieve_texts(&texts, &SearchParams::top(1))?;
        for (at, (question, ranking)) in asked.iter().zip(found).enumerate() {
            if ranking.first().is_some_and(|best| best.passage.display_title() == title) {
                let id = format!("{}-{at}", passage.id);
                let task = json!({ "id": id, "question": question, "golden_answers": [title] });
                files[usize::from(pages[title] % TESTED == 0)].push(format!("{task}\n"));
            }
        }
    }
    for (name, mut lines) in ["train.jsonl", "test.jsonl"].into_iter().zip(files) {
        // Whoever takes the first few takes some of all pages.
        lines.shuffle(&mut Position { seed: 0, purpose: "order", update: 0, task: name, sample: 0 }.stream());
        println!("{}: {} questions", out.join(name).display(), lines.len());
        fs::write(out.join(name), lines.concat())?;
    }
    Ok(())
}

/// Some words of a passage, drawn; nothing where it has too few.
fn words(passage: &Passage, sample: u64) -> Option<String> {
    let mut all: Vec<&str> = passage.text.split(|letter: char| !letter.is_alphabetic()).collect();
    all.retain(|word| word.chars().count() >= LETTERS);
    all.sort_unstable();
    all.dedup();
    let place = Position { seed: 0, purpose: "questions", update: 0, task: &passage.id, sample };
    let chosen: Vec<&str> = all.sample(&mut place.stream(), WORDS).copied().collect();
    (chosen.len() == WORDS).then(|| chosen.join(" "))
}
