//! `hindsearch inspect DIR`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::indexes::{Generation, Manifest};
use hindsearch::retriever::build::{Imported, Provenance};
use hindsearch::retriever::embed::Precision;

use super::Context;
use crate::failure::Failure;
use crate::output::{bytes, count, facts};

/// Show what an index holds and how it was made
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  hindsearch inspect sample\n  hindsearch inspect sample --json | jq .recall")]
pub struct Args {
    /// The index folder
    index: PathBuf,
}

/// Prints the manifest, or its facts.
///
/// # Errors
/// A missing or damaged index.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let generation = Generation::open_current(&args.index)?;
    if context.json {
        return context.print_json(generation.manifest());
    }
    let mut out = context.out();
    writeln!(out, "{}, generation {}", args.index.display(), generation.number())?;
    facts(&mut out, &describe(generation.manifest(), &Provenance::of(&generation)?))?;
    Ok(out.flush()?)
}

/// What people want to know about an index.
pub fn describe(manifest: &Manifest, provenance: &Provenance) -> Vec<(&'static str, String)> {
    let (card, graphs) = (&provenance.model.card, &provenance.model.fingerprint);
    let size: u64 = manifest.files.iter().map(|file| file.length).sum();
    let mut facts = vec![
        ("passages", count(manifest.rows)),
        ("vectors", format!("{} values, {}", manifest.dimensions, manifest.element_type)),
        ("index", kind(manifest)),
        ("model", format!("{} ({})", card.id, provenance.model.source)),
        ("graphs", format!("{} for queries, {} for passages", graphs.queries.file, graphs.passages.file)),
        ("prefixes", format!("{:?} and {:?}", card.query_prefix, card.passage_prefix)),
        ("pooling", format!("{:?}, at most {} tokens", card.pooling, card.max_length).to_lowercase()),
        (
            "corpus",
            format!("{} ({})", provenance.inputs.join(", "), provenance.corpus.blake3.get(..16).unwrap_or_default()),
        ),
        ("size", bytes(size)),
        ("made", format!("{} by {}", manifest.created, manifest.tool)),
    ];
    if let Some(imported) = &provenance.imported {
        facts.extend(origin(imported));
    }
    match &provenance.gate {
        Some(gate) => facts.push((
            "int8 gate",
            format!(
                "MRR@10 {:.3} for fp32, {:.3} with fp32 queries, {:.3} with int8 queries; {:.3} of fp32's hits",
                gate.mrr_fp32, gate.mrr_fp32_queries, gate.mrr_int8_queries, gate.overlap
            ),
        )),
        None if provenance.imported.is_none() && graphs.passages.precision == Precision::Int8 => {
            facts.push(("int8 gate", "not measured: the model has no fp32 graph to hold it against".into()));
        }
        None => {}
    }
    facts
}

/// Where imported vectors come from.
fn origin(imported: &Imported) -> [(&'static str, String); 2] {
    let (values, pairing) = (&imported.values, &imported.pairing);
    [
        ("imported", format!("{}: {}", imported.files.join(", "), imported.format)),
        (
            "fit",
            format!(
                "cosine at least {:.5} on {} passages embedded again; lengths {:.4} to {:.4}; {:.2} % of values exact in f16",
                pairing.least_cosine,
                pairing.passages,
                values.least_norm,
                values.greatest_norm,
                100.0 * values.share_exact_f16()
            ),
        ),
    ]
}

fn kind(manifest: &Manifest) -> String {
    match (&manifest.graph, &manifest.recall) {
        (Some(graph), Some(recall)) => format!(
            "hnsw, M {}, ef {}: recall@{} {:.4} on {} held-out queries (floor {})",
            graph.connectivity, graph.expansion_search, recall.top_k, recall.value, recall.queries, recall.floor
        ),
        _ => "flat, exact".into(),
    }
}
