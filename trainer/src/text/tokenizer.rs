//! Which tokens does a text have, and which bytes does a token have?

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::panic::catch_unwind;
use std::path::Path;

use hindsearch_env::Measure;
use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{AddedVocabulary, NormalizerWrapper, OffsetReferential, OffsetType};

use super::gguf_tokenizer::tokenizer_json;
use super::guard::Guard;
use crate::model::{Gguf, read_json};
use crate::{Error, Result};

/// Ids that a vocabulary may have, far beyond every known one.
const MOST_IDS: u32 = 1 << 24;

/// A byte-level tokenizer (GPT-2's kind, as of Llama 3, Qwen and SmolLM): every token is a run of bytes, so that texts can be put
/// together from tokens, and the ends of tokens found in them, without doubt.
///
/// Texts never become control tokens: what looks like one in a question or in a passage is encoded as ordinary text.
pub struct Tokenizer {
    /// Never matches control tokens, and adds none.
    inner: tokenizers::Tokenizer,
    /// Finds control tokens in what a chat template wrote.
    controls: AddedVocabulary,
    tokens: HashMap<u32, Token>,
    vocabulary: usize,
    begin: Vec<u32>,
    eos: Vec<u32>,
}

struct Token {
    bytes: Box<[u8]>,
    special: bool,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`, or that of a model's folder. The tokens that end a text are those that `tokenizer_config.json`
    /// beside it names.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for what is no tokenizer of the byte-level kind.
    pub fn open(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { path.join("tokenizer.json") } else { path.to_path_buf() };
        let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let tokenizer = Self::from_bytes(&path, &bytes)?;
        let config = path.with_file_name("tokenizer_config.json");
        let eos = if config.is_file() { token_text(&read_json(&config)?["eos_token"]) } else { None };
        let eos = eos.and_then(|token| tokenizer.inner.token_to_id(&token));
        Ok(tokenizer.with_eos(eos.as_slice()))
    }

    /// The tokenizer in a GGUF file.
    pub(crate) fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let json = tokenizer_json(gguf)?.to_string();
        Ok(Self::from_bytes(gguf.path(), json.as_bytes())?.with_eos(&gguf.eos()))
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let unusable = |found: String| Error::file(path, "a tokenizer as the `tokenizers` library keeps it", found);
        // The library panics on some files that are damaged; and it has been tried out once when this returns.
        let read = catch_unwind(|| {
            let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes)?;
            tokenizer.with_truncation(None)?.with_padding(None);
            let begin = tokenizer.encode("", true)?.get_ids().to_vec();
            tokenizer.encode("A text.", true)?;
            Ok::<_, tokenizers::Error>((tokenizer, begin))
        });
        let read = read.map_err(|_| unusable("one that breaks it".into()))?;
        let (mut inner, begin) = read.map_err(|error| unusable(error.to_string()))?;
        if !matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            let found = "another one; models that use SentencePiece's are not supported";
            return Err(Error::file(path, "a decoder of the kind `ByteLevel`", found));
        }
        // It trims the offsets of tokens, and adds control tokens.
        inner.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
        let controls = inner.get_added_vocabulary().clone();
        inner.set_encode_special_tokens(true);
        let tokens = tokens(&inner);
        let highest = tokens.keys().max().copied().unwrap_or(0);
        if highest >= MOST_IDS {
            return Err(Error::file(path, format!("ids below {MOST_IDS}"), highest.to_string()));
        }
        Ok(Self { inner, controls, tokens, vocabulary: highest as usize + 1, begin, eos: Vec::new() })
    }

    /// With these tokens among those that end a text.
    pub fn with_eos(mut self, ids: &[u32]) -> Self {
        self.eos.extend(ids);
        self.eos.sort_unstable();
        self.eos.dedup();
        self
    }

    /// The tokens of a text; none is added, and none is a control token, whatever the text holds.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false).map_err(refused)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The tokens of what a chat template wrote: control tokens become such, but for those under `guard`.
    pub(super) fn encode_template(&self, text: &str, guard: &Guard) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut start = 0;
        for (at, control) in self.controls_in(text) {
            ids.extend(self.encode(&guard.restore(&text[start..at.start], self))?);
            ids.push(control);
            start = at.end;
        }
        ids.extend(self.encode(&guard.restore(&text[start..], self))?);
        Ok(ids)
    }

    /// Where control tokens stand in a text, with the spaces that some of them swallow.
    pub(super) fn controls_in(&self, text: &str) -> Vec<(Range<usize>, u32)> {
        let split = self.controls.extract_and_normalize(None::<&NormalizerWrapper>, text);
        // Added tokens that control nothing are left to the encoding.
        let control = |(_, (from, to), tokens): (_, (usize, usize), &Option<Vec<tokenizers::Token>>)| {
            let id = tokens.as_ref()?.first()?.id;
            self.is_special(id).then_some((from..to, id))
        };
        let splits: Vec<(&str, _, _)> = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().filter_map(control).collect()
    }

    /// The text of token ids, control tokens included, as Python's `decode(errors="replace")` gives it: bytes that are no text
    /// become U+FFFD. Ids without a token say nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| self.token_bytes(id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of a token; nothing where no token has this id.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.tokens.get(&id).map(|token| &*token.bytes)
    }

    /// Whether a token is a control token: the end of a turn or of a text and the like.
    pub fn is_special(&self, id: u32) -> bool {
        self.tokens.get(&id).is_some_and(|token| token.special)
    }

    /// All control tokens.
    pub fn special_ids(&self) -> BTreeSet<u32> {
        self.tokens.iter().filter(|(_, token)| token.special).map(|(&id, _)| id).collect()
    }

    /// The control token that is written like this.
    pub fn special_id(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text).filter(|&id| self.is_special(id))
    }

    /// Tokens that end a text, ascending.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// Tokens that the model wants at the beginning of every text; a chat template brings its own.
    pub fn begin(&self) -> &[u32] {
        &self.begin
    }

    /// The highest id and one more; the model may have more rows.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocabulary", &self.vocabulary)
            .field("eos", &self.eos)
            .finish_non_exhaustive()
    }
}

impl Measure for Tokenizer {
    fn length(&self, text: &str) -> usize {
        // A text that the tokenizer refuses has at most as many tokens as bytes.
        self.inner.encode_fast(text, false).map_or(text.len(), |encoding| encoding.len())
    }

    fn head(&self, text: &str, most: usize) -> usize {
        // Where the next token begins; that of a character which is spread over tokens, where the character does.
        match self.inner.encode(text, false) {
            Ok(encoding) => {
                encoding.get_offsets().get(most).map_or(text.len(), |next| text.floor_char_boundary(next.0))
            }
            Err(_) => text.floor_char_boundary(most),
        }
    }
}

/// The text of a token in a `tokenizer_config.json`: plain, or as an object.
pub(super) fn token_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

fn refused(error: tokenizers::Error) -> Error {
    Error::invalid("text", "one that the tokenizer takes", error.to_string())
}

fn tokens(tokenizer: &tokenizers::Tokenizer) -> HashMap<u32, Token> {
    let bytes = byte_letters();
    let read = |text: &str| {
        let bytes: Option<Box<[u8]>> = text.chars().map(|letter| bytes.get(&letter).copied()).collect();
        bytes.unwrap_or_else(|| text.as_bytes().into())
    };
    let plain = tokenizer.get_vocab(false).into_iter();
    let mut tokens: HashMap<u32, Token> =
        plain.map(|(text, id)| (id, Token { bytes: read(&text), special: false })).collect();
    for (id, added) in tokenizer.get_added_tokens_decoder() {
        // They are found in texts as they are, so they are not in the alphabet of bytes.
        tokens.insert(id, Token { bytes: added.content.as_bytes().into(), special: added.special });
    }
    tokens
}

/// GPT-2's alphabet, in which each byte is a letter that can be seen: those of Latin-1 stand for themselves, the others for the
/// letters from U+0100 on, in order.
pub(super) fn byte_letters() -> HashMap<char, u8> {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let seen = (0..=u8::MAX).filter(is_seen).map(|byte| (char::from(byte), byte));
    let unseen = ('\u{100}'..).zip((0..=u8::MAX).filter(|byte| !is_seen(byte)));
    seen.chain(unseen).collect()
}
