//! How does this model want its texts? Prefixes, pooling, length limit: derived from the model folder and a table of
//! well-known families, overridable, and saved with every index.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::families;
use crate::{Error, Result};

/// Whether a text is a question or something that answers one. Many models are trained to tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// What is searched for.
    Query,
    /// What is found.
    Passage,
}

/// How token vectors become one text vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean over all tokens of the text, special tokens included.
    Mean,
    /// The first token.
    Cls,
}

/// All that decides a text's vector beside the weights and the tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    /// The hub id, or the name of the folder.
    pub id: String,
    /// How token vectors become one.
    pub pooling: Pooling,
    /// Scale vectors to unit length. Only a model trained for plain dot products goes without.
    pub normalize: bool,
    /// Put before each query: `query: `.
    pub query_prefix: String,
    /// Put before each passage: `passage: `.
    pub passage_prefix: String,
    /// Longest input in tokens, special tokens included; the rest of a text is cut off.
    pub max_length: usize,
    /// Values in a vector.
    pub dimensions: usize,
    /// The graph's own `sentence_embedding` is used, for models with layers behind the pooling.
    #[serde(default)]
    pub pooled_by_graph: bool,
    /// Fields that neither the folder nor the table told, so that the usual value stands: worth a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

/// Wishes that beat what the folder and the table say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CardOverrides {
    /// See [`ModelCard::id`]; also chooses the family of the table.
    pub id: Option<String>,
    /// See [`ModelCard::pooling`].
    pub pooling: Option<Pooling>,
    /// See [`ModelCard::normalize`].
    pub normalize: Option<bool>,
    /// See [`ModelCard::query_prefix`].
    pub query_prefix: Option<String>,
    /// See [`ModelCard::passage_prefix`].
    pub passage_prefix: Option<String>,
    /// See [`ModelCard::max_length`].
    pub max_length: Option<usize>,
}

impl ModelCard {
    /// The card of the model in `folder`, known as `id`.
    ///
    /// # Errors
    /// [`Error::File`] for a configuration file that cannot be read or asks for what is not supported;
    /// [`Error::InvalidInput`] for a `max_length` that the model cannot take.
    pub fn derive(folder: &Path, id: &str, overrides: &CardOverrides) -> Result<Self> {
        let config = Json::read(folder, "config.json")?;
        let id = overrides.id.clone().unwrap_or_else(|| id.to_owned());
        let family = families::find(&id).or_else(|| families::find(config.text("_name_or_path").unwrap_or_default()));
        let mut assumed = Vec::new();
        let mut usual = |field: &str| assumed.push(field.to_owned());

        let told = match overrides.pooling {
            Some(pooling) => Some(pooling),
            None => pooling_of(folder)?.or(family.map(|family| family.pooling)),
        };
        let pooling = told.unwrap_or_else(|| {
            usual("pooling");
            Pooling::Mean
        });
        let prompts = Json::read(folder, "config_sentence_transformers.json")?;
        let prompt =
            |names: &[&str]| names.iter().find_map(|name| prompts.0.pointer(&format!("/prompts/{name}"))?.as_str());
        let prefix = |wish: &Option<String>, prompt: Option<&str>, family: Option<&str>| {
            wish.as_deref().or(prompt).or(family).unwrap_or_default().to_owned()
        };
        // A prompt that is there but empty says nothing that the table could not say better.
        let told = |names: &[&str]| prompt(names).filter(|text| !text.is_empty());
        let query_prefix = prefix(&overrides.query_prefix, told(&["query"]), family.map(|f| f.query_prefix));
        let passage_prefix =
            prefix(&overrides.passage_prefix, told(&["passage", "document"]), family.map(|f| f.passage_prefix));
        let overridden = overrides.query_prefix.is_some() && overrides.passage_prefix.is_some();
        if family.is_none() && !overridden && prompt(&["query", "passage", "document"]).is_none() {
            usual("prefixes");
        }

        let pooled_by_graph = has_head(folder)?;
        // Layers behind the pooling may change the width; the graph will tell.
        let hidden_size = config.number("hidden_size").or_else(|| config.number("dim")).filter(|_| !pooled_by_graph);
        Ok(Self {
            pooling,
            query_prefix,
            passage_prefix,
            normalize: overrides.normalize.unwrap_or(true),
            max_length: max_length(folder, &config, family.map(|f| f.max_length), overrides.max_length)?,
            dimensions: hidden_size.unwrap_or(0),
            pooled_by_graph,
            id,
            assumed,
        })
    }

