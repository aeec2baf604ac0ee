//! `hindsearch plan N D`.

use std::io::Write;

use hindsearch::indexes::measure::Limits;
use hindsearch::indexes::{ElementType, Forecast, Held, Layout};
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::{bytes, count, duration};

/// Tell what an index of so many vectors takes, and how fast it can be on this machine
#[derive(clap::Args)]
#[command(after_help = "\
Sizes follow from the format; times from the memory's bandwidth and the kernels' speed, which are measured in about a second. Times
are floors: choosing among scores comes on top, and so do pages that are not in memory. Embedding is not included; `hindsearch build
--dry-run` measures it.

Examples:
  hindsearch plan 21015324 768
  hindsearch plan 1000000 384 --kind hnsw --element-type i8 --json")]
pub struct Args {
    /// Number of vectors
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    rows: u64,
    /// Values in a vector
    #[arg(value_name = "D", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dimensions: u32,
    /// `flat`, `hnsw` or `quantized`; all of them if not given
    #[arg(long)]
    kind: Option<Layout>,
    /// How a stored value is coded: `f32`, `f16`, `i8` or `i16`
    #[arg(long)]
    element_type: Option<ElementType>,
}

/// Prints the plan.
///
/// # Errors
/// No place for a small temporary file.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let element_type = args.element_type.unwrap_or(context.config.index.element_type);
    let dimensions = args.dimensions as usize;
    let connectivity = context.config.index.connectivity;
    let kinds = match args.kind {
        Some(Layout::Hnsw { .. }) => vec![Layout::Hnsw { connectivity }],
        Some(kind) => vec![kind],
        None => vec![Layout::Quantized, Layout::Hnsw { connectivity }, Layout::Flat],
    };
    let mut plans = Vec::new();
    for kind in kinds {
        let limits = Limits::measure(kind, element_type, dimensions)?;
        plans.push((kind, limits, Forecast::new(kind, element_type, args.rows, dimensions, &limits)));
    }
    if context.json {
        let plan = |(kind, limits, forecast): &(Layout, Limits, Forecast)| {
            json!({
                "kind": kind.to_string(), "limits": limits, "disk": forecast.footprint.disk(), "memory": forecast.footprint.memory(),
                "page_cache": forecast.footprint.page_cache(), "forecast": forecast,
            })
        };
        return context.print_json(&json!({
            "rows": args.rows, "dimensions": dimensions, "element_type": element_type,
            "plans": plans.iter().map(plan).collect::<Vec<_>>(),
        }));
    }
    let mut out = context.out();
    writeln!(out, "{} vectors of {dimensions} values, stored as {element_type}", count(args.rows))?;
    for (kind, limits, forecast) in &plans {
        let footprint = &forecast.footprint;
        writeln!(out, "{kind}")?;
        writeln!(out, "  memory      {}", bytes(footprint.memory()))?;
        writeln!(out, "  page cache  {} at most, where there is memory for it", bytes(footprint.page_cache()))?;
        writeln!(out, "  disk        {}, and the passages", bytes(footprint.disk()))?;
        for file in &footprint.files {
            let held = if file.held == Held::Needed { "in memory" } else { "mapped" };
            writeln!(out, "    {:12}{:>10}  {held}", file.name, bytes(file.bytes))?;
        }
        let cores = limits.cores;
        writeln!(out, "  build       {} on {cores} cores, after the embedding", duration(forecast.build_seconds))?;
        for gear in &forecast.gears {
            let (ms, qps) = (gear.single_ms, gear.batch_qps);
            writeln!(out, "  {:12}{ms:.2} ms a query alone, {qps:.0} queries/s in batches of 256", gear.name)?;
        }
    }
    if let Some((_, limits, _)) = plans.first() {
        writeln!(
            out,
            "times are floors, by the {:.1} GB/s from memory that were measured now on {} cores",
            limits.bandwidth / 1e9,
            limits.cores
        )?;
    }
    Ok(out.flush()?)
}
