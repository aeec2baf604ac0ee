//! One typed tree of settings: defaults, then a file, then the environment, then `--set`; later ones win.
//!
//! Every key has a default, so the default tree is also the list of keys: a key outside it is an error that names the
//! nearest one, whatever source it came from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use hindsearch_indexes::{ElementType, IndexKind};

/// The file read when none is named and it exists.
pub const FILE_NAME: &str = "hindsearch.toml";

/// Environment variables that begin like settings and are none.
const NOT_SETTINGS: [&str; 3] = ["HINDSEARCH_CACHE", "HINDSEARCH_CONFIG", "HINDSEARCH_TOKEN"];

/// All settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which model, and how its texts are prepared.
    pub model: Model,
    /// How the model is run.
    pub embed: Embed,
    /// What kind of index is built.
    pub index: Index,
    /// How it is searched.
    pub search: Search,
    /// How it is served.
    pub serve: Serve,
}

/// Which model, and how its texts are prepared. `auto` takes what the model's own files say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// A folder in the hub's layout, a hub id, or `default`.
    pub source: String,
    /// Graph for queries: `auto`, `fp32`, `fp16` or `int8`.
    pub query_precision: String,
    /// Graph for passages: `auto`, `fp32`, `fp16` or `int8`.
    pub passage_precision: String,
    /// Put before each query, or `auto`.
    pub query_prefix: String,
    /// Put before each passage, or `auto`.
    pub passage_prefix: String,
    /// `mean`, `cls` or `auto`.
    pub pooling: String,
    /// Tokens a text is cut to; 0 takes the model's own limit.
    pub max_length: usize,
}

/// How the model is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// `onnx` (ONNX Runtime) or `rten` (pure Rust; needs the feature of that name).
    pub backend: String,
    /// Worker threads, each with its own session; 0 takes one a core.
    pub threads: usize,
}

/// What kind of index is built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// `flat` (exact), `quantized` (approximate, in the least memory) or `hnsw` (approximate, a graph).
    pub kind: IndexKind,
    /// How a stored value is coded: `f32`, `f16`, `i8` or `i16`.
    pub element_type: ElementType,
    /// Recall@10 below which the build of an approximate index fails.
    pub recall_floor: f64,
    /// Links a node in the HNSW graph (M).
    pub connectivity: usize,
    /// Candidates kept while a node is added to the HNSW graph.
    pub expansion_add: usize,
}

/// How an index is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Passages wanted for a query.
    pub top_k: usize,
    /// Search threads; 0 takes one a core.
    pub threads: usize,
}

/// How an index is served. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The address to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Passages for a request that names no number.
    pub top_k: usize,
    /// Vectors of queries that are remembered; 0 for none.
    pub cached_queries: usize,
    /// Requests worked on at once.
    pub in_flight: usize,
    /// Texts that may wait for the model.
    pub queued_texts: usize,
    /// How long a request may have to wait for its turn.
    pub queue_wait: u64,
    /// Time for each 256 queries of a request.
    pub deadline: u64,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Open connections.
    pub connections: usize,
    /// Time for a request's head, from its first byte.
    pub head_time: u64,
    /// Time for its body.
    pub body_time: u64,
    /// Time that a connection may be silent between requests.
    pub idle_time: u64,
    /// Time for requests under way when the server is stopped.
    pub drain_time: u64,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 8000,
            top_k: 3,
            cached_queries: 10_000,
            in_flight: 512,
            queued_texts: 16_384,
            queue_wait: 5_000,
            deadline: 30_000,
            body_bytes: 16 << 20,
            connections: 4096,
            head_time: 10_000,
            body_time: 30_000,
            idle_time: 75_000,
            drain_time: 30_000,
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        let auto = || "auto".to_owned();
        Self {
            source: "default".into(),
            query_precision: auto(),
            passage_precision: auto(),
            query_prefix: auto(),
            passage_prefix: auto(),
            pooling: auto(),
            max_length: 0,
        }
    }
}

impl Default for Embed {
    fn default() -> Self {
        Self { backend: "onnx".into(), threads: 0 }
    }
}

impl Default for Index {
    fn default() -> Self {
        Self {
            kind: IndexKind::Flat,
            element_type: ElementType::F16,
            recall_floor: 0.95,
            connectivity: 16,
            expansion_add: 128,
        }
    }
}

impl Default for Search {
    fn default() -> Self {
        Self { top_k: 5, threads: 0 }
    }
}