    /// What is put before a text of this kind.
    pub fn prefix(&self, kind: InputKind) -> &str {
        match kind {
            InputKind::Query => &self.query_prefix,
            InputKind::Passage => &self.passage_prefix,
        }
    }
}

/// `1_Pooling/config.json`: one of the flags `pooling_mode_*`, or the name `pooling_mode`.
fn pooling_of(folder: &Path) -> Result<Option<Pooling>> {
    let config = Json::read(folder, "1_Pooling/config.json")?;
    let flags = config.0.as_object().into_iter().flatten();
    let mut modes: Vec<&str> = flags
        .filter(|(_, on)| on.as_bool() == Some(true))
        .filter_map(|(name, _)| name.strip_prefix("pooling_mode_"))
        .collect();
    modes.extend(config.text("pooling_mode"));
    match modes[..] {
        [] => Ok(None),
        ["mean_tokens" | "mean"] => Ok(Some(Pooling::Mean)),
        ["cls_token" | "cls"] => Ok(Some(Pooling::Cls)),
        ref other => Err(Error::File {
            path: folder.join("1_Pooling/config.json"),
            expected: "pooling by `mean` or `cls`".into(),
            found: format!("`{}`", other.join("`, `")),
            remedy: "choose another model, or set `pooling` if you know that this one works with it".into(),
        }),
    }
}

/// Whether `modules.json` lists layers behind the pooling, which only the graph's own pooled output includes.
fn has_head(folder: &Path) -> Result<bool> {
    let modules = Json::read(folder, "modules.json")?;
    let types = modules.0.as_array().into_iter().flatten().filter_map(|module| module.get("type")?.as_str());
    Ok(types
        .filter_map(|name| name.rsplit('.').next())
        .any(|name| !["Transformer", "Pooling", "Normalize"].contains(&name)))
}

/// The sentence-transformers limit, the table's, the tokenizer's, or 512; never more than the model has positions for.
fn max_length(folder: &Path, config: &Json, family: Option<usize>, wish: Option<usize>) -> Result<usize> {
    // RoBERTa counts positions from the padding id + 1, so two of them are never used.
    let unused = match config.text("model_type") {
        Some("roberta" | "xlm-roberta" | "camembert" | "mpnet") => 2,
        _ => 0,
    };
    let positions = config.number("max_position_embeddings").map(|positions| positions.saturating_sub(unused));
    if let Some(wish) = wish {
        let most = positions.unwrap_or(usize::MAX);
        if wish == 0 || wish > most {
            return Err(Error::InvalidInput {
                what: "max_length".into(),
                expected: format!("1 to {most} tokens, the positions of this model"),
                found: wish.to_string(),
            });
        }
        return Ok(wish);
    }
    let told = match Json::read(folder, "sentence_bert_config.json")?.number("max_seq_length").or(family) {
        Some(length) => Some(length),
        // Tokenizers without a limit write a number with thirty digits.
        None => {
            Json::read(folder, "tokenizer_config.json")?.number("model_max_length").filter(|&length| length < 1 << 20)
        }
    };
    Ok(told.or(positions).unwrap_or(512).min(positions.unwrap_or(usize::MAX)).max(1))
}

/// A JSON file of the model folder; `null` when there is none.
pub(super) struct Json(pub(super) Value);

impl Json {
    pub(super) fn read(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(name);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self(Value::Null)),
            Err(e) => return Err(Error::io("read", &path)(e)),
        };
        serde_json::from_slice(&bytes).map(Self).map_err(|e| Error::File {
            path,
            expected: "JSON".into(),
            found: e.to_string(),
            remedy: "download the model again".into(),
        })
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    pub(super) fn number(&self, field: &str) -> Option<usize> {
        usize::try_from(self.0.get(field)?.as_u64()?).ok()
    }
}
