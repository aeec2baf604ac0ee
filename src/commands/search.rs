//! `hindsearch search DIR QUERY...`.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use hindsearch::indexes::SearchParams;
use hindsearch::retriever::{OpenOptions, Ranked, Retriever};
use serde_json::{Value, json};

use super::Context;
use crate::failure::Failure;
use crate::output::{harmless, shorten};

/// Queries embedded and searched at a time when they come from a file.
const BATCH: usize = 256;

/// Search an index
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch search sample \"Who discovered radium?\"
  hindsearch search sample --top-k 3 --json \"longest river\" \"oldest bridge\"
  hindsearch search sample --queries questions.txt   # one query a line; - reads standard input")]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Queries, each an argument
    #[arg(required_unless_present = "queries")]
    query: Vec<String>,
    /// Read queries from a file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    queries: Option<PathBuf>,
    /// Passages wanted for each query
    #[arg(long, short = 'k', value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: Option<u32>,
    /// Candidates that an approximate index keeps while it walks
    #[arg(long)]
    effort: Option<usize>,
    /// Model folder or hub id, where it is not where the index was built with it
    #[arg(long)]
    model: Option<String>,
    /// Print whole passages
    #[arg(long)]
    full: bool,
}

/// Prints ranked passages: a table, or with `--json` one object a line for each query.
///
/// # Errors
/// A missing or damaged index, another model, unreadable queries.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let retriever = Retriever::open(&args.index, open_options(context, args.model.as_deref(), args.effort)?)?;
    let search = &context.config.search;
    let params =
        SearchParams { top_k: args.top_k.map_or(search.top_k, |k| k as usize), effort: None, threads: search.threads };
    let mut out = context.out();
    let mut answer = |queries: &[String]| -> Result<(), Failure> {
        context.interrupt.check()?;
        let start = Instant::now();
        let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
        let rankings = retriever.retrieve(&texts, &params)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3 / queries.len() as f64;
        for (query, ranking) in queries.iter().zip(rankings) {
            if context.json {
                let hits: Vec<Value> = ranking.iter().map(hit_json).collect();
                serde_json::to_writer(
                    &mut out,
                    &json!({ "query": query, "milliseconds": milliseconds, "hits": hits }),
                )?;
                writeln!(out)?;
            } else {
                print_ranking(&mut out, query, milliseconds, &ranking, args.full)?;
            }
        }
        Ok(out.flush()?)
    };
    match &args.queries {
        None => answer(&args.query),
        Some(path) => {
            let lines: Box<dyn BufRead> = if path.as_os_str() == "-" {
                Box::new(std::io::stdin().lock())
            } else {
                Box::new(std::io::BufReader::new(
                    std::fs::File::open(path).map_err(hindsearch::indexes::Error::io("read", path))?,
                ))
            };
            let mut batch = Vec::new();
            for (at, line) in lines.lines().enumerate() {
                let line = line.map_err(|error| {
                    Failure::Usage(format!(
                        "`{}`, line {}: expected a query in UTF-8, found {error}",
                        path.display(),
                        at + 1
                    ))
                })?;
                if !line.trim().is_empty() {
                    batch.push(line.trim().to_owned());
                }
                if batch.len() == BATCH {
                    answer(&batch)?;
                    batch.clear();
                }
            }
            if batch.is_empty() { Ok(()) } else { answer(&batch) }
        }
    }
}

/// How commands that search open an index.
pub fn open_options(context: &Context, model: Option<&str>, effort: Option<usize>) -> Result<OpenOptions, Failure> {
    let settings = &context.config;
    Ok(OpenOptions {
        // The index knows its model: the settings say which one is built with, not which one is searched with.
        model: model.map(|name| super::model_source(context, settings, Some(name))).transpose()?,
        embed: super::embed_options(settings),
        expansion_search: effort,
    })
}

fn hit_json(hit: &Ranked) -> Value {
    json!({
        "id": hit.passage.id, "row": hit.row, "score": hit.score,
        "title": hit.passage.display_title(), "text": hit.passage.text, "contents": hit.passage.contents(),
    })
}

fn print_ranking(
    out: &mut dyn Write,
    query: &str,
    milliseconds: f64,
    ranking: &[Ranked],
    full: bool,
) -> Result<(), Failure> {
    writeln!(out, "\n{}  ({milliseconds:.1} ms)", harmless(query))?;
    for (at, hit) in ranking.iter().enumerate() {
        let title = shorten(&harmless(hit.passage.display_title()), 40);
        let text = harmless(&hit.passage.text);
        let text = if full { text } else { shorten(&text, 90) };
        writeln!(out, "{:3}  {:.3}  [{}] {title}: {text}", at + 1, hit.score, harmless(&hit.passage.id))?;
    }
    Ok(())
}
