//! `hindsearch export DIR --out FILE`, `--vectors FILE`.

use std::io::Write;
use std::path::{Path, PathBuf};

use hindsearch::indexes::{Depth, ExportFormat, Generation, Sharded, export_vectors};
use hindsearch::retriever::corpus::Corpus;
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::count;

/// Write an index's passages or vectors back to a file
#[derive(clap::Args)]
#[command(
    after_help = "Vectors are written as f32 in row order: those that the index scores with, so what its element type has
rounded stays rounded. A `.faiss` file is an IndexFlatIP.

Examples:
  hindsearch export sample --out corpus.jsonl
  hindsearch export sample --out corpus.parquet
  hindsearch export sample --vectors vectors.npy
  hindsearch export sample --vectors flat.faiss"
)]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// The file of passages to write: `.jsonl` in wiki-18 form, or `.parquet` with `id` and `contents`
    #[arg(long, required_unless_present = "vectors")]
    out: Option<PathBuf>,
    /// The file of vectors to write: `.npy`, or `.faiss` or `.index` for faiss
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
}

/// Writes every passage that is not deleted, in row order, byte for byte as it was read, or every vector.
///
/// # Errors
/// A missing or damaged index, a file name of another kind, a disk that refuses.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let format = args.vectors.as_deref().map(vector_format).transpose()?;
    let generation = Generation::open_current(&args.index)?;
    let rows = generation.manifest().live_rows();
    if let Some(out) = &args.out {
        passages(&generation, out, context)?;
    }
    if let (Some(out), Some(format)) = (&args.vectors, format) {
        vectors(&generation, out, format, context)?;
    }
    if context.json {
        let name = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let mut told = json!({ "passages": rows });
        for (key, name) in [("out", name(&args.out)), ("vectors", name(&args.vectors))] {
            if let Some(name) = name {
                told[key] = name.into();
            }
        }
        return context.print_json(&told);
    }
    let mut out = context.out();
    for (what, path) in [("passages", &args.out), ("vectors", &args.vectors)] {
        if let Some(path) = path {
            writeln!(out, "{} {what} in {}", count(rows), path.display())?;
        }
    }
    Ok(out.flush()?)
}

fn vector_format(path: &Path) -> Result<ExportFormat, Failure> {
    ExportFormat::of(path).ok_or_else(|| {
        Failure::Usage(format!(
            "`--vectors {}`: expected a name ending in `.npy`, `.faiss` or `.index`",
            path.display()
        ))
    })
}

fn passages(generation: &Generation, out: &Path, context: &Context) -> Result<(), Failure> {
    let corpus = Corpus::open(generation)?;
    let progress = context.progress();
    let on_progress = |p| progress.show("exporting", "passages", p);
    match out.extension().and_then(|e| e.to_str()) {
        Some("jsonl") => corpus.export_jsonl(out, &on_progress, &context.interrupt)?,
        Some("parquet") => corpus.export_parquet(out, &on_progress, &context.interrupt)?,
        _ => {
            return Err(Failure::Usage(format!(
                "`--out {}`: expected a name ending in `.jsonl` or `.parquet`",
                out.display()
            )));
        }
    }
    progress.finish();
    Ok(())
}

fn vectors(generation: &Generation, out: &Path, format: ExportFormat, context: &Context) -> Result<(), Failure> {
    let progress = context.progress();
    // Damaged vectors must not leave under a good name.
    generation.verify(Depth::Full, &|p| progress.show("checking", "bytes", p), &context.interrupt)?;
    let index = Sharded::open_flat(generation.path(), generation.manifest())?;
    export_vectors(&index, out, format, &|p| progress.show("exporting", "vectors", p), &context.interrupt)?;
    progress.finish();
    Ok(())
}
