//! Which published recipes are built in?

use toml::Table;

use super::Objectives;
use crate::layers::merge;
use crate::{Error, Result};

/// Declares the built-in presets.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// Names of the objectives that are built in.
        pub const OBJECTIVE_PRESETS: &[&str] = &[$($name),*];

        fn built_in(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("presets/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

presets!["search-r1", "grpo-paper", "dr-grpo", "gspo", "rloo", "ppo-clip"];

impl Objectives {
    /// Objectives that are built in: a published recipe.
    ///
    /// # Errors
    /// [`Error::NotFound`], which lists those that there are.
    pub fn named(name: &str) -> Result<Self> {
        let text = built_in(name).ok_or_else(|| Error::NotFound {
            what: format!("objectives `{name}`"),
            remedy: format!("there are {}", OBJECTIVE_PRESETS.join(", ")),
        })?;
        Self::parse(text, &format!("objectives `{name}`"))
    }

    /// A preset with these values instead of its own, or what is wrong with them.
    pub(crate) fn changed(name: &str, changes: Table) -> std::result::Result<Self, String> {
        let preset = Self::named(name).map_err(|error| error.to_string())?;
        let mut all = Table::try_from(preset).map_err(|error| error.to_string())?;
        merge(&mut all, changes);
        all.try_into().map_err(|error: toml::de::Error| error.to_string())
    }

    /// Objectives in TOML. What is not said has its default. `what` is what an error calls the text.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an unknown key or a number out of its range.
    pub fn parse(text: &str, what: &str) -> Result<Self> {
        let objectives: Self = toml::from_str(text).map_err(|error| {
            Error::invalid(what, "objectives (see trainer/src/objective/presets)", error.to_string().trim_end())
        })?;
        objectives.check()?;
        Ok(objectives)
    }
}
