//! Which methods of training are built in? A preset has some settings of a run, and may name the recipe of its episodes.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::{Error, Result};

/// Declares the built-in presets: each is a file in `presets/`.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// Names of the training presets that are built in.
        pub const TRAIN_PRESETS: &[&str] = &[$($name),*];

        fn built_in(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("presets/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

presets![
    "grpo",
    "gspo",
    "hindsearch",
    "hindsearch-answer-free",
    "hindsearch-top-k",
    "sd-search",
    "hiexp",
    "hiexp-hindsearch",
    "hiexp-sd-search",
    "rlsd",
    "evisd",
    "sdpo",
    "opsd",
    "search-e1",
    "eviback",
];

/// The recipe of a run that names none.
pub const DEFAULT_RECIPE: &str = "hindsearch";

/// A method of training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainPreset {
    /// What it is, in a line; the key `about`.
    pub about: String,
    /// The recipe of its episodes, a name or a file, where it needs one of its own; the key `recipe`.
    pub recipe: Option<String>,
    /// The settings that it has, which are all other keys.
    pub settings: Table,
}

impl TrainPreset {
    /// A preset that is built in.
    ///
    /// # Errors
    /// [`Error::NotFound`], which lists those that there are; [`Error::InvalidInput`] for the name of a recipe of episodes.
    pub fn named(name: &str) -> Result<Self> {
        match built_in(name) {
            Some(text) => Self::parse(text, &format!("training preset `{name}`")),
            None if hindsearch_env::PRESETS.contains(&name) => Err(is_recipe(&format!("`{name}`"))),
            None => Err(Error::NotFound {
                what: format!("training preset `{name}`"),
                remedy: format!("there are {}; or name a file that ends in .toml", TRAIN_PRESETS.join(", ")),
            }),
        }
    }

    /// A preset that is built in, or one of a file, whose name ends in `.toml`.
    ///
    /// # Errors
    /// As [`named`](Self::named); [`Error::InvalidInput`] and [`Error::Io`] for a file that cannot be used.
    pub fn load(name: &str) -> Result<Self> {
        if !name.ends_with(".toml") {
            return Self::named(name);
        }
        let text = fs::read_to_string(name).map_err(Error::io("read", Path::new(name)))?;
        Self::parse(&text, &format!("`{name}`"))
    }

    fn parse(text: &str, what: &str) -> Result<Self> {
        let mut settings: Table =
            text.parse().map_err(|error: toml::de::Error| Error::invalid(what, "TOML", error.to_string()))?;
        // What every recipe has, and no settings of a run.
        if settings.contains_key("prompt") && settings.contains_key("grammar") {
            return Err(is_recipe(what));
        }
        let mut text = |key: &str| match settings.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Error::invalid(format!("`{key}` of {what}"), "a text", other.to_string())),
        };
        Ok(Self { about: text("about")?.unwrap_or_default(), recipe: text("recipe")?, settings })
    }
}

fn is_recipe(what: &str) -> Error {
    let expected = format!("a training preset ({}, or a file of settings)", TRAIN_PRESETS.join(", "));
    Error::invalid(what, expected, "a recipe of episodes, which is named as `recipe` (`--recipe` at the command line)")
}
