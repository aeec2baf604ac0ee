//! `hindsearch bench vectors DIR`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::indexes::measure::Source;
use hindsearch::indexes::{Error, NpyWriter, Progress, Synthetic, write_npy};
use serde_json::json;

use crate::commands::Context;
use crate::failure::Failure;
use crate::output::count;

/// Write vectors with the neighbour structure of text embeddings
#[derive(clap::Args)]
#[command(after_help = "\
The vectors have length 1 and the geometry of E5's embeddings. The first rows are the same whatever their number.

Examples:
  hindsearch bench vectors synthetic --rows 100000
  hindsearch bench vectors synthetic --rows 1000000 --dimensions 384 --seed 7")]
pub struct Args {
    /// The folder for `vectors.npy` and `queries.npy`
    out: PathBuf,
    /// Number of vectors
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Values in a vector
    #[arg(long, default_value_t = 768, value_parser = super::index::dimensions)]
    dimensions: usize,
    /// Number of queries
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queries: u32,
    /// Other numbers give other vectors
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Writes both files.
///
/// # Errors
/// A folder or disk that refuses.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.out).map_err(Error::io("make", &args.out))?;
    let synthetic = Synthetic::new(args.seed, args.dimensions)?;
    let queries = synthetic.queries(args.queries as usize)?;
    write_npy(&args.out.join("queries.npy"), &queries)?;
    let source = Source::Synthetic(synthetic, args.rows);
    let progress = context.progress();
    let mut writer = NpyWriter::create(&args.out.join("vectors.npy"), args.rows, args.dimensions)?;
    source.for_each_block(|done, block| {
        context.interrupt.check()?;
        progress.show("drawing", "vectors", Progress { done, total: Some(args.rows) });
        writer.append(block.as_slice())
    })?;
    writer.finish()?;
    progress.finish();
    if context.json {
        return context.print_json(&json!({
            "out": args.out.display().to_string(), "rows": args.rows, "dimensions": args.dimensions, "queries": args.queries,
            "seed": args.seed,
        }));
    }
    let mut out = context.out();
    let (rows, queries) = (count(args.rows), count(args.queries.into()));
    writeln!(out, "{rows} vectors and {queries} queries of {} values in {}", args.dimensions, args.out.display())?;
    Ok(out.flush()?)
}
