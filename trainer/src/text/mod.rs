//! How do texts become tokens and tokens become texts, exactly?

mod chat;
mod detokenize;
mod episode;
mod gguf_tokenizer;
mod guard;
mod language;
mod python_json;
mod tokenizer;

pub use chat::{Chat, ChatTemplate};
pub use detokenize::{Detokenizer, StopMatch};
pub(crate) use gguf_tokenizer::gguf_tokenizer_files;
pub use language::Language;
pub use tokenizer::Tokenizer;
