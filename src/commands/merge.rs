//! `hindsearch merge DIR... --out NEW`.

use std::path::PathBuf;

use hindsearch::retriever::build::{MergeOptions, merge};

use super::Context;
use super::growth::{Way, tell};
use crate::failure::Failure;

/// Make one index of several
#[derive(clap::Args)]
#[command(
    after_help = "The indexes must have been built with the same model, prefixes and element type, and no id may be in two of them. Nothing is
embedded again. They stay as they are.

Examples:
  hindsearch merge wiki-a wiki-b --out wiki"
)]
pub struct Args {
    /// The index folders; the first decides the kind of the new index
    #[arg(required = true, num_args = 2..)]
    indexes: Vec<PathBuf>,
    /// The folder of the new index; an index in it gets a new generation
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    way: Way,
}

/// Merges and prints what the new index is.
///
/// # Errors
/// See [`merge`].
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let options = MergeOptions { indexes: args.indexes, out: args.out, means: args.way.means(context)? };
    let report = super::build::with_progress(context, |on_stage| merge(&options, on_stage, &context.interrupt))?;
    tell(context, "merged into", &report)
}
