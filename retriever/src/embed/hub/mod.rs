//! The Hugging Face hub's cache on this machine, with the variables that its own tools honour.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(feature = "hub")]
mod client;
#[cfg(feature = "hub")]
mod fetch;
#[cfg(feature = "hub")]
pub use fetch::{Fetch, fetch};

/// Where the cache is, and how the hub is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or `~/.cache/huggingface/hub`.
    pub cache: PathBuf,
    /// `HF_ENDPOINT`, or the public hub.
    pub endpoint: String,
    /// `HF_TOKEN`, or the file at `HF_TOKEN_PATH` or `HF_HOME/token`.
    pub token: Option<String>,
    /// `HF_HUB_OFFLINE`: never use the network.
    pub offline: bool,
}

/// Shows whether there is a token, never the token.
impl std::fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cache, endpoint, token, offline } = self;
        let mut debug = f.debug_struct("HubSettings");
        debug.field("cache", cache).field("endpoint", endpoint).field("offline", offline);
        debug.field("token", &token.as_ref().map(|_| "...")).finish()
    }
}

impl HubSettings {
    /// The settings that this process's environment names.
    pub fn from_env() -> Self {
        Self::from_lookup(&|name| env::var_os(name))
    }

    /// As [`HubSettings::from_env`], with the environment variables given by `lookup`.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let text =
            |name: &str| lookup(name).map(|value| value.to_string_lossy().trim().to_owned()).filter(|v| !v.is_empty());
        let home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| path("HOME").map(|home| home.join(".cache/huggingface")))
            .unwrap_or_else(|| ".cache/huggingface".into());
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let stored_token = || {
            let token = std::fs::read_to_string(token_file).ok()?.trim().to_owned();
            (!token.is_empty()).then_some(token)
        };
        let yes = |name: &str| text(name).is_some_and(|v| ["1", "ON", "YES", "TRUE"].contains(&&*v.to_uppercase()));
        Self {
            cache: path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE")).unwrap_or_else(|| home.join("hub")),
            endpoint: text("HF_ENDPOINT")
                .unwrap_or_else(|| "https://huggingface.co".into())
                .trim_end_matches('/')
                .into(),
            token: text("HF_TOKEN").or_else(stored_token),
            offline: yes("HF_HUB_OFFLINE") || yes("TRANSFORMERS_OFFLINE"),
        }
    }

    /// The cache folder of one model.
    pub(super) fn model_folder(&self, id: &str) -> PathBuf {
        self.cache.join(format!("models--{}", id.replace('/', "--")))
    }

    /// The cached snapshot of a model at a branch, tag or commit.
    ///
    /// # Errors
    /// A sentence that says what is there instead.
    pub fn snapshot(&self, id: &str, revision: &str) -> Result<PathBuf, String> {
        let model = self.model_folder(id);
        if !is_revision(revision) {
            return Err(format!("`{revision}` is no revision"));
        }
        if !model.is_dir() {
            return Err(format!("no folder `{}`", name_of(&model)));
        }
        let commit = match std::fs::read_to_string(model.join("refs").join(revision)) {
            Ok(commit) => commit.trim().to_owned(),
            Err(_) => revision.to_owned(),
        };
        let snapshot = model.join("snapshots").join(&commit);
        if is_revision(&commit) && snapshot.is_dir() {
            return Ok(snapshot);
        }
        Err(format!("no snapshot `{commit}` in `{}`", name_of(&model)))
    }
}

/// Whether `text` has the form `owner/name`.
pub(super) fn is_id(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

/// Whether `text` may name a revision; keeps `..` out of paths.
fn is_revision(text: &str) -> bool {
    text.split('/').all(|part| !part.is_empty() && part != "." && part != "..") && !text.contains('\\')
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