/// A setting that cannot be used: where it stands, what is accepted, what was found.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("`{}`: expected TOML, found {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        message: String,
    },
    /// No such key.
    #[error("{origin}: no setting `{key}`{}; `hindsearch config show` lists all", nearest.as_ref().map(|n| format!(", did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// The file, variable or flag.
        origin: String,
        /// The dotted key.
        key: String,
        /// The key most like it.
        nearest: Option<String>,
    },
    /// A value of the wrong type or out of range.
    #[error("{origin}: `{key}`: expected {expected}, found {found}")]
    Value {
        /// The file, variable or flag.
        origin: String,
        /// The dotted key.
        key: String,
        /// What is accepted.
        expected: String,
        /// What was given.
        found: String,
    },
}

impl Config {
    /// Resolves all sources. `file` is read if given; else [`FILE_NAME`] in the current folder, where it exists.
    ///
    /// # Errors
    /// The first unknown key, wrong type or unusable value, with its origin.
    pub fn resolve(
        file: Option<&Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        set: &[String],
    ) -> Result<Self, ConfigError> {
        let defaults = Self::default_table();
        let mut resolved = Resolution { values: defaults.clone(), origins: Vec::new(), defaults };
        let found = Path::new(FILE_NAME);
        if let Some(path) = file.or_else(|| found.symlink_metadata().is_ok().then_some(found)) {
            let text =
                std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
            let table: Table = text
                .parse()
                .map_err(|e: toml::de::Error| ConfigError::Syntax { path: path.into(), message: e.to_string() })?;
            for (key, value) in flatten(&table) {
                resolved.put(&format!("`{}`", path.display()), &key, value)?;
            }
        }
        for (name, text) in environment {
            let (name, text) = (name.to_string_lossy(), text.to_string_lossy());
            if let Some(rest) = name.strip_prefix("HINDSEARCH_").filter(|_| !NOT_SETTINGS.contains(&&*name)) {
                resolved.put_variable(&name, rest, &text)?;
            }
        }
        for pair in set {
            let (key, text) = pair.split_once('=').ok_or_else(|| ConfigError::Value {
                origin: "`--set`".into(),
                key: pair.clone(),
                expected: "KEY=VALUE".into(),
                found: "no `=`".into(),
            })?;
            // A value is taken as it stands: prefixes such as `query: ` end in a blank.
            resolved.put("`--set`", key.trim(), Value::String(text.to_owned()))?;
        }
        resolved.finish()
    }

    fn default_table() -> Table {
        match Value::try_from(Self::default()) {
            Ok(Value::Table(table)) => table,
            other => unreachable!("the default settings form a table: {other:?}"),
        }
    }

    /// The tree as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| unreachable!("settings are plain values: {error}"))
    }
}

struct Resolution {
    values: Table,
    defaults: Table,
    /// Which source gave each key that is not a default.
    origins: Vec<(String, String)>,
}

impl Resolution {
    fn put(&mut self, origin: &str, key: &str, value: Value) -> Result<(), ConfigError> {
        let Some(default) = leaf(&self.defaults, key) else {
            return Err(self.unknown(origin, key, key));
        };
        let value = fit(default, value).map_err(|(expected, found)| ConfigError::Value {
            origin: origin.into(),
            key: key.into(),
            expected,
            found,
        })?;
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        if let Some(Value::Table(table)) = self.values.get_mut(section) {
            table.insert(name.to_owned(), value);
        }
        self.origins.push((key.to_owned(), origin.to_owned()));
        Ok(())
    }

    fn put_variable(&mut self, name: &str, rest: &str, text: &str) -> Result<(), ConfigError> {
        let known = flatten(&self.defaults).into_iter().map(|(key, _)| key);
        let variable = |key: &str| key.replace('.', "_").to_uppercase();
        match known.into_iter().find(|key| variable(key) == rest) {
            Some(key) => self.put(&format!("environment variable `{name}`"), &key, Value::String(text.to_owned())),
            None => Err(self.unknown("environment", name, &rest.to_lowercase().replacen('_', ".", 1))),
        }
    }

    fn unknown(&self, origin: &str, key: &str, like: &str) -> ConfigError {
        let nearest = flatten(&self.defaults)
            .into_iter()
            .map(|(known, _)| (strsim::jaro_winkler(&known, like), known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, _)| *likeness > 0.8)
            .map(|(_, known)| known);
        ConfigError::UnknownKey { origin: origin.into(), key: key.into(), nearest }
    }

