//! `hindsearch env presets [NAME]`.

use std::io::Write;

use hindsearch::env::{PRESETS, Preset, keys};

use super::Context;
use crate::failure::Failure;

/// List the recipes, or show one
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env presets
  hindsearch env presets search-r1 > mine.toml   # then change it, and name the file as the preset
  hindsearch env presets --keys                  # what each key means, its default and its values")]
pub struct Args {
    /// The recipe
    name: Option<String>,
    /// List every key that a recipe may have: its meaning, its default, its values
    #[arg(long, conflicts_with = "name")]
    keys: bool,
}

/// Prints a list, or a recipe as TOML.
///
/// # Errors
/// An unknown recipe.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if args.keys {
        return list_keys(context);
    }
    if let Some(name) = args.name {
        let preset = Preset::load(&name)?;
        if context.json {
            return context.print_json(&preset);
        }
        let text = toml::to_string(&preset).map_err(Failure::internal)?;
        let mut out = context.out();
        writeln!(out, "# `hindsearch env presets --keys` says what each key means.")?;
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(());
    }
    let all = PRESETS.iter().map(|name| Preset::named(name)).collect::<Result<Vec<_>, _>>()?;
    if context.json {
        return context.print_json(&all);
    }
    let mut out = context.out();
    for preset in all {
        writeln!(out, "{:18} {}", preset.name, preset.about)?;
    }
    out.flush()?;
    Ok(())
}

fn list_keys(context: &Context) -> Result<(), Failure> {
    let keys = keys();
    if context.json {
        return context.print_json(&keys);
    }
    let mut out = context.out();
    for key in keys {
        let default = match (&key.default, key.required) {
            (Some(value), _) => format!(", {value} where it is not given"),
            (None, true) => ", must be there".to_owned(),
            (None, false) => String::new(),
        };
        let only = key.only_with.map_or(String::new(), |other| format!(", only with {other}"));
        writeln!(out, "{} ({}{default}{only})", key.key, key.kind)?;
        writeln!(out, "    {}", key.about)?;
        key.values.iter().try_for_each(|choice| writeln!(out, "      {:22} {}", choice.value, choice.about))?;
    }
    out.flush()?;
    Ok(())
}
