//! What is a model on disk: its shape, its weights, its tokenizer and its chat template?

mod config;
mod gguf;
mod tensor_file;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

pub use config::{ModelConfig, RopeScaling};
pub(crate) use config::{read_json, token_ids};
pub(crate) use gguf::Gguf;
pub use tensor_file::{StoredType, read_tensors, write_tensors};
pub use weights::{ModelOutput, Weight, Weights, expected_tensors, write_model};

use crate::text::{ChatTemplate, Tokenizer, gguf_tokenizer_files};
use crate::{Error, Result};

/// Files beside the weights that belong to a model and that training does not change.
const COMPANIONS: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "LICENSE",
    "NOTICE",
];

/// A model on disk: a folder as Hugging Face's libraries write it, or a GGUF file.
#[derive(Debug)]
pub struct ModelFiles {
    config: ModelConfig,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Folder(PathBuf),
    Gguf(Box<Gguf>),
}

impl ModelFiles {
    /// Opens a folder with a `config.json`, or a GGUF file, and reads the configuration.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a file that is damaged, and for a model that is not known.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            let gguf = Gguf::open(path)?;
            return Ok(Self { config: gguf.config()?, form: Form::Gguf(Box::new(gguf)) });
        }
        let mut config = ModelConfig::open(&path.join("config.json"))?;
        config.eos = eos(path, config.eos, config.vocabulary)?;
        Ok(Self { config, form: Form::Folder(path.to_path_buf()) })
    }

    /// The shape of the model. Its `eos` holds what the folder's `generation_config.json` names, too.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Reads the weights, in f32.
    ///
    /// # Errors
    /// [`Error::File`] names a tensor that is missing, is not known, or has another shape or type; [`Error::Io`].
    pub fn weights(&self) -> Result<Weights> {
        match &self.form {
            Form::Folder(folder) => weights::read_folder(folder, &self.config),
            Form::Gguf(gguf) => gguf.weights(&self.config),
        }
    }

    /// Reads the tokenizer. Its tokens that end a text are those of the configuration, too.
    ///
    /// # Errors
    /// As [`Tokenizer::open`]; [`Error::File`] for ids beyond the model's embedding.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let (path, tokenizer) = match &self.form {
            Form::Folder(folder) => (folder.as_path(), Tokenizer::open(folder)?),
            Form::Gguf(gguf) => (gguf.path(), Tokenizer::from_gguf(gguf)?),
        };
        let (ids, rows) = (tokenizer.vocabulary(), self.config.vocabulary);
        if ids > rows {
            let expected = format!("a tokenizer with ids below the model's {rows}");
            return Err(Error::file(path, expected, format!("ids up to {}", ids - 1)));
        }
        Ok(tokenizer.with_eos(&self.config.eos))
    }

    /// Reads the chat template; where none came with the model, a plain one ([`ChatTemplate::origin`] tells).
    ///
    /// # Errors
    /// [`Error::File`] for one that cannot be read.
    pub fn chat_template(&self) -> Result<ChatTemplate> {
        match &self.form {
            Form::Folder(folder) => ChatTemplate::open(folder),
            Form::Gguf(gguf) => ChatTemplate::from_gguf(gguf),
        }
    }

    /// Names and bytes of the files that [`write_model`] puts beside the weights: the tokenizer, the chat template and the like.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a GGUF file without a tokenizer that is known.
    pub fn companions(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = match &self.form {
            Form::Folder(folder) => folder,
            Form::Gguf(gguf) => return gguf_tokenizer_files(gguf),
        };
        let read = |name: &&str| {
            let path = folder.join(name);
            let bytes = path.is_file().then(|| fs::read(&path).map_err(Error::io("read", &path)))?;
            Some(bytes.map(|bytes| ((*name).to_owned(), bytes)))
        };
        COMPANIONS.iter().filter_map(read).collect()
    }
}

/// The tokens that end a text, of `config.json` and of `generation_config.json`.
fn eos(folder: &Path, mut ids: Vec<u32>, vocabulary: usize) -> Result<Vec<u32>> {
    let path = folder.join("generation_config.json");
    if path.is_file() {
        let value = read_json(&path)?;
        let more = token_ids(value.get("eos_token_id")).filter(|ids| ids.iter().all(|&id| (id as usize) < vocabulary));
        let expected = format!("`eos_token_id` to be ids below {vocabulary}");
        ids.extend(more.ok_or_else(|| Error::file(&path, expected, value["eos_token_id"].to_string()))?);
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
