//! A world small enough to learn in minutes: a language model that knows nothing yet, and questions over a corpus that are answered
//! by searching and copying.
//!
//!     cargo run --release -p hindsearch-trainer --example small_world -- examples/data/corpus.jsonl world
//!
//! writes `world/model` (about a million weights, with a tokenizer that is trained on the corpus), `world/train.jsonl` and
//! `world/test.jsonl` (which page holds these words? no page is in both), and `world/recipe.toml`.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use hindsearch_trainer::{ModelConfig, ModelOutput, Position, Weight, Weights, expected_tensors, write_model};
use rand::RngExt;
use serde_json::{Value, json};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::{AddedToken, Tokenizer};

/// Tokens of the vocabulary.
const VOCABULARY: usize = 1024;
/// Words of a page that a question quotes.
const WORDS: usize = 7;
/// Every so many pages is tested on.
const TEST: usize = 6;
/// Questions about a page.
const QUESTIONS: usize = 6;
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const RECIPE: &str = r#"name = "small-world"
about = "Short enough for a model of a million weights"
source = "written for this project"

[prompt]
user = "{question}"

[grammar]
search = { open = "<search>", close = "</search>" }
answer = { open = "<answer>", close = "</answer>" }
stop = ["</search>", "</answer>"]
cut = "first-close"
choose = "first"
end = "answer"

[observation]
role = "assistant"
before = "<information>"
after = "</information>"
passage = "{title}: {text}"
top_k = 1
budget = { tokens = 48 }

[invalid]
then = "reply"
reply = "?"

[limits]
turns = 2
last_turn = "extra-answer"
response_tokens = 48
context_tokens = 400

[reward]
terms = [{ scorer = "em" }]
"#;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, out] = &arguments[..] else { return Err("usage: small_world CORPUS OUT".into()) };
    let out = Path::new(out);
    fs::create_dir_all(out)?;
    let mut pages = Vec::new();
    for line in fs::read_to_string(corpus)?.lines() {
        let contents = serde_json::from_str::<Value>(line)?["contents"].as_str().unwrap_or_default().to_owned();
        let (title, text) = contents.split_once('\n').ok_or("a passage without a title")?;
        pages.push((title.trim_matches('"').to_owned(), text.to_owned()));
    }
    write_model(
        &out.join("model"),
        &config(),
        &weights()?,
        &ModelOutput { files: language(&pages)?, ..ModelOutput::default() },
    )?;
    fs::write(out.join("recipe.toml"), RECIPE)?;
    questions(&pages, out)
}

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

/// The files of a byte-level tokenizer that is trained on the pages, and of a chat template.
fn language(pages: &[(String, String)]) -> Outcome<Vec<(String, Vec<u8>)>> {
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
    let texts = pages.iter().map(|(title, text)| format!("<search> <answer> <information> {title} {text}"));
    tokenizer.train(&mut TrainerWrapper::from(trainer), texts)?;
    let about = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "chat_template": TEMPLATE,
    });
    Ok(vec![
        ("tokenizer.json".into(), tokenizer.to_string(false)?.into_bytes()),
        ("tokenizer_config.json".into(), serde_json::to_vec_pretty(&about)?),
    ])
}

/// Questions that quote some words of a page and ask for its title.
fn questions(pages: &[(String, String)], out: &Path) -> Outcome<()> {
    let mut files = [fs::File::create(out.join("train.jsonl"))?, fs::File::create(out.join("test.jsonl"))?];
    let mut titles: Vec<&str> = pages.iter().map(|(title, _)| title.as_str()).collect();
    titles.dedup();
    for (number, (title, text)) in pages.iter().enumerate() {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut random = Position { seed: 0, purpose: "questions", update: 0, task: text, sample: 0 }.stream();
        let held_out = titles.iter().position(|other| other == title).is_some_and(|at| at % TEST == 0);
        for at in 0..QUESTIONS.min(words.len() / WORDS) {
            let first = random.random_range(0..=words.len() - WORDS);
            let question = words[first..first + WORDS].join(" ");
            let task = json!({ "id": format!("{number}-{at}"), "question": question, "golden_answers": [title] });
            writeln!(files[usize::from(held_out)], "{task}")?;
        }
    }
    Ok(())
}
