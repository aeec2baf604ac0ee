//! `hindsearch mcp`: the tools `search` and `fetch` for an agent, over standard input and output.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::indexes::Effort;
use hindsearch::retriever::serve::{self, ServeOptions};

use super::Context;
use super::search::open_options;
use super::serve::configured;
use crate::failure::Failure;
use crate::output::count;

/// Arguments of `hindsearch mcp`.
#[derive(clap::Args)]
#[command(after_help = "\
Speaks the Model Context Protocol: nothing else is written to standard output, and the program ends when standard input
does. Agents start it themselves; `hindsearch serve` speaks the same over HTTP, at `/mcp`.

Example, the entry of an agent's settings:
  { \"mcpServers\": { \"hindsearch\": { \"command\": \"hindsearch\", \"args\": [\"mcp\", \"/path/to/wiki\"] } } }")]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Passages for a search that names no number
    #[arg(long, short = 'k', value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: Option<u32>,
    /// Give each passage the address of its title's page at Wikipedia
    #[arg(long)]
    derive_urls: bool,
    /// How much an approximate index looks at: `calibrated`, `recall=0.95` (of the ten best hits), `exhaustive`, `exact`, or
    /// a number of candidates; for measuring, `lists=16:100` (lists, candidates). Exact indexes always look at all
    #[arg(long, default_value_t)]
    effort: Effort,
    /// Model folder or hub id, where it is not where the index was built with it
    #[arg(long)]
    model: Option<String>,
}

/// Answers until standard input ends.
///
/// # Errors
/// A missing or damaged index, another model, a speaker of another protocol.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let open = open_options(context, args.model.as_deref(), args.effort)?;
    let options = configured(context);
    let top_k = args.top_k.map_or(options.top_k, |top_k| top_k as usize);
    let options = ServeOptions { top_k, derive_urls: args.derive_urls, ..options };
    serve::serve_stdio(&args.index, open, options, |service| {
        if context.quiet {
            return;
        }
        let rows = count(service.serving().retriever().corpus().len());
        let _ = writeln!(
            std::io::stderr(),
            "Serving `{}` ({rows} passages) over standard input and output",
            args.index.display()
        );
    })?;
    Ok(())
}
