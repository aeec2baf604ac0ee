//! Which runs does a sweep have, with which settings, and how far are they?

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::{Table, Value};

use super::file::{Arm, Once, Sweep};
use crate::layers::Layers;
use crate::presets::{DEFAULT_RECIPE, TrainPreset};
use crate::settings::TrainSettings;
use crate::{Error, Result};

/// A run of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned<'a> {
    /// The arm; none for a warm start.
    pub arm: Option<&'a Arm>,
    /// Its seed.
    pub seed: u64,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It made all steps, and left its model.
    Ended,
    /// It will be gone on with.
    Begun,
    /// Nothing is there.
    New,
}

impl Planned<'_> {
    /// Its folder in that of the sweep.
    pub fn folder(&self, out: &Path) -> PathBuf {
        let seed = format!("seed-{}", self.seed);
        match self.arm {
            Some(arm) => out.join("arms").join(&arm.name).join(seed),
            None => out.join("warm-start").join(seed),
        }
    }

    /// How far it is. A run writes its curve last.
    pub fn state(&self, out: &Path) -> State {
        let folder = self.folder(out);
        match (folder.join("curve.svg").exists(), folder.join("config.toml").exists()) {
            (true, true) => State::Ended,
            (_, true) => State::Begun,
            _ => State::New,
        }
    }
}

impl fmt::Display for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, seed {}", self.arm.map_or("warm start", |arm| &arm.name), self.seed)
    }
}

impl Sweep {
    /// All runs, in their order: seed by seed, so that arms can be compared early; a warm start before what begins with it.
    pub fn runs(&self) -> Vec<Planned<'_>> {
        let mut all = Vec::new();
        for &seed in &self.seeds {
            all.extend(self.warm_start_of(seed).filter(|warm| !all.contains(warm)));
            all.extend(self.arms.iter().map(|arm| Planned { arm: Some(arm), seed }));
        }
        all
    }

    /// The run with whose model those of this seed begin.
    pub fn warm_start_of(&self, seed: u64) -> Option<Planned<'_>> {
        let first = self.seeds.first().copied().unwrap_or(seed);
        self.warm_start.as_ref().map(|warm| match warm.once {
            Once::PerSeed => Planned { arm: None, seed },
            Once::PerSweep => Planned { arm: None, seed: first },
        })
    }

    /// The model that a run begins with.
    pub fn model_of(&self, run: Planned<'_>, out: &Path) -> PathBuf {
        let warm = run.arm.and_then(|_| self.warm_start_of(run.seed));
        warm.map_or_else(|| self.model.clone(), |warm| warm.folder(out).join("model"))
    }

    /// The recipe of a run's episodes: a name or a file.
    ///
    /// # Errors
    /// A preset that cannot be read.
    pub fn recipe_of(&self, run: Planned<'_>) -> Result<String> {
        if let Some(recipe) = run.arm.and_then(|arm| arm.recipe.as_ref()).or(self.recipe.as_ref()) {
            return Ok(recipe.clone());
        }
        let preset = run.arm.and_then(|arm| arm.preset.as_ref());
        let of_preset = preset.map(|name| TrainPreset::load(name)).transpose()?.and_then(|preset| preset.recipe);
        Ok(of_preset.unwrap_or_else(|| DEFAULT_RECIPE.into()))
    }

    /// The settings of a run: its preset's, above them those that all share, above them its own.
    ///
    /// # Errors
    /// Files that cannot be read; settings that are unknown or out of range.
    pub fn settings_of(&self, run: Planned<'_>) -> Result<TrainSettings> {
        let mut layers = Layers::default();
        if let Some(name) = run.arm.and_then(|arm| arm.preset.as_ref()) {
            layers.add_preset(name, &TrainPreset::load(name)?)?;
        }
        if let Some(path) = &self.settings_file {
            layers.add(format!("`{}`", path.display()), fs::read_to_string(path).map_err(Error::io("read", path))?)?;
        }
        layers.add("`settings` of the sweep", self.settings.to_string())?;
        match (run.arm, &self.warm_start) {
            (Some(arm), _) => layers.change(format!("`override` of arm `{}`", arm.name), &arm.changes)?,
            (None, Some(warm)) => {
                let untested = Table::from_iter([("every".to_owned(), Value::Integer(0))]);
                layers.change("the sweep", &Table::from_iter([("evaluation".to_owned(), Value::Table(untested))]))?;
                layers.change("`override` of the warm start", &warm.changes)?;
            }
            (None, None) => {}
        }
        let mut settings = layers.settings()?;
        settings.seed = run.seed;
        match (run.arm, &self.warm_start) {
            (None, _) => settings.steps = 0,
            (Some(_), Some(_)) => settings.imitation.steps = 0,
            _ => {}
        }
        if let Some(Arm { name, .. }) = run.arm.filter(|_| settings.evaluation.every == 0) {
            let what = format!("`evaluation.every` of arm `{name}`");
            return Err(Error::invalid(what, "1 or more, so that there are scores to compare", "0"));
        }
        Ok(settings)
    }
}
