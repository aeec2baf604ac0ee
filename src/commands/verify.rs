//! `hindsearch verify DIR`.

use std::path::PathBuf;

use hindsearch::indexes::{Depth, Effort, Generation, open_index};
use hindsearch::retriever::corpus::Corpus;
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::{bytes, count};

/// Check an index for damage
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  hindsearch verify sample          # every byte\n  hindsearch verify sample --quick  # what opening it checks"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Check only what opening the index checks: lengths, headers, and the hashes of the small files
    #[arg(long)]
    quick: bool,
}

/// Hashes every file, then holds the text store and the vectors against each other.
///
/// # Errors
/// The first damage found.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let depth = if args.quick { Depth::Structure } else { Depth::Full };
    let generation = Generation::open_current(&args.index)?;
    let progress = context.progress();
    generation.verify(depth, &|p| progress.show("verifying", "bytes", p), &context.interrupt)?;
    let (corpus, _) = (Corpus::open(&generation)?, open_index(&generation, Effort::default())?);
    if !args.quick {
        corpus.verify(&|p| progress.show("reading the text", "passages", p), &context.interrupt)?;
    }
    progress.finish();
    let manifest = generation.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.length).sum();
    if context.json {
        return context.print_json(&json!({
            "sound": true, "generation": generation.number(), "passages": manifest.live_rows(), "bytes": size, "full": !args.quick,
        }));
    }
    let checked = if args.quick { "structure checked" } else { "every byte checked" };
    let mut out = context.out();
    use std::io::Write;
    writeln!(
        out,
        "{} is sound: generation {}, {} passages, {}, {checked}",
        args.index.display(),
        generation.number(),
        count(manifest.live_rows()),
        bytes(size)
    )?;
    Ok(out.flush()?)
}
