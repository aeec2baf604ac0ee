//! `hindsearch search DIR QUERY...`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use hindsearch::indexes::{Effort, SearchParams};
use hindsearch::retriever::embed::{CardOverrides, EmbedOptions};
use hindsearch::retriever::{OpenOptions, Ranked, Retriever};
use serde_json::{Value, json};

use super::Context;
use crate::failure::Failure;
use crate::output::{harmless, shorten};

/// Queries embedded and searched at a time when they come from a file.
const BATCH: usize = 256;
/// So few queries are embedded before a second thread has loaded the model.
const FEW: usize = 16;

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
    /// How much an approximate index looks at: `calibrated`, `recall=0.95` (of the ten best hits), `exhaustive`, `exact`, or
    /// a number of candidates; for measuring, `lists=16:100` (lists, candidates). Exact indexes always look at all
    #[arg(long, default_value_t)]
    effort: Effort,
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
    let mut options = open_options(context, args.model.as_deref(), args.effort)?;
    if options.embed.threads == 0 && args.queries.is_none() && args.query.len() <= FEW {
        options.embed.threads = 1;
    }
    let retriever = Retriever::open(&args.index, options)?;
    let search = &context.config.search;
    let params =
        SearchParams { threads: search.threads, ..SearchParams::top(args.top_k.map_or(search.top_k, |k| k as usize)) };
    let mut out = context.out();
    let mut answer = |queries: &[String]| -> Result<(), Failure> {
        let start = Instant::now();
        let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
        let rankings = retriever.retrieve_texts(&texts, &params)?;
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
            // Someone who types wants the answer now.
            let typed = path.as_os_str() == "-" && std::io::stdin().is_terminal();
            let at_once = if typed { 1 } else { BATCH };
            let mut batch = Vec::new();
            for line in super::lines(path)? {
                let line = line?;
                if !line.trim().is_empty() {
                    batch.push(line.trim().to_owned());
                }
                if batch.len() == at_once {
                    answer(&batch)?;
                    batch.clear();
                }
            }
            if batch.is_empty() { Ok(()) } else { answer(&batch) }
        }
    }
}

/// How commands that search open an index.
pub fn open_options(context: &Context, model: Option<&str>, effort: Effort) -> Result<OpenOptions, Failure> {
    let settings = &context.config;
    Ok(OpenOptions {
        // The index knows its model and how it wants texts: the settings say what is built, and only here how it runs.
        model: model.map(|name| super::model_source(context, settings, Some(name))).transpose()?,
        embed: EmbedOptions {
            card: CardOverrides::default(),
            query_precision: None,
            passage_precision: None,
            ..super::embed_options(settings)
        },
        effort,
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
        let title = match hit.passage.display_title() {
            "" => String::new(),
            title => format!("{}: ", shorten(&harmless(title), 40)),
        };
        let text = harmless(&hit.passage.text);
        let text = if full { text } else { shorten(&text, 90) };
        writeln!(out, "{:3}  {:.3}  [{}] {title}{text}", at + 1, hit.score, harmless(&hit.passage.id))?;
    }
    Ok(())
}