    /// Types the tree, one section and key at a time so that a refused value can be named.
    fn finish(self) -> Result<Config, ConfigError> {
        let origin = |key: &str| {
            self.origins
                .iter()
                .rev()
                .find(|(k, _)| k == key)
                .map_or("defaults".to_owned(), |(_, origin)| origin.clone())
        };
        for (key, value) in flatten(&self.values) {
            let mut alone = self.defaults.clone();
            let (section, name) = key.split_once('.').unwrap_or((&key, ""));
            if let Some(Value::Table(table)) = alone.get_mut(section) {
                table.insert(name.to_owned(), value.clone());
            }
            let refused = match Value::Table(alone).try_into::<Config>() {
                Ok(config) => config.out_of_range(&key),
                Err(error) => {
                    let message = error.message();
                    let expected = message.rsplit_once("expected ").map_or(message, |(_, expected)| expected);
                    Some(
                        expected
                            .replace("usize", "a whole number from 0")
                            .replace("u64", "a whole number from 0")
                            .replace("u16", "a port, 0 to 65535"),
                    )
                }
            };
            if let Some(expected) = refused {
                return Err(ConfigError::Value { origin: origin(&key), key, expected, found: value.to_string() });
            }
        }
        Ok(Value::Table(self.values).try_into().unwrap_or_else(|error| unreachable!("each key was checked: {error}")))
    }
}

impl Config {
    /// What is accepted for `key`, when its value is not.
    fn out_of_range(&self, key: &str) -> Option<String> {
        let precisions = ["auto", "fp32", "fp16", "int8"];
        let one_of = |value: &str, choices: &[&str]| {
            (!choices.contains(&value)).then(|| format!("one of `{}`", choices.join("`, `")))
        };
        let between = |value: usize, low: usize, high: usize| {
            (!(low..=high).contains(&value)).then(|| format!("{low} to {high}"))
        };
        let time = |value: u64| (!(1..=86_400_000).contains(&value)).then(|| "1 to 86400000 milliseconds".into());
        match key {
            "model.source" => self.model.source.is_empty().then(|| "a folder, a hub id or `default`".into()),
            "model.query_precision" => one_of(&self.model.query_precision, &precisions),
            "model.passage_precision" => one_of(&self.model.passage_precision, &precisions),
            "model.pooling" => one_of(&self.model.pooling, &["auto", "mean", "cls"]),
            "model.max_length" => between(self.model.max_length, 0, 8192),
            "embed.backend" => one_of(&self.embed.backend, &["onnx", "rten"]),
            "embed.threads" => between(self.embed.threads, 0, 1024),
            "index.recall_floor" => (!(0.0..=1.0).contains(&self.index.recall_floor)).then(|| "0 to 1".into()),
            "index.connectivity" => between(self.index.connectivity, 2, 256),
            "index.expansion_add" => between(self.index.expansion_add, 1, 4096),
            "search.top_k" => between(self.search.top_k, 1, 1000),
            "search.threads" => between(self.search.threads, 0, 1024),
            "serve.host" => self
                .serve
                .host
                .parse::<std::net::IpAddr>()
                .is_err()
                .then(|| "an IP address, such as 127.0.0.1 or ::1".into()),
            "serve.top_k" => between(self.serve.top_k, 1, 1000),
            "serve.cached_queries" => between(self.serve.cached_queries, 0, 100_000_000),
            "serve.in_flight" => between(self.serve.in_flight, 1, 1 << 20),
            "serve.queued_texts" => between(self.serve.queued_texts, 1, 1 << 24),
            "serve.body_bytes" => between(self.serve.body_bytes, 1 << 10, 1 << 30),
            "serve.connections" => between(self.serve.connections, 1, 1 << 20),
            "serve.queue_wait" => time(self.serve.queue_wait),
            "serve.deadline" => time(self.serve.deadline),
            "serve.head_time" => time(self.serve.head_time),
            "serve.body_time" => time(self.serve.body_time),
            "serve.idle_time" => time(self.serve.idle_time),
            "serve.drain_time" => time(self.serve.drain_time),
            _ => None,
        }
    }
}

/// Dotted keys and values of a tree, in order.
fn flatten(table: &Table) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => leaves.extend(flatten(inner).into_iter().map(|(k, v)| (format!("{key}.{k}"), v))),
            value => leaves.push((key.clone(), value.clone())),
        }
    }
    leaves
}

fn leaf<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let (section, name) = key.split_once('.')?;
    table.get(section)?.as_table()?.get(name)
}

/// Brings a value to the type of its default; text from the environment and `--set` is parsed.
fn fit(default: &Value, value: Value) -> Result<Value, (String, String)> {
    let fitted = match (default, &value) {
        (Value::String(_), Value::String(_))
        | (Value::Integer(_), Value::Integer(_))
        | (Value::Float(_), Value::Float(_)) => {
            return Ok(value);
        }
        (Value::Float(_), Value::Integer(whole)) => Some(Value::Float(*whole as f64)),
        (Value::Integer(_), Value::String(text)) => text.parse().ok().map(Value::Integer),
        (Value::Float(_), Value::String(text)) => text.parse().ok().map(Value::Float),
        _ => None,
    };
    let name = match default {
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        _ => "text",
    };
    fitted.ok_or_else(|| (name.to_owned(), value.to_string()))
}
