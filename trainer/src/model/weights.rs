//! Which tensors does a model have, and how do they get from a folder into memory and back?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::ModelConfig;
use super::config::read_json;
use super::tensor_file::{StoredType, read_tensors, write_tensors, write_whole};
use crate::{Error, Result};

pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
pub(crate) const HEAD: &str = "lm_head.weight";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor in memory, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Lengths of its dimensions; of a matrix `[out, in]`.
    pub shape: Vec<usize>,
    /// Its numbers, as many as the shape says.
    pub data: Vec<f32>,
}

impl Weight {
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        let numbers = self.shape.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
        if numbers == Some(self.data.len()) {
            return Ok(());
        }
        let found = format!("{} numbers", self.data.len());
        Err(Error::invalid(format!("tensor `{name}`"), format!("numbers for the shape {:?}", self.shape), found))
    }
}

/// The tensors of a model by name, exactly those of [`expected_tensors`].
#[derive(Debug, Clone, PartialEq)]
pub struct Weights(BTreeMap<String, Weight>);

impl Weights {
    /// These tensors as the weights of a model.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names a tensor that is missing, is not known, has another shape or numbers that are not finite.
    pub fn new(config: &ModelConfig, tensors: impl IntoIterator<Item = (String, Weight)>) -> Result<Self> {
        let unusable = |what, expected, found| Error::invalid(what, expected, found);
        Self::gather(config, tensors, |name, expected, found| unusable(format!("tensor `{name}`"), expected, found))
    }

    /// As [`Weights::new`], of the file at `path`.
    pub(crate) fn from_file(
        path: &Path,
        config: &ModelConfig,
        tensors: impl IntoIterator<Item = (String, Weight)>,
    ) -> Result<Self> {
        Self::gather(config, tensors, |name, expected, found| {
            Error::file(path, format!("tensor `{name}` {expected}"), found)
        })
    }

    fn gather(
        config: &ModelConfig,
        tensors: impl IntoIterator<Item = (String, Weight)>,
        wrong: impl Fn(&str, String, String) -> Error,
    ) -> Result<Self> {
        let mut found: BTreeMap<String, Weight> = BTreeMap::new();
        for (name, weight) in tensors {
            weight.check(&name)?;
            if !weight.data.iter().all(|number| number.is_finite()) {
                return Err(wrong(&name, "with finite numbers".into(), "others".into()));
            }
            if found.insert(name.clone(), weight).is_some() {
                return Err(wrong(&name, "once".into(), "two of them".into()));
            }
        }
        // Some programs write the head of a tied model again, and tables that older versions kept.
        found.retain(|name, _| !name.ends_with(".rotary_emb.inv_freq"));
        if config.tied
            && let Some(head) = found.remove(HEAD)
            && found.get(EMBEDDING).is_some_and(|embedding| *embedding != head)
        {
            let expected = "equal to the embedding, since `tie_word_embeddings` is true";
            return Err(wrong(HEAD, expected.into(), "other numbers".into()));
        }
        let mut weights = BTreeMap::new();
        for (name, shape) in expected_tensors(config) {
            match found.remove(&name) {
                Some(weight) if weight.shape == shape => weights.insert(name, weight),
                Some(weight) => {
                    return Err(wrong(&name, format!("of shape {shape:?}"), format!("{:?}", weight.shape)));
                }
                None => return Err(wrong(&name, format!("of shape {shape:?}"), "none of this name".into())),
            };
        }
        match found.first_key_value() {
            None => Ok(Self(weights)),
            Some((name, weight)) => Err(wrong(
                name,
                format!("to be absent from {} layers of this architecture", config.layers),
                format!("one of shape {:?}", weight.shape),
            )),
        }
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&Weight> {
        self.0.get(name)
    }

    /// All tensors, by name.
    pub fn tensors(&self) -> &BTreeMap<String, Weight> {
        &self.0
    }

    /// Takes all tensors out, by name.
    pub fn into_tensors(self) -> BTreeMap<String, Weight> {
        self.0
    }
}

/// Name and shape of every tensor of a model, as Hugging Face's libraries name them. The head is not among them where it is the
/// embedding.
pub fn expected_tensors(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let ModelConfig { hidden, intermediate, vocabulary, head_dim, .. } = *config;
    let (queries, keys) = (config.heads * head_dim, config.kv_heads * head_dim);
    let mut tensors = vec![(EMBEDDING.to_owned(), vec![vocabulary, hidden])];
    for layer in 0..config.layers {
        let mut add =
            |name: &str, shape: &[usize]| tensors.push((format!("model.layers.{layer}.{name}"), shape.into()));
        add("input_layernorm.weight", &[hidden]);
        for (projection, out) in [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)] {
            add(&format!("self_attn.{projection}.weight"), &[out, hidden]);
            if config.qkv_bias {
                add(&format!("self_attn.{projection}.bias"), &[out]);
            }
        }
        if config.qk_norm {
            add("self_attn.q_norm.weight", &[head_dim]);
            add("self_attn.k_norm.weight", &[head_dim]);
        }
        add("self_attn.o_proj.weight", &[hidden, queries]);
        add("post_attention_layernorm.weight", &[hidden]);
        add("mlp.gate_proj.weight", &[intermediate, hidden]);
        add("mlp.up_proj.weight", &[intermediate, hidden]);
        add("mlp.down_proj.weight", &[hidden, intermediate]);
    }
    tensors.push(("model.norm.weight".to_owned(), vec![hidden]));
    if !config.tied {
        tensors.push((HEAD.to_owned(), vec![vocabulary, hidden]));
    }
    tensors
}

