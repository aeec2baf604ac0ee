//! Where do a run's settings come from? Defaults, and above them a preset, a file and single values, each of which may say little.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::presets::TrainPreset;
use crate::settings::{DEFAULT_OBJECTIVE, TrainSettings};
use crate::{Error, Result};

/// Settings one above the other.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// What errors call each layer, and its text.
    parts: Vec<(String, String)>,
    all: Table,
}

impl Layers {
    /// Puts settings in TOML above those that there are. `what` is what an error calls them.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what is no TOML.
    pub fn add(&mut self, what: impl Into<String>, text: impl Into<String>) -> Result<()> {
        let (what, text) = (what.into(), text.into());
        let table = text.parse().map_err(|error: toml::de::Error| {
            Error::invalid(&what, "settings of a run in TOML", error.to_string().trim_end())
        })?;
        lay(&mut self.all, table);
        self.parts.push((what, text));
        Ok(())
    }

    /// Puts a method's settings above those that there are.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_preset(&mut self, name: &str, preset: &TrainPreset) -> Result<()> {
        self.add(format!("training preset `{name}`"), preset.settings.to_string())
    }

    /// Puts single values above the settings that there are. Part of an objective changes that of every run where none is named.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn change(&mut self, what: impl Into<String>, values: &Table) -> Result<()> {
        if !self.all.contains_key("objective") && values.get("objective").is_some_and(Value::is_table) {
            self.all.insert("objective".into(), Value::String(DEFAULT_OBJECTIVE.into()));
        }
        self.add(what, values.to_string())
    }

    /// All of them, with defaults where nothing is said.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the layer, where one alone is at fault, and the unknown key or the value out of its range.
    pub fn settings(&self) -> Result<TrainSettings> {
        let names: Vec<&str> = self.parts.iter().map(|(what, _)| what.as_str()).collect();
        let what = if names.is_empty() { "the settings".into() } else { names.join(" with ") };
        TrainSettings::parse(&self.all.to_string(), &what).map_err(|error| {
            // A layer that is wrong by itself is told with its line.
            // What only all of them together can mean is no fault of one.
            let alone = self.parts.iter().find_map(|(what, text)| TrainSettings::read(text, what).err());
            alone.unwrap_or(error)
        })
    }
}

/// Settings above others. An objective that names a preset begins anew; another table changes the one below.
fn lay(settings: &mut Table, above: Table) {
    if let Some(Value::Table(changes)) = above.get("objective") {
        match settings.get("objective") {
            Some(_) if changes.contains_key("preset") => drop(settings.remove("objective")),
            Some(Value::String(name)) => {
                let named = Table::from_iter([("preset".to_owned(), Value::String(name.clone()))]);
                settings.insert("objective".into(), Value::Table(named));
            }
            _ => {}
        }
    }
    merge(settings, above);
}

/// Puts values into a table, and those of inner tables into its inner tables.
pub(crate) fn merge(table: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes),
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

/// A setting of two runs that is not the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its dotted key.
    pub key: String,
    /// What it is in the one, if it is there.
    pub before: Option<Value>,
    /// What it is in the other.
    pub after: Option<Value>,
}

impl Difference {
    /// All differences of two tables, by key.
    pub fn of(before: &Table, after: &Table) -> Vec<Self> {
        let (before, after) = (flat(before), flat(after));
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let differ = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
        let value = |of: &BTreeMap<String, &Value>, key: &String| of.get(key).map(|value| (*value).clone());
        differ.map(|key| Self { key: key.clone(), before: value(&before, key), after: value(&after, key) }).collect()
    }
}

/// Every value that is no table, by its dotted key.
fn flat(table: &Table) -> BTreeMap<String, &Value> {
    fn walk<'a>(prefix: &str, table: &'a Table, into: &mut BTreeMap<String, &'a Value>) {
        for (key, value) in table {
            let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Table(inner) => walk(&key, inner, into),
                value => drop(into.insert(key, value)),
            }
        }
    }
    let mut all = BTreeMap::new();
    walk("", table, &mut all);
    all
}
