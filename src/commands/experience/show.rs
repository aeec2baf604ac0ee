//! `hindsearch experience show FILE`.

use std::io::{self, Write};
use std::path::PathBuf;

use hindsearch::env::experience::{Entry, Experience, Nearness};
use serde_json::json;

use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{count, facts, harmless};

/// Show what an experience file holds
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch experience show experience.jsonl
  hindsearch experience show experience.jsonl --level 2 --limit 100
  hindsearch experience show experience.jsonl --json | jq .entries[].title")]
pub struct Args {
    /// The file
    file: PathBuf,
    /// Only entries of this level
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    level: Option<u8>,
    /// The first so many of each level; 0 for all
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
}

/// Prints how it was made and its entries, the highest level first; with `--json` all of them.
///
/// # Errors
/// A file that cannot be read.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let experience = Experience::read(&args.file)?;
    let entries: Vec<&Entry> =
        experience.entries().iter().filter(|entry| args.level.is_none_or(|level| level == entry.level)).collect();
    if context.json {
        return context.print_json(&json!({
            "embedder": experience.embedder, "reflector": experience.reflector, "groups": experience.groups,
            "dropped": experience.dropped, "levels": experience.levels, "nearness": experience.nearness, "entries": entries,
        }));
    }
    let mut out = context.out();
    facts(
        &mut out,
        &[
            ("embedder", experience.embedder.clone()),
            ("written by", experience.reflector.clone()),
            ("tasks", format!("{}, of which {} taught nothing", experience.groups, experience.dropped)),
        ],
    )?;
    writeln!(out, "  level 1  {} cases", count(experience.count(1) as u64))?;
    levels(&mut out, &experience)?;
    for level in (1..=3).rev() {
        let own: Vec<&&Entry> = entries.iter().filter(|entry| entry.level == level).collect();
        let shown = if args.limit == 0 { own.len() } else { args.limit };
        for entry in own.iter().take(shown) {
            let from = if level == 1 {
                if entry.contrast { "both outcomes".to_owned() } else { "one outcome".to_owned() }
            } else {
                format!("of {} entries, {} tasks", entry.members.len(), entry.tasks.len())
            };
            writeln!(out, "\nE{level} {}  {} ({from})", harmless(&entry.id), harmless(&entry.kind))?;
            writeln!(out, "  when  {}", harmless(&entry.title))?;
            writeln!(out, "  do    {}", harmless(&entry.description))?;
        }
        if own.len() > shown {
            writeln!(out, "\n… {} more of level {level}", count((own.len() - shown) as u64))?;
        }
    }
    Ok(out.flush()?)
}

/// How the levels above the first were made, and how near queries are to cases.
pub(super) fn levels(out: &mut dyn Write, experience: &Experience) -> io::Result<()> {
    for level in &experience.levels {
        let name = if level.level == 2 { "patterns" } else { "strategies" };
        writeln!(
            out,
            "  level {}  {} {name} of {} clusters, {:.1} entries each, {} alone; Ward's height {:.4}{}",
            level.level,
            experience.count(level.level),
            level.clusters,
            level.mean_size,
            level.singletons,
            level.threshold,
            if level.calibrated { ", calibrated" } else { "" }
        )?;
    }
    if let Some(Nearness { queries, half, quarter, tenth }) = experience.nearness {
        writeln!(
            out,
            "  {} queries of the plays: half of them come to a cosine of {half:.2} or more with a case of another task, a quarter to \
             {quarter:.2}, a tenth to {tenth:.2}",
            count(queries as u64)
        )?;
    }
    Ok(())
}
