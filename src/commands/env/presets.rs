//! `hindsearch env presets [NAME]`.

use std::io::Write;

use hindsearch::env::{PRESETS, Preset};

use super::Context;
use crate::failure::Failure;

/// List the recipes, or show one
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env presets
  hindsearch env presets search-r1 > mine.toml   # then change it, and name the file as the preset")]
pub struct Args {
    /// The recipe
    name: Option<String>,
}

/// Prints a list, or a recipe as TOML.
///
/// # Errors
/// An unknown recipe.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if let Some(name) = args.name {
        let preset = Preset::load(&name)?;
        if context.json {
            return context.print_json(&preset);
        }
        let text = toml::to_string(&preset).map_err(Failure::internal)?;
        let mut out = context.out();
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
