//! `hindsearch config show|check`.

use std::io::Write;

use super::Context;
use crate::failure::Failure;

/// Show or check the settings
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print the resolved settings as TOML: defaults, then the file, then HINDSEARCH_* variables, then `--set`
    #[command(
        after_help = "Example:\n  hindsearch config show --set index.kind=hnsw\n  HINDSEARCH_INDEX_KIND=hnsw hindsearch config show > hindsearch.toml"
    )]
    Show,
    /// Say whether the settings can be used
    #[command(after_help = "Example:\n  hindsearch config check --config hindsearch.toml")]
    Check,
}

/// The settings are resolved before any command runs, so a bad one never gets here.
///
/// # Errors
/// When standard output fails.
pub fn run(command: Command, context: &Context) -> Result<(), Failure> {
    let mut out = context.out();
    match command {
        Command::Show if context.json => return context.print_json(&context.config),
        Command::Show => write!(out, "{}", context.config.to_toml())?,
        Command::Check if context.json => return context.print_json(&serde_json::json!({ "ok": true })),
        Command::Check => writeln!(out, "the settings can be used")?,
    }
    Ok(out.flush()?)
}
