//! `hindsearch delete DIR ID...`.

use std::path::PathBuf;

use hindsearch::retriever::build::{DeleteOptions, delete};

use super::Context;
use super::growth::{Way, tell};
use crate::failure::Failure;

/// Delete passages from an index
#[derive(clap::Args)]
#[command(
    after_help = "Deleted passages are no longer found, shown or exported; `hindsearch compact` frees their space. Searches under way keep the
index as it was. An id that the index does not have is an error, and nothing is deleted then.

Examples:
  hindsearch delete wiki 4711 4712
  hindsearch delete wiki --ids outdated.txt   # one id a line; - reads standard input"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Ids of passages
    #[arg(required_unless_present = "ids")]
    id: Vec<String>,
    /// Read ids from a file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    #[command(flatten)]
    way: Way,
}

/// Deletes and prints what the index is now.
///
/// # Errors
/// See [`delete`]; an unreadable list.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let mut ids = args.id;
    if let Some(path) = &args.ids {
        for line in super::lines(path)? {
            let line = line?;
            if !line.is_empty() {
                ids.push(line);
            }
        }
    }
    if ids.is_empty() {
        return Err(Failure::Usage("no ids: expected at least one".into()));
    }
    let options = DeleteOptions { index: args.index, ids, means: args.way.means(context)? };
    let report = super::build::with_progress(context, |on_stage| delete(&options, on_stage, &context.interrupt))?;
    tell(context, "deleted from", &report)
}
