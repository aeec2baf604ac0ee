//! `hindsearch inspect DIR`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::indexes::{Effort, Generation, IndexKind, Manifest, Recall};
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
        ("passages", passages(manifest)),
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
    facts.extend(calibration(manifest).map(|settings| ("recall@10", settings)));
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

/// How many there are, and in how many shards where rows are spread or deleted.
fn passages(manifest: &Manifest) -> String {
    let shards: Vec<String> = manifest.shard_rows.iter().map(|rows| count(*rows)).collect();
    let mut text = count(manifest.live_rows());
    if !shards.is_empty() {
        text += &format!(", in {} shards of {} rows", shards.len(), shards.join(" + "));
    }
    if manifest.deleted > 0 {
        text += &format!(", {} rows deleted", count(manifest.deleted));
    }
    text
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
    let measured = manifest.recall.as_ref().map_or(String::new(), |recall| {
        let Recall { top_k, value, queries, floor } = recall;
        format!(": recall@{top_k} {value:.4} on {queries} held-out queries (floor {floor})")
    });
    match (manifest.kind, &manifest.graph) {
        (IndexKind::Hnsw, Some(graph)) => {
            format!("hnsw, M {}, ef {}{measured}", graph.connectivity, graph.expansion_search)
        }
        (IndexKind::Quantized, _) => format!("quantized{measured}"),
        _ => "flat, exact".into(),
    }
}

/// What the recalls that people ask for take.
fn calibration(manifest: &Manifest) -> Option<String> {
    let setting = |wanted: f64| {
        let enough = manifest.calibration.iter().find(|setting| setting.recall_10 >= wanted)?;
        Some(format!("{wanted} by {} lists and {} candidates", enough.probes, enough.candidates))
    };
    let settings: Vec<String> = [0.9, 0.95, Effort::DEFAULT_RECALL, 0.99].into_iter().filter_map(setting).collect();
    (!settings.is_empty()).then(|| settings.join(", "))
}