/// The weights in a folder: one file, or the shards of an index.
pub(crate) fn read_folder(folder: &Path, config: &ModelConfig) -> Result<Weights> {
    let index = folder.join(INDEX);
    let single = folder.join(SINGLE);
    if !index.exists() {
        if !single.exists() {
            let remedy = format!("name a folder that holds it, or {INDEX} and its shards");
            return Err(Error::NotFound { what: format!("`{}`", single.display()), remedy });
        }
        return Weights::from_file(&single, config, read_tensors(&single)?);
    }
    let mut places = shards(&index)?;
    let mut tensors = Vec::new();
    for shard in places.values().cloned().collect::<BTreeSet<_>>() {
        let path = folder.join(&shard);
        for (name, weight) in read_tensors(&path)? {
            match places.remove(&name) {
                Some(place) if place == shard => tensors.push((name, weight)),
                place => {
                    let said = place.map_or("no file".into(), |place| format!("`{place}`"));
                    let expected = format!("only tensors that `{}` places there", index.display());
                    return Err(Error::file(&path, expected, format!("`{name}`, for which it names {said}")));
                }
            }
        }
    }
    if let Some((name, place)) = places.first_key_value() {
        return Err(Error::file(&index, format!("`{place}` to hold `{name}`"), "none of this name"));
    }
    Weights::from_file(&index, config, tensors)
}

/// The file of each tensor. Files lie beside the index; a name that leads elsewhere is refused.
fn shards(index: &Path) -> Result<BTreeMap<String, String>> {
    let value = read_json(index)?;
    let map = value["weight_map"].as_object();
    let map = map.ok_or_else(|| Error::file(index, "a `weight_map` from tensors to files", "none"))?;
    let place = |(name, file): (&String, &Value)| {
        let plain = |file: &&str| file.ends_with(".safetensors") && !file.contains(['/', '\\']);
        match file.as_str().filter(plain) {
            Some(file) => Ok((name.clone(), file.to_owned())),
            None => {
                let expected = format!("`{name}` in a file beside it that ends in `.safetensors`");
                Err(Error::file(index, expected, file.to_string()))
            }
        }
    };
    map.iter().map(place).collect()
}

