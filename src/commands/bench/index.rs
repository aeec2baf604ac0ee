//! `hindsearch bench index`.

use std::io::Write;
use std::path::{Path, PathBuf};

use hindsearch::indexes::measure::{Bench, Bound, Built, Limits, Measured, Settings, Source, Subject, Truth, efforts};
use hindsearch::indexes::{
    Depth, Effort, ElementType, Footprint, Generation, Index, IndexKind, Layout, Progress, Sharded, Synthetic, Vectors,
    mixed_rows, open_index, read_npy,
};
use serde::Serialize;
use serde_json::json;

use super::picture::picture;
use crate::commands::{Context, write_whole};
use crate::failure::Failure;
use crate::output::{bytes, count, duration};

/// Queries where their number is not said.
const QUERIES: u32 = 1024;

/// Measure an index: recall, latency, throughput, and what bounds it
#[derive(clap::Args)]
#[command(after_help = "\
Recall is the share of the exact hits found: those of the stored vectors for an index, those of the f32 vectors for `--rows` and
`--vectors`. Without `--queries` an index is asked mixtures of its own vectors.

Examples:
  hindsearch bench index wiki --svg recall.svg
  hindsearch bench index --rows 100000 --kind hnsw
  hindsearch bench index --vectors vectors.npy --queries queries.npy --kind hnsw --element-type i8 --work bench --threads 1 --json")]
pub struct Args {
    /// An index folder
    #[arg(conflicts_with_all = ["rows", "vectors", "kind", "element_type", "work"])]
    index: Option<PathBuf>,
    /// Build an index of this many synthetic vectors
    #[arg(long, conflicts_with = "vectors", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    rows: Option<u64>,
    /// Values in a synthetic vector
    #[arg(long, default_value_t = 768, requires = "rows", value_parser = dimensions)]
    dimensions: usize,
    /// Which synthetic vectors
    #[arg(long, default_value_t = 1, requires = "rows")]
    seed: u64,
    /// Build an index of the vectors in a NumPy file
    #[arg(long, value_name = "FILE.npy", requires = "queries")]
    vectors: Option<PathBuf>,
    /// Ask the vectors in a NumPy file
    #[arg(long, value_name = "FILE.npy", conflicts_with = "rows")]
    queries: Option<PathBuf>,
    /// Queries to ask at most
    #[arg(long, value_name = "N", default_value_t = QUERIES, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// The kind of index to build
    #[arg(long)]
    kind: Option<IndexKind>,
    /// How a stored value is coded
    #[arg(long)]
    element_type: Option<ElementType>,
    /// Keep the built index in this folder for the next time
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Efforts to search with, separated by commas; those that the kind offers if not given
    #[arg(long, value_delimiter = ',')]
    effort: Vec<Effort>,
    /// Search threads; 0 takes one a core
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    /// Queries asked one by one
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    singles: u32,
    /// Times that the batches are repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Draw recall against latency
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// With `--json`, tell the rows found
    #[arg(long, requires = "json")]
    hits: bool,
}

/// Dimensions that synthetic vectors can have.
pub fn dimensions(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (8..=65_536).contains(n)).ok_or_else(|| "expected a number from 8 to 65536".into())
}

/// What is measured.
struct Measurable {
    index: Box<dyn Index>,
    queries: Vectors,
    truth: Truth,
    kind: IndexKind,
    element_type: ElementType,
    connectivity: usize,
    built: Option<Built>,
}

/// What was measured, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    kind: IndexKind,
    element_type: ElementType,
    rows: u64,
    dimensions: usize,
    queries: usize,
    threads: usize,
    built: Option<Built>,
    footprint: Footprint,
    process: Process,
    limits: Limits,
    settings: Vec<Measured>,
}

/// Memory of the process in bytes, where the system tells it.
#[derive(Debug, Default, Serialize)]
struct Process {
    /// Of its own.
    anonymous: Option<u64>,
    /// Of mapped files, in the page cache.
    mapped: Option<u64>,
}

