//! How do a preset, a file and single values become the settings of a run?

use std::path::PathBuf;

use hindsearch::trainer::{Layers, TRAIN_PRESETS, TrainPreset, TrainSettings};
use toml::{Table, Value};

use crate::failure::Failure;

/// Arguments that say how a model is trained.
#[derive(clap::Args)]
pub struct How {
    #[arg(long, value_name = "NAME|FILE", help = format!("The method: {}, or a file of settings", TRAIN_PRESETS.join(", ")), long_help = methods())]
    preset: Option<String>,
    /// The run's settings, above those of the method
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// One setting, above the file's
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Each method in a line.
fn methods() -> String {
    let about = |name: &&str| TrainPreset::named(name).map(|preset| format!("\n  {name:24}{}", preset.about));
    let lines: Vec<String> = TRAIN_PRESETS.iter().filter_map(|name| about(name).ok()).collect();
    format!("The method, or a file of settings:{}", lines.concat())
}

/// How a model is trained.
pub struct Resolved {
    /// All settings.
    pub settings: TrainSettings,
    /// The recipe that the preset names.
    pub recipe: Option<String>,
}

impl How {
    /// The defaults with what is said above them.
    ///
    /// # Errors
    /// A preset or a file that cannot be read, or settings that are unknown or out of range.
    pub fn resolve(&self) -> Result<Resolved, Failure> {
        let mut layers = Layers::default();
        let mut recipe = None;
        if let Some(name) = &self.preset {
            let preset = TrainPreset::load(name)?;
            layers.add_preset(name, &preset)?;
            recipe = preset.recipe;
        }
        if let Some(path) = &self.settings {
            let text = std::fs::read_to_string(path).map_err(hindsearch::indexes::Error::io("read", path))?;
            layers.add(format!("`{}`", path.display()), text)?;
        }
        for item in &self.overrides {
            layers.change(format!("`--override {item}`"), &single(item)?)?;
        }
        Ok(Resolved { settings: layers.settings()?, recipe })
    }
}

/// A value at its dotted key.
fn single(item: &str) -> Result<Table, Failure> {
    let Some((key, value)) = item.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
        return Err(Failure::Usage(format!("`--override {item}`: expected KEY=VALUE, such as `rollout.samples=8`")));
    };
    // What is no TOML is a text: `objective=gspo`.
    let read = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = read.unwrap_or_else(|| Value::String(value.into()));
    let (outer, last) = key.trim().rsplit_once('.').map_or((None, key.trim()), |(outer, last)| (Some(outer), last));
    let innermost = Table::from_iter([(last.to_owned(), value)]);
    let outer = outer.into_iter().flat_map(|keys| keys.rsplit('.'));
    Ok(outer.fold(innermost, |inner, key| Table::from_iter([(key.to_owned(), Value::Table(inner))])))
}