/// What is written beside the weights, and how.
#[derive(Debug, Clone)]
pub struct ModelOutput {
    /// How numbers are stored.
    pub stored: StoredType,
    /// Bytes of a file, above which the weights are split; a single tensor is never split.
    pub shard_bytes: u64,
    /// Files that belong to the model, such as its tokenizer: names and bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Default for ModelOutput {
    fn default() -> Self {
        Self { stored: StoredType::F32, shard_bytes: 4 << 30, files: Vec::new() }
    }
}

/// Writes a folder that transformers loads. It is whole and durable, or not there.
///
/// # Errors
/// [`Error::InvalidInput`] where something else is in the way, and for names that are no plain file names; [`Error::Io`].
pub fn write_model(folder: &Path, config: &ModelConfig, weights: &Weights, output: &ModelOutput) -> Result<()> {
    let is_empty = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.symlink_metadata().is_ok() && !is_empty(folder) {
        let what = format!("output `{}`", folder.display());
        return Err(Error::invalid(what, "a name where nothing is yet, or an empty folder", "something else"));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(Error::io("create the folder", parent))?;
    let mut builder = tempfile::Builder::new();
    // The rights of ordinary folders, not those of a private one.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let staging = builder.prefix(".model-").suffix(".tmp").tempdir_in(parent);
    let staging = staging.map_err(Error::io("create a folder in", parent))?;
    write_files(staging.path(), config, weights, output)?;
    fs::rename(staging.path(), folder).map_err(Error::io("write", folder))?;
    // It has moved: nothing is left to remove.
    let _: PathBuf = staging.keep();
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(Error::io("sync", parent))
}

fn write_files(folder: &Path, config: &ModelConfig, weights: &Weights, output: &ModelOutput) -> Result<()> {
    config.check().map_err(|(what, expected, found)| Error::invalid(what, expected, found))?;
    for (name, bytes) in &output.files {
        let taken = [SINGLE, INDEX, "config.json"].contains(&name.as_str());
        if taken || Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(Error::invalid("a file beside the weights", "a plain name that is free", format!("`{name}`")));
        }
        write_whole(&folder.join(name), bytes)?;
    }
    let shards = split(config, weights, output)?;
    if let [all] = shards.as_slice() {
        write_tensors(&folder.join(SINGLE), all, output.stored)?;
    } else {
        let mut places = serde_json::Map::new();
        for (number, shard) in shards.iter().enumerate() {
            let name = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
            write_tensors(&folder.join(&name), shard, output.stored)?;
            places.extend(shard.iter().map(|(tensor, _)| ((*tensor).to_owned(), json!(name))));
        }
        let numbers: usize = shards.iter().flatten().map(|(_, weight)| weight.data.len()).sum();
        let index = json!({ "metadata": { "total_size": numbers * output.stored.size() }, "weight_map": places });
        write_json(&folder.join(INDEX), &index)?;
    }
    write_json(&folder.join("config.json"), &config.to_json(output.stored.torch_name()))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    write_whole(path, format!("{value:#}\n").as_bytes())
}

/// The tensors of each file.
fn split<'a>(
    config: &ModelConfig,
    weights: &'a Weights,
    output: &ModelOutput,
) -> Result<Vec<Vec<(&'a str, &'a Weight)>>> {
    let mut shards = vec![Vec::new()];
    let mut filled = 0;
    for (name, shape) in expected_tensors(config) {
        let (name, weight) =
            weights.0.get_key_value(&name).filter(|(_, weight)| weight.shape == shape).ok_or_else(|| {
                Error::invalid("weights to write", format!("`{name}` of shape {shape:?}"), "those of another model")
            })?;
        let bytes = (weight.data.len() * output.stored.size()) as u64;
        if filled > 0 && filled + bytes > output.shard_bytes {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push((name.as_str(), weight));
        }
    }
    Ok(shards)
}