/// Measures and prints.
///
/// # Errors
/// A missing or damaged index, unreadable vectors, a folder that refuses.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let threads = args.threads.map_or(context.config.search.threads, usize::from);
    let temporary = tempfile::tempdir()?;
    let subject = match &args.index {
        Some(folder) => published(folder, &args, threads, context)?,
        None => built(&args, temporary.path(), threads, context)?,
    };
    let (rows, dimensions) = (subject.index.len(), subject.index.dimensions());
    let layout = Layout::of(subject.kind, subject.connectivity);
    let bench = Bench {
        queries: &subject.queries,
        truth: &subject.truth,
        limits: Limits::measure(layout, subject.element_type, dimensions)?,
        settings: Settings { threads, singles: args.singles as usize, rounds: args.rounds.into() },
        interrupt: &context.interrupt,
    };
    let chosen = if args.effort.is_empty() { efforts(subject.kind, rows, dimensions) } else { args.effort.clone() };
    let (progress, mut settings) = (context.progress(), Vec::new());
    for (done, effort) in chosen.iter().enumerate() {
        progress.show("measuring", "efforts", Progress { done: done as u64, total: Some(chosen.len() as u64) });
        settings.push(bench.measure(&*subject.index, *effort)?);
    }
    progress.finish();
    let report = Report {
        kind: subject.kind,
        element_type: subject.element_type,
        rows,
        dimensions,
        queries: subject.queries.len(),
        threads: if threads == 0 { bench.limits.cores } else { threads },
        footprint: layout.footprint(subject.element_type, rows, dimensions),
        process: Process::now(),
        limits: bench.limits,
        built: subject.built,
        settings,
    };
    if let Some(path) = &args.svg {
        let points = report.settings.iter().map(|m| (m.single.p50_ms, m.recall_10, m.effort.to_string())).collect();
        let name = format!("{} {}, {} x {dimensions}", report.kind, report.element_type, count(rows));
        write_whole(path, |sink| Ok(sink.write_all(picture(&name, points).as_bytes())?))?;
    }
    if context.json {
        let mut document = serde_json::to_value(&report)?;
        if args.hits {
            for (setting, measured) in document["settings"].as_array_mut().into_iter().flatten().zip(&report.settings) {
                let found = measured.hits.iter().map(|hits| hits.iter().map(|hit| hit.row).collect::<Vec<_>>());
                setting["hits"] = json!(found.collect::<Vec<_>>());
            }
        }
        return context.print_json(&document);
    }
    print(&report, context)
}

/// The index in a folder, held against its own stored vectors.
fn published(folder: &Path, args: &Args, threads: usize, context: &Context) -> Result<Measurable, Failure> {
    let generation = Generation::open_current(folder)?;
    let progress = context.progress();
    generation.verify(Depth::Structure, &|step| progress.show("checking", "bytes", step), &context.interrupt)?;
    progress.finish();
    let manifest = generation.manifest();
    // All shards, without what is deleted.
    let exact = Sharded::open_flat(generation.path(), manifest)?;
    let queries = match &args.queries {
        Some(path) => first(read_npy(path)?, args.count)?,
        None => {
            let largest = exact.parts().max_by_key(|(shard, _)| shard.rows).map(|(_, part)| part.matrix());
            mixed_rows(largest.unwrap_or_else(|| unreachable!("an index has a shard")), args.count as usize)?
        }
    };
    let truth = Truth::of_index(&exact, &queries, threads)?;
    Ok(Measurable {
        index: open_index(&generation, Effort::default())?,
        queries,
        truth,
        kind: manifest.kind,
        element_type: manifest.element_type,
        connectivity: manifest.graph.as_ref().map_or(0, |graph| graph.connectivity),
        built: None,
    })
}

