//! `hindsearch build CORPUS --out DIR`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::indexes::{ElementType, IndexKind, Progress};
use hindsearch::retriever::build::{BuildOptions, IndexOptions, OnStage, Plan, Stage, build};
use hindsearch::retriever::corpus::Format;

use super::Context;
use super::inspect::describe;
use crate::failure::Failure;
use crate::output::{bytes, count, duration, facts};

/// Build an index from a corpus
#[derive(clap::Args)]
#[command(
    after_help = "Formats: wiki-18 and BEIR JSONL, DPR psgs_w100.tsv, MS MARCO TSV, Parquet, Arrow; plain, .gz or .zst.
A build that was stopped goes on where it stood when the same command is given again.

Vectors that exist already: `--vectors` takes a faiss index (flat, IVF flat, scalar quantiser of fp16 or 8 bit, HNSW or
id maps over these; a graph is built anew), NumPy arrays or a raw array of f32, whole or in parts, in corpus order. The model is still needed: it
checks that vectors and passages belong together, and embeds queries.

Examples:
  hindsearch build examples/data/corpus.jsonl --out sample
  hindsearch build wiki-18.jsonl.gz --out wiki --model models/e5-base-v2 --dry-run
  hindsearch build part-0.parquet part-1.parquet --out wiki --index hnsw
  hindsearch build wiki-18.jsonl.gz --vectors e5_Flat.index --out wiki --model intfloat/e5-base-v2
  hindsearch build wiki-18.jsonl.gz --vectors part_aa part_ab --out wiki --model intfloat/e5-base-v2"
)]
pub struct Args {
    /// Corpus files, read in this order as one corpus
    #[arg(required = true)]
    corpus: Vec<PathBuf>,
    /// Files with the passages' vectors, in corpus order, in place of embedding; parts of a file one after the other
    #[arg(long, value_name = "FILE", num_args = 1..)]
    vectors: Vec<PathBuf>,
    /// The index folder; an index in it gets a new generation
    #[arg(long)]
    out: PathBuf,
    /// Model folder or hub id
    #[arg(long)]
    model: Option<String>,
    /// `flat` (exact), `quantized` (near exact, in the least memory) or `hnsw` (approximate, a graph)
    #[arg(long)]
    index: Option<IndexKind>,
    /// How a stored value is coded: `f32`, `f16`, `i8` or `i16`
    #[arg(long)]
    element_type: Option<ElementType>,
    /// The corpus's format, where it should not be detected
    #[arg(long)]
    format: Option<Format>,
    /// Worker threads; 0 takes one a core
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    /// Discard an unfinished build of another corpus, model or element type in the index folder
    #[arg(long)]
    restart: bool,
    /// Only print what the build needs: sizes, memory, disk, time
    #[arg(long)]
    dry_run: bool,
}

/// Builds and prints what was built, or with `--dry-run` what it would take.
///
/// # Errors
/// See [`build`].
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let mut settings = context.config.clone();
    settings.index.kind = args.index.unwrap_or(settings.index.kind);
    settings.index.element_type = args.element_type.unwrap_or(settings.index.element_type);
    settings.embed.threads = args.threads.map_or(settings.embed.threads, usize::from);
    if let Some(model) = &args.model {
        settings.model.source.clone_from(model);
    }
    let options = BuildOptions {
        corpus: args.corpus,
        format: args.format,
        vectors: args.vectors,
        out: args.out,
        model: super::model_source(context, &settings, None)?,
        embed: super::embed_options(&settings),
        index: IndexOptions {
            kind: settings.index.kind,
            element_type: settings.index.element_type,
            recall_floor: settings.index.recall_floor,
            connectivity: settings.index.connectivity,
            expansion_add: settings.index.expansion_add,
        },
        restart: args.restart,
        settings: serde_json::to_value(&settings)?,
    };
    if args.dry_run {
        let plan = Plan::new(&options)?;
        print_plan(context, &options, &plan)?;
        return Ok(plan.check(&options)?);
    }
    let report = with_progress(context, |on_stage| build(&options, on_stage, &context.interrupt))?;
    if context.json {
        return context.print_json(&report);
    }
    let mut out = context.out();
    writeln!(out, "built {}, generation {}, in {}", report.out, report.generation, duration(report.seconds))?;
    facts(&mut out, &describe(&report.manifest, &report.provenance))?;
    if report.provenance.truncated > 0 {
        let limit = report.provenance.model.card.max_length;
        writeln!(
            out,
            "  note: {} passages were longer than {limit} tokens; their ends are not in their vectors",
            count(report.provenance.truncated)
        )?;
    }
    // As this program was called, which need not be on the path.
    let program = std::env::args_os()
        .next()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|| "hindsearch".into());
    writeln!(out, "search it: {program} search {} \"a question\"", report.out)?;
    Ok(out.flush()?)
}

/// Shows how far the stages of `work` are.
///
/// # Errors
/// Those of `work`.
pub fn with_progress<T, E>(context: &Context, work: impl FnOnce(OnStage<'_>) -> Result<T, E>) -> Result<T, E> {
    let progress = context.progress();
    let done = work(&|stage, step: Progress| match stage {
        Stage::Corpus => progress.show("reading the corpus", "bytes", step),
        Stage::Vectors => progress.show("making vectors", "passages", step),
        Stage::Copy => progress.show("copying", "passages", step),
        Stage::Graph => progress.show("building the graph", "passages", step),
        Stage::Codes => progress.show("coding", "passages", step),
        Stage::Publish => progress.show("hashing", "bytes", step),
    })?;
    progress.finish();
    Ok(done)
}

fn print_plan(context: &Context, options: &BuildOptions, plan: &Plan) -> Result<(), Failure> {
    if context.json {
        return context.print_json(plan);
    }
    let known = |value: Option<u64>| value.map_or("unknown".into(), bytes);
    let mut out = context.out();
    writeln!(out, "building {} would take", options.out.display())?;
    facts(
        &mut out,
        &[
            ("passages", format!("{}{}", if plan.passages_exact { "" } else { "about " }, count(plan.passages))),
            ("text", bytes(plan.text_bytes)),
            (
                "vectors",
                format!("{} ({} values, {})", bytes(plan.vector_bytes), plan.dimensions, options.index.element_type),
            ),
            (
                if options.index.kind == IndexKind::Quantized { "codes" } else { "graph" },
                if plan.graph_bytes > 0 { bytes(plan.graph_bytes) } else { "none".into() },
            ),
            ("disk", format!("{} of {} free", bytes(plan.disk_needed), known(plan.disk_free))),
            ("memory", format!("{} of {} free", bytes(plan.memory_needed), known(plan.memory_free))),
            ("speed", format!("{:.1} passages/s, measured on the first ones", plan.passages_per_second)),
            ("time", duration(plan.seconds)),
        ],
    )?;
    Ok(out.flush()?)
}
