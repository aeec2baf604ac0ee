//! What lies in the folder of a training run, and may it be gone on with?
//!
//! ```text
//! config.toml             the settings it was begun with, all of them
//! metrics.jsonl           one line a step
//! events.out.tfevents.*   the same for TensorBoard
//! run.json                the recipe of the episodes, and fingerprints of what is learnt from
//! trajectories/           the episodes, a file a step
//! checkpoints/            what to go on from
//! LOCK                    held by the process that trains
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_env::{Preset, Task, Trajectory};
use hindsearch_indexes::FolderLock;
use hindsearch_indexes::storage::{Disk, Files};
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use crate::layers::Difference;
use crate::model::{ModelConfig, Weights};
use crate::{Error, Result};

const CONFIG: &str = "config.toml";
const DESCRIPTION: &str = "run.json";
/// What is there before the settings are, when a run is killed while it begins.
const BEGINNING: [&str; 3] = ["LOCK", "checkpoints", "config.toml.tmp"];

/// What tells one input of a run from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Of tasks: their questions and accepted answers, in order.
    pub fn of_tasks(tasks: &[Task]) -> Self {
        let mut hash = blake3::Hasher::new();
        for task in tasks {
            let texts = std::iter::once(task.id()).chain(task.gold().answers().iter().map(String::as_str));
            texts.for_each(|text| add(&mut hash, text.as_bytes()));
            hash.update(&[1]);
        }
        Self(hash.finalize().to_hex().to_string())
    }

    /// Of episodes: all that was written in them, in order.
    pub fn of_episodes(episodes: &[Trajectory]) -> Self {
        let mut hash = blake3::Hasher::new();
        for episode in episodes {
            episode.spans.iter().for_each(|span| add(&mut hash, span.text.as_bytes()));
            hash.update(&[1]);
        }
        Self(hash.finalize().to_hex().to_string())
    }

    /// Of a model: its shape and all numbers.
    pub fn of_model(config: &ModelConfig, weights: &Weights) -> Self {
        let mut hash = blake3::Hasher::new();
        add(&mut hash, format!("{config:?}").as_bytes());
        for (name, weight) in weights.tensors() {
            add(&mut hash, name.as_bytes());
            add(&mut hash, bytemuck::cast_slice(&weight.data));
        }
        Self(hash.finalize().to_hex().to_string())
    }
}

/// With its length, so that no two lists look alike.
fn add(hash: &mut blake3::Hasher, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// The folder of a run, locked for this process.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    config: Table,
    _lock: FolderLock,
}