/// An index of vectors alone, held against them in `f32`.
fn built(args: &Args, temporary: &Path, threads: usize, context: &Context) -> Result<Measurable, Failure> {
    let (source, queries) = match (&args.vectors, &args.queries) {
        (Some(vectors), Some(queries)) => (Source::Vectors(read_npy(vectors)?), first(read_npy(queries)?, args.count)?),
        _ => {
            let Some(rows) = args.rows else {
                let wanted = "an index folder, `--rows N`, or `--vectors FILE.npy --queries FILE.npy`";
                return Err(Failure::Usage(format!("nothing to measure: expected {wanted}")));
            };
            let synthetic = Synthetic::new(args.seed, args.dimensions)?;
            let queries = synthetic.queries(args.count as usize)?;
            (Source::Synthetic(synthetic, rows), queries)
        }
    };
    queries.check(source.dimensions(), "query", 0)?;
    let kind = args.kind.unwrap_or(context.config.index.kind);
    let element_type = args.element_type.unwrap_or(context.config.index.element_type);
    let work = args.work.clone().unwrap_or_else(|| temporary.into());
    let subject = Subject { work, source: &source, kind, element_type, threads };
    let progress = context.progress();
    let (index, built) = subject.open(&|step| progress.show("building", "vectors", step), &context.interrupt)?;
    let truth =
        subject.truth(&queries, &|step| progress.show("searching exactly", "vectors", step), &context.interrupt)?;
    progress.finish();
    let connectivity = hindsearch::indexes::HnswBuilder::default().connectivity;
    Ok(Measurable { index, queries, truth, kind, element_type, connectivity, built: Some(built) })
}

/// The first `count` vectors.
fn first(vectors: Vectors, count: u32) -> Result<Vectors, Failure> {
    let values = vectors.len().min(count as usize) * vectors.dimensions();
    Ok(Vectors::new(vectors.dimensions(), vectors.as_slice()[..values].to_vec())?)
}

impl Process {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let read = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
        };
        Self { anonymous: read("RssAnon:"), mapped: read("RssFile:") }
    }
}

fn print(report: &Report, context: &Context) -> Result<(), Failure> {
    let mut out = context.out();
    let Report { rows, dimensions, kind, element_type, limits, process, .. } = report;
    let (queries, threads) = (count(report.queries as u64), report.threads);
    writeln!(out, "{kind} {element_type}, {} x {dimensions}; {queries} queries, {threads} threads", count(*rows))?;
    if let Some(built) = &report.built {
        writeln!(out, "  built in {}, {} of processor time", duration(built.seconds), duration(built.cpu_seconds))?;
    }
    let told = |bytes_of: Option<u64>| bytes_of.map_or("unknown".into(), bytes);
    let footprint = &report.footprint;
    writeln!(
        out,
        "  memory: {} of the index needed, {} mapped as needed; this process {} of its own, {} of files",
        bytes(footprint.memory()),
        bytes(footprint.page_cache()),
        told(process.anonymous),
        told(process.mapped)
    )?;
    let kernel = limits.pair_ns.map_or("no scan".into(), |time| format!("{time:.2} ns a comparison on one core"));
    let gigabytes = |rate: f64| rate / 1e9;
    writeln!(
        out,
        "  this machine: {:.1} GB/s from memory, {:.1} with one core; {kernel}",
        gigabytes(limits.bandwidth),
        gigabytes(limits.core_bandwidth)
    )?;
    writeln!(
        out,
        "{:>14}  {:>6} {:>6} {:>6}  {:>9} {:>9} {:>9}  {:>9} {:>9}  {:>11} {:>9} {:>7}  bound by",
        "effort",
        "r@1",
        "r@3",
        "r@10",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "QPS",
        "CPU ms",
        "bytes/query",
        "bandwidth",
        "kernel"
    )?;
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
    for Measured { effort, recall_1, recall_3, recall_10, single, batch, .. } in &report.settings {
        let effort = effort.to_string();
        let read = batch.work.map_or("-".into(), |work| bytes(work.bytes as u64));
        let bound = match batch.bound {
            Bound::Memory => "memory",
            Bound::Compute => "compute",
            Bound::Latency => "latency",
        };
        writeln!(
            out,
            "{effort:>14}  {recall_1:>6.3} {recall_3:>6.3} {recall_10:>6.3}  {:>9.3} {:>9.3} {:>9.3}  {:>9.0} {:>9.3}  {read:>11} {:>9} {:>7}  {bound}",
            single.p50_ms,
            single.p99_ms,
            single.cpu_ms,
            batch.qps,
            batch.cpu_ms,
            share(batch.bandwidth_share),
            share(batch.kernel_share),
        )?;
    }
    writeln!(
        out,
        "p50, p99 and the first CPU: one query at a time; QPS and what follows: batches of 256, in shares of what this machine's \
         memory and the kernel give at best. Bound by latency: far from both, by what is done once for each query. \
         lists=16:100: 16 lists, and 100 candidates"
    )?;
    Ok(out.flush()?)
}
