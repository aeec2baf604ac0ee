//! `hindsearch embed TEXT...` and `hindsearch embed --file F --out x.npy`.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use hindsearch::indexes::{Progress, Vectors, write_npy};
use hindsearch::retriever::embed::{Embedder, InputKind};
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::count;

/// What the texts are, for models that tell queries from passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Texts to search with
    Query,
    /// Texts to be found
    Passage,
}

/// Turn texts into vectors
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch embed \"Who discovered radium?\"
  hindsearch embed --file texts.txt --kind passage --out vectors.npy
  hindsearch embed --file texts.txt --out vectors.npy --model models/e5-base-v2 --json")]
pub struct Args {
    /// Texts, each an argument
    #[arg(required_unless_present = "file")]
    text: Vec<String>,
    /// Read texts from a file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text", requires = "out")]
    file: Option<PathBuf>,
    /// Write the vectors to a NumPy file instead of printing them
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
    /// What the texts are
    #[arg(long, value_enum, default_value = "query")]
    kind: Kind,
    /// Model folder or hub id
    #[arg(long)]
    model: Option<String>,
    /// Worker threads; 0 takes one a core
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    /// Texts that may share a batch: many are sorted by length, 1 embeds them one after the other
    #[arg(long, default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: u32,
}

/// Prints vectors, or writes them and prints what it took.
///
/// # Errors
/// A model or file that cannot be used.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let mut settings = context.config.clone();
    settings.embed.threads = args.threads.map_or(settings.embed.threads, usize::from);
    let source = super::model_source(context, &settings, args.model.as_deref())?;
    let texts = match &args.file {
        None => args.text.clone(),
        Some(path) => super::lines(path)?.collect::<Result<_, _>>()?,
    };
    let embedder = Embedder::open(&source, super::embed_options(&settings))?;
    let kind = match args.kind {
        Kind::Query => InputKind::Query,
        Kind::Passage => InputKind::Passage,
    };
    // Sessions are loaded before the clock starts.
    embedder.warm_up(kind)?;
    let progress = context.progress();
    let mut values = Vec::with_capacity(texts.len() * embedder.card().dimensions);
    let (start, before) = (std::time::Instant::now(), embedder.stats());
    let mut stream = embedder.embed_stream(texts.iter().cloned(), kind, args.window as usize);
    while let Some(window) = stream.next_unless(&context.interrupt) {
        values.extend_from_slice(window?.vectors.as_slice());
        let done = (values.len() / embedder.card().dimensions) as u64;
        progress.show("embedding", "texts", Progress { done, total: Some(texts.len() as u64) });
    }
    progress.finish();
    let wall_seconds = start.elapsed().as_secs_f64();
    let stats = embedder.stats();
    let vectors = Vectors::new(embedder.card().dimensions, values)?;
    let Some(path) = &args.out else {
        let mut out = context.out();
        for (text, vector) in texts.iter().zip(vectors.rows()) {
            serde_json::to_writer(&mut out, &json!({ "text": text, "vector": vector }))?;
            writeln!(out)?;
        }
        return Ok(out.flush()?);
    };
    write_npy(path, &vectors)?;
    if context.json {
        return context.print_json(&json!({
            "out": path.display().to_string(), "texts": vectors.len(), "dimensions": vectors.dimensions(),
            "tokens": stats.tokens - before.tokens, "truncated": stats.truncated - before.truncated,
            "cpu_seconds": (stats.cpu - before.cpu).as_secs_f64(), "wall_seconds": wall_seconds,
        }));
    }
    let mut out = context.out();
    writeln!(
        out,
        "{} vectors of {} values in {} ({:.1} texts/s, {} cut to {} tokens)",
        count(vectors.len() as u64),
        vectors.dimensions(),
        path.display(),
        vectors.len() as f64 / wall_seconds.max(1e-9),
        count(stats.truncated - before.truncated),
        embedder.card().max_length
    )?;
    Ok(out.flush()?)
}
