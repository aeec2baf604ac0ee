//! `hindsearch append DIR CORPUS...`.

use std::path::PathBuf;

use hindsearch::retriever::build::{AppendOptions, append};
use hindsearch::retriever::corpus::Format;

use super::Context;
use super::growth::{Way, tell};
use crate::failure::Failure;

/// Add passages to an index
#[derive(clap::Args)]
#[command(
    after_help = "Only the new passages are embedded, with the index's own model; the files that are there are neither written again nor
copied. Searches under way keep the index as it was. An append that was stopped goes on when the same command is given again.

Examples:
  hindsearch append wiki new.jsonl
  hindsearch append wiki corrected.jsonl --replace   # passages whose ids the index has take the place of the old ones
  hindsearch compact wiki                            # now and then, after many appends"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Corpus files, read in this order
    #[arg(required = true)]
    corpus: Vec<PathBuf>,
    /// Let passages whose ids the index has take the place of the old ones
    #[arg(long)]
    replace: bool,
    /// The corpus's format, where it should not be detected
    #[arg(long)]
    format: Option<Format>,
    /// Worker threads; 0 takes one a core
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    way: Way,
}

/// Appends and prints what the index is now.
///
/// # Errors
/// See [`append`].
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let mut means = args.way.means(context)?;
    means.embed.threads = args.threads.map_or(means.embed.threads, usize::from);
    let options =
        AppendOptions { index: args.index, corpus: args.corpus, format: args.format, replace: args.replace, means };
    let report = super::build::with_progress(context, |on_stage| append(&options, on_stage, &context.interrupt))?;
    tell(context, "appended to", &report)
}
