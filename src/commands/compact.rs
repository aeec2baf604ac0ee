//! `hindsearch compact DIR`.

use std::path::PathBuf;

use hindsearch::indexes::Generation;
use hindsearch::retriever::build::{OnStage, compact};

use super::Context;
use super::growth::{Way, tell};
use crate::failure::Failure;

/// Rewrite an index without what was deleted, in one piece
#[derive(clap::Args)]
#[command(
    after_help = "After appends and deletions: nothing is embedded again, so it takes about as long as copying the files, and building the
graph of an index that has one. The index keeps its old files until no search uses them.

Examples:
  hindsearch compact wiki"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    #[command(flatten)]
    way: Way,
}

/// Compacts and prints what the index is now.
///
/// # Errors
/// See [`compact`].
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let before = Generation::open_current(&args.index)?.number();
    let means = args.way.means(context)?;
    let work = |on_stage: OnStage<'_>| compact(&args.index, &means, on_stage, &context.interrupt);
    let report = super::build::with_progress(context, work)?;
    let done = if report.generation == before { "nothing to compact in" } else { "compacted" };
    tell(context, done, &report)
}
