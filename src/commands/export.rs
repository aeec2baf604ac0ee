//! `hindsearch export DIR --out FILE`.

use std::path::PathBuf;

use hindsearch::indexes::Generation;
use hindsearch::retriever::corpus::Corpus;

use super::Context;
use crate::failure::Failure;
use crate::output::count;

/// Write an index's passages back to a file
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  hindsearch export sample --out corpus.jsonl\n  hindsearch export sample --out corpus.parquet"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// The file to write: `.jsonl` in wiki-18 form, or `.parquet` with `id` and `contents`
    #[arg(long)]
    out: PathBuf,
}

/// Writes every passage that is not deleted, in row order, byte for byte as it was read.
///
/// # Errors
/// A missing or damaged index, a file name of another kind, a disk that refuses.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let generation = Generation::open_current(&args.index)?;
    let corpus = Corpus::open(&generation)?;
    let progress = context.progress();
    let on_progress = |p| progress.show("exporting", "passages", p);
    match args.out.extension().and_then(|e| e.to_str()) {
        Some("jsonl") => corpus.export_jsonl(&args.out, &on_progress, &context.interrupt)?,
        Some("parquet") => corpus.export_parquet(&args.out, &on_progress, &context.interrupt)?,
        _ => {
            return Err(Failure::Usage(format!(
                "`--out {}`: expected a name ending in `.jsonl` or `.parquet`",
                args.out.display()
            )));
        }
    }
    progress.finish();
    if context.json {
        return context
            .print_json(&serde_json::json!({ "out": args.out.display().to_string(), "passages": corpus.len() }));
    }
    use std::io::Write;
    Ok(writeln!(std::io::stdout(), "{} passages in {}", count(corpus.len()), args.out.display())?)
}
