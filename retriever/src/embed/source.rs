//! Which model? The default one, a folder, or an id on the Hugging Face hub that is found in the local cache.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::graph::Precision;
use super::hub::{self, HubSettings};
use super::model_dir::ModelDir;
use super::runtime::cache_folders;
use crate::{Error, Result};

/// The folder of the default model, under `models` in the project's cache.
const DEFAULT_MODEL: &str = "all-MiniLM-L6-v2-int8";

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// The model that `make setup` puts into the project's cache: all-MiniLM-L6-v2 with int8 weights.
    Default,
    /// A folder on this machine.
    Folder(PathBuf),
    /// `owner/name` on the hub, at a branch, tag or commit.
    Hub {
        /// `owner/name`.
        id: String,
        /// `main` unless said otherwise.
        revision: String,
    },
}

impl ModelSource {
    /// Reads `default` as the default model; other text as a folder if one exists under that name, otherwise as a hub id, `owner/name` or
    /// `owner/name@revision`, if it looks like one.
    pub fn parse(text: &str) -> Self {
        if text == "default" {
            return Self::Default;
        }
        let (id, revision) = text.split_once('@').unwrap_or((text, "main"));
        if !Path::new(text).exists() && hub::is_id(id) && !revision.is_empty() {
            return Self::Hub { id: id.into(), revision: revision.into() };
        }
        Self::Folder(text.into())
    }

    /// The name that a model card carries: the hub id, or the folder's name.
    pub fn id(&self) -> String {
        match self {
            Self::Default => DEFAULT_MODEL.into(),
            Self::Hub { id, .. } => id.clone(),
            Self::Folder(path) => {
                let full = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                full.file_name().unwrap_or(full.as_os_str()).to_string_lossy().into_owned()
            }
        }
    }

    /// The same source as seen from any folder.
    pub fn absolute(&self) -> Self {
        match self {
            Self::Folder(path) => Self::Folder(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            other => other.clone(),
        }
    }

    /// The folder of the model: itself, or the hub's cache. Never uses the network.
    ///
    /// # Errors
    /// [`Error::NotFound`] or [`Error::File`] naming what was looked for and where.
    pub fn locate(&self, settings: &HubSettings, precisions: &[Option<Precision>]) -> Result<ModelDir> {
        let directory = match self {
            Self::Default => ModelDir::open(&default_folder()?)?,
            Self::Folder(path) => ModelDir::open(path)?,
            Self::Hub { id, revision } => {
                let missing = |found: String| Error::NotFound {
                    what: format!("model `{id}` at revision `{revision}`"),
                    remedy: format!(
                        "looked in `{}`: {found}; give a model folder instead, or download the model",
                        settings.cache.display()
                    ),
                };
                let snapshot = settings.snapshot(id, revision).map_err(missing)?;
                ModelDir::open(&snapshot)?
            }
        };
        for &precision in precisions {
            directory.graph(precision)?;
        }
        Ok(directory)
    }
}

/// The default model in the first of the project's cache folders that holds it.
fn default_folder() -> Result<PathBuf> {
    let caches = cache_folders(&|name| std::env::var_os(name).filter(|value| !value.is_empty()));
    let places: Vec<PathBuf> = caches.iter().map(|cache| cache.join("models").join(DEFAULT_MODEL)).collect();
    places.iter().find(|folder| folder.is_dir()).cloned().ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|folder| format!("`{}`", folder.display())).collect();
        let looked = if places.is_empty() {
            "there is no `.cache/hindsearch` in the current folder or above it".into()
        } else {
            format!("looked in {}", places.join(", "))
        };
        Error::NotFound {
            what: format!("the default model, {DEFAULT_MODEL},"),
            remedy: format!(
                "{looked}; run `make setup`, point `HINDSEARCH_CACHE` at a cache that has it, or name a model folder"
            ),
        }
    })
}

#[cfg(feature = "hub")]
impl ModelSource {
    /// As [`ModelSource::locate`], after fetching what the cache lacks of a hub model.
    ///
    /// # Errors
    /// Those of [`hub::fetch`] and [`ModelSource::locate`].
    pub fn fetch(&self, how: &hub::Fetch<'_>) -> Result<ModelDir> {
        match (self, self.locate(how.settings, how.precisions)) {
            (Self::Hub { id, revision }, Err(_)) => {
                hub::fetch(id, revision, how)?;
                self.locate(how.settings, how.precisions)
            }
            (_, located) => located,
        }
    }
}

impl FromStr for ModelSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self::parse(text))
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Hub { id, revision } if revision == "main" => f.write_str(id),
            Self::Hub { id, revision } => write!(f, "{id}@{revision}"),
        }
    }
}