impl RunFolder {
    /// Begins a run with these settings, in a folder that is empty or not there yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when something else is there, or the settings are no TOML; [`Error::Locked`]; [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, config: &str) -> Result<Self> {
        let path = path.as_ref();
        let table = parse(config).map_err(|found| Error::invalid("the settings", "TOML", found))?;
        check_free(path)?;
        let lock = FolderLock::acquire(path)?;
        // Another process may have been faster.
        check_free(path)?;
        let files = Files::new(Arc::new(Disk));
        files.create_folder(&path.join("checkpoints"))?;
        files.replace(&path.join(CONFIG), config.as_bytes())?;
        Ok(Self { path: path.to_path_buf(), config: table, _lock: lock })
    }

    /// Goes on with a run.
    ///
    /// # Errors
    /// [`Error::NotFound`] when nothing is there or no run; [`Error::Locked`] while another process trains;
    /// [`Error::File`] when its settings cannot be read; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = path.join(CONFIG);
        // Before the lock, which would make a folder.
        check_run(path)?;
        let lock = FolderLock::acquire(path)?;
        let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        let config = parse(&text).map_err(|found| Error::file(&file, "TOML", found))?;
        Ok(Self { path: path.to_path_buf(), config, _lock: lock })
    }

    /// Changes the settings, as far as they may change while a run goes on. `may_change` lists dotted keys and tables:
    /// `train.steps`, `monitor`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the first other key that differs; [`Error::Io`]. Nothing is changed then.
    pub fn change_config(&mut self, config: &str, may_change: &[&str]) -> Result<()> {
        let table = parse(config).map_err(|found| Error::invalid("the settings", "TOML", found))?;
        let differences = Difference::of(&self.config, &table);
        let may = |key: &str| {
            may_change
                .iter()
                .any(|may| key.strip_prefix(may).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
        };
        let told = |value: &Option<Value>| value.as_ref().map_or("no such key".into(), ToString::to_string);
        if let Some(Difference { key, before, after }) = differences.iter().find(|difference| !may(&difference.key)) {
            return Err(Error::invalid(
                format!("setting `{key}` of the run in `{}`", self.path.display()),
                format!("{}, with which it was begun", told(before)),
                format!("{}; leave it, or begin another run", told(after)),
            ));
        }
        if !differences.is_empty() {
            Files::new(Arc::new(Disk)).replace(&self.path.join(CONFIG), config.as_bytes())?;
            self.config = table;
        }
        Ok(())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The settings.
    pub fn config(&self) -> &Table {
        &self.config
    }

    /// Writes down the recipe and what is learnt from, by name, or sees that they are those that the run was begun with.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the first that differs; [`Error::File`] when what was written down cannot be read; [`Error::Io`].
    pub fn keep(&self, preset: &Preset, inputs: &[(&str, Fingerprint)]) -> Result<()> {
        let path = self.path.join(DESCRIPTION);
        let inputs: BTreeMap<&str, &str> = inputs.iter().map(|(name, print)| (*name, print.0.as_str())).collect();
        let now = json!({ "preset": preset, "inputs": inputs });
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Files::new(Arc::new(Disk)).replace(&path, format!("{now:#}\n").as_bytes())?);
            }
            read => read.map_err(Error::io("read", &path))?,
        };
        let before: Json =
            serde_json::from_str(&text).map_err(|error| Error::file(&path, "JSON", error.to_string()))?;
        let names = inputs.keys().map(|name| (*name, before["inputs"][*name] == now["inputs"][*name]));
        let same = [("recipe", before["preset"] == now["preset"])].into_iter().chain(names);
        match same.into_iter().find(|(_, is_same)| !is_same) {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(
                format!("the {name} of the run in `{}`", self.path.display()),
                "that with which it was begun",
                "another; name that one, or begin another run",
            )),
        }
    }

    /// Where the checkpoints are.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }
}

fn parse(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error: toml::de::Error| error.to_string())
}

/// Whether a run may begin here.
fn check_free(path: &Path) -> Result<()> {
    let refuse = |found: String| {
        let what = format!("run folder `{}`", path.display());
        Err(Error::invalid(what, "a folder that is empty or not there yet", found))
    };
    let names = match names(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return refuse("a file".into()),
        names => names.map_err(Error::io("list", path))?,
    };
    if names.iter().any(|name| name == CONFIG) {
        return refuse("a run; resume it, or name another folder".into());
    }
    match names.iter().find(|name| !BEGINNING.contains(&name.as_str())) {
        Some(other) => refuse(format!("one that holds `{}`; name another folder", other.escape_debug())),
        None => Ok(()),
    }
}

/// Whether there is a run to go on with.
fn check_run(path: &Path) -> Result<()> {
    let missing = |remedy: String| {
        let what = format!("a training run in `{}`", path.display());
        Err(Error::NotFound { what, remedy: format!("{remedy}; name the folder that holds its `{CONFIG}`") })
    };
    match names(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => missing("nothing is there".into()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => missing("a file is there".into()),
        Err(error) => Err(Error::io("list", path)(error)),
        Ok(names) if names.iter().any(|name| name == CONFIG) => Ok(()),
        Ok(names) if names.is_empty() => missing("the folder is empty".into()),
        Ok(names) if names.iter().all(|name| BEGINNING.contains(&name.as_str())) => {
            missing("it was killed while it began: begin it again".into())
        }
        Ok(names) => {
            let shown: Vec<_> = names.iter().take(3).map(|name| format!("`{}`", name.escape_debug())).collect();
            missing(format!("it holds {}{}", shown.join(", "), if names.len() > 3 { ", ..." } else { "" }))
        }
    }
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<_> = fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}
