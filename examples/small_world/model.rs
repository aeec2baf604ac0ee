//! The model, before it has learnt anything.

use hindsearch::trainer::{ModelConfig, Position, Weight, Weights, expected_tensors};
use rand::RngExt;
use serde_json::json;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::{AddedToken, Tokenizer};

use super::Outcome;

/// Tokens of the vocabulary.
const VOCABULARY: usize = 1024;
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A Llama of a million weights.
pub fn config() -> ModelConfig {
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
        max_positions: 1024,
        eos: vec![0],
    }
}

/// Norms of 1, and matrices that keep the size of what goes through them.
pub fn weights() -> Outcome<Weights> {
    let weight = |(name, shape): (String, Vec<usize>)| {
        let mut random = Position { seed: 0, purpose: "initialization", update: 0, task: &name, sample: 0 }.stream();
        let width = (3.0 / shape.last().copied().unwrap_or(1) as f32).sqrt();
        let value = |_| if shape.len() == 1 { 1.0 } else { random.random_range(-width..width) };
        let data = (0..shape.iter().product::<usize>()).map(value).collect();
        (name, Weight { shape, data })
    };
    Ok(Weights::new(&config(), expected_tensors(&config()).into_iter().map(weight))?)
}

/// The files of a byte-level tokenizer that is trained on these texts, and of a chat template.
pub fn language(texts: impl Iterator<Item = String> + Send) -> Outcome<Vec<(String, Vec<u8>)>> {
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
    tokenizer.train(&mut TrainerWrapper::from(trainer), texts)?;
    let about = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "chat_template": TEMPLATE,
    });
    Ok(vec![
        ("tokenizer.json".into(), tokenizer.to_string(false)?.into_bytes()),
        ("tokenizer_config.json".into(), serde_json::to_vec_pretty(&about)?),
    ])
}
