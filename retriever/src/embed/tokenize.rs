//! Text to token ids, with this crate's own limits: a shipped `tokenizer.json` may carry a truncation and a fixed
//! padding that would silently cut or lengthen every text.

use std::panic::catch_unwind;
use std::path::Path;

use tokenizers::{PostProcessor, Tokenizer, TruncationParams};

use super::card::Json;
use crate::{Error, Result};

/// The tokens of one text, special tokens included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSequence {
    /// Vocabulary ids.
    pub ids: Vec<u32>,
    /// Segment ids; all 0 for a single text.
    pub type_ids: Vec<u32>,
    /// The text had more tokens than the limit.
    pub truncated: bool,
}

/// A tokenizer with its limit.
#[derive(Debug)]
pub struct TextTokenizer {
    tokenizer: Tokenizer,
    padding_id: u32,
}

impl TextTokenizer {
    /// Reads the tokenizer at `path`, which belongs to the model in `folder`, and cuts texts at `max_length` tokens.
    ///
    /// # Errors
    /// [`Error::File`] when the file is no tokenizer; [`Error::InvalidInput`] when `max_length` leaves no room for
    /// text; [`Error::Incompatible`] when it has more tokens than the model.
    pub fn open(path: &Path, folder: &Path, max_length: usize) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let unusable = |found: String| Error::File {
            path: path.into(),
            expected: "a tokenizer in the format of the `tokenizers` library".into(),
            found,
            remedy: "download the model again".into(),
        };
        // The library panics on some files that are damaged; and it has been tried out once when this returns.
        let read = catch_unwind(|| {
            let tokenizer = Tokenizer::from_bytes(bytes)?;
            tokenizer.encode("A text.", true)?;
            Ok::<_, tokenizers::Error>(tokenizer)
        });
        let mut tokenizer =
            read.map_err(|_| unusable("one that breaks it".into()))?.map_err(|error| unusable(error.to_string()))?;
        let config = Json::read(folder, "config.json")?;
        check_vocabulary(path, &tokenizer, &config)?;
        let padding = tokenizer.get_padding().map(|padding| padding.pad_id);
        let named = || ["[PAD]", "<pad>"].iter().find_map(|token| tokenizer.token_to_id(token));
        let configured = config.number("pad_token_id").and_then(|id| u32::try_from(id).ok());
        let padding_id = configured.or(padding).or_else(named).unwrap_or(0);

        let added = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if max_length <= added {
            return Err(Error::InvalidInput {
                what: "max_length".into(),
                expected: format!("more than the {added} special tokens that this model adds to a text"),
                found: max_length.to_string(),
            });
        }
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|e| failed("set the truncation", &*e))?;
        tokenizer.with_padding(None);
        Ok(Self { tokenizer, padding_id })
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the tokenizer refuses; [`Error::InvalidInput`] when it finds no token at all.
    pub fn tokens(&self, text: &str) -> Result<TokenSequence> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|e| failed("tokenize a text", &*e))?;
        if encoding.is_empty() {
            return Err(Error::InvalidInput {
                what: "text".into(),
                expected: "at least one token".into(),
                found: format!("none in {text:?}"),
            });
        }
        Ok(TokenSequence {
            ids: encoding.get_ids().to_vec(),
            type_ids: encoding.get_type_ids().to_vec(),
            truncated: !encoding.get_overflowing().is_empty(),
        })
    }

    /// The text of token ids, special ones left out.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an id that the model does not have.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        if let Some(id) = ids.iter().find(|id| self.tokenizer.id_to_token(**id).is_none()) {
            return Err(Error::InvalidInput {
                what: "token ids".into(),
                expected: format!("ids of the model's own tokenizer, below {}", self.tokenizer.get_vocab_size(true)),
                found: id.to_string(),
            });
        }
        self.tokenizer.decode(ids, true).map_err(|e| failed("decode token ids", &*e))
    }

    /// The id that fills the rows of a batch up to equal length.
    pub fn padding_id(&self) -> u32 {
        self.padding_id
    }
}

/// An id beyond the embedding table would fail deep inside the graph.
fn check_vocabulary(path: &Path, tokenizer: &Tokenizer, config: &Json) -> Result<()> {
    let highest = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize);
    match config.number("vocab_size") {
        Some(size) if highest >= size => Err(Error::Incompatible {
            what: format!("`{}` and `config.json` beside it", path.display()),
            expected: format!("token ids below the model's {size}"),
            found: format!("ids up to {highest}"),
            remedy: "put the tokenizer of this very model into the folder".into(),
        }),
        _ => Ok(()),
    }
}

fn failed(action: &'static str, error: &(dyn std::error::Error + Send + Sync)) -> Error {
    Error::Runtime { runtime: "the tokenizer", action, message: error.to_string() }
}
