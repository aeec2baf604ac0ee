//! What is compared? A file that names arms, what all of them share, and which orders are published.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Table;

use super::expectation::Expect;
use crate::{Error, Result};

/// Names of arms are names of folders.
const LONGEST_NAME: usize = 64;

/// Methods to compare; a TOML file. Unknown keys are errors. Paths are as seen from the folder in which the program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The index folder, or addresses of servers, separated by commas.
    pub index: String,
    /// The model: a folder of Hugging Face's form, or a GGUF file.
    pub model: PathBuf,
    /// Files of tasks to learn on; `sample` is the built-in set.
    #[serde(default = "built_in")]
    pub tasks: Vec<PathBuf>,
    /// What is tested on and not learnt on.
    #[serde(default)]
    pub held_out: HeldOut,
    /// The recipe of the episodes, a name or a file; else that of an arm's preset.
    pub recipe: Option<String>,
    /// Settings that all arms share, above those of their presets.
    pub settings_file: Option<PathBuf>,
    /// The same, above those of the file.
    #[serde(default)]
    pub settings: Table,
    /// Each arm is a run for each of them.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// The number by which arms are compared.
    #[serde(default = "reward")]
    pub metric: String,
    /// Imitation that is done once, and not by each arm.
    pub warm_start: Option<WarmStart>,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// Which orders are published.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

fn built_in() -> Vec<PathBuf> {
    vec!["sample".into()]
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

fn reward() -> String {
    "test/reward/mean".into()
}

/// A file of tasks, or how many of the tasks, drawn by the first seed for all runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeldOut {
    /// So many.
    Count(usize),
    /// A file.
    File(String),
}

impl Default for HeldOut {
    fn default() -> Self {
        Self::Count(32)
    }
}

impl std::fmt::Display for HeldOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::File(path) => path.fmt(f),
        }
    }
}

/// The settings' imitation as a run of its own, with whose model all arms begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WarmStart {
    /// How often it is done.
    pub once: Once,
    /// Settings of this run alone. It is not tested unless they say so: each arm is, before its first step.
    #[serde(rename = "override")]
    pub changes: Table,
}

/// How often a warm start is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Once {
    /// For each seed.
    #[default]
    PerSeed,
    /// By the first seed, for all.
    PerSweep,
}

/// A method with values of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The training preset that it begins with, a name or a file.
    pub preset: Option<String>,
    /// Its recipe, where that is not the sweep's.
    pub recipe: Option<String>,
    /// Its settings, above those that all share.
    #[serde(default, rename = "override")]
    pub changes: Table,
}

impl Sweep {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an unknown key, a name that is none or is there twice, and settings that are not an arm's;
    /// [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        Self::parse(&text, &format!("`{}`", path.display()))
    }

    /// A sweep in TOML. `what` is what an error calls the text.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for the file.
    pub fn parse(text: &str, what: &str) -> Result<Self> {
        let read = toml::from_str(text);
        let sweep: Self = read.map_err(|error: toml::de::Error| {
            Error::invalid(
                what,
                "a sweep: what is shared, `seeds`, `[[arms]]`, `[[expect]]`",
                error.to_string().trim_end(),
            )
        })?;
        sweep.check(what)?;
        Ok(sweep)
    }

    fn check(&self, what: &str) -> Result<()> {
        let refuse = |key: String, expected: &str, found: String| {
            Err(Error::invalid(format!("{key} of {what}"), expected, found))
        };
        let mut names = BTreeSet::new();
        for Arm { name, changes, .. } in &self.arms {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('.') || !name.chars().all(fits) {
                let expected = "a name of letters, digits, `-`, `_` and `.`";
                return refuse("an arm".into(), expected, format!("`{}`", name.escape_debug()));
            }
            if !names.insert(name) {
                return refuse("`[[arms]]`".into(), "each name once", format!("`{name}` twice"));
            }
            // What is in other hands.
            let taken =
                [("seed", "`seeds` to have them"), ("imitation", "none beside `[warm_start]`, which does it for all")];
            for (key, expected) in taken.into_iter().take(1 + usize::from(self.warm_start.is_some())) {
                if changes.contains_key(key) {
                    return refuse(format!("`override.{key}` of arm `{name}`"), expected, "a value".into());
                }
            }
        }
        if self.arms.is_empty() {
            return refuse("`[[arms]]`".into(), "one at least", "none".into());
        }
        if self.seeds.is_empty() || self.seeds.iter().collect::<BTreeSet<_>>().len() < self.seeds.len() {
            return refuse("`seeds`".into(), "one at least, each once", format!("{:?}", self.seeds));
        }
        for expect in &self.expect {
            if let Some(name) = [&expect.better, &expect.than].into_iter().find(|name| !names.contains(name)) {
                return refuse("`[[expect]]`".into(), "names of arms", format!("`{name}`"));
            }
        }
        Ok(())
    }
}
