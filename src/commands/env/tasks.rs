//! `hindsearch env tasks`: which tasks there are, and files of them for other programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::tasks::{self as sets, Format};
use serde_json::json;

use super::{Chosen, Context, read_tasks, rules};
use crate::failure::Failure;
use crate::output::{count, harmless};

/// List, choose and convert tasks
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env tasks
  hindsearch env tasks --tasks nq_test.jsonl --draw 500 --seed 1 --preset search-r1 --to search-r1 --out train.parquet
  hindsearch env tasks --tasks train.parquet --overlap nq_test.jsonl")]
pub struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// Write them in this format: flashrag, search-r1, verl, skyrl, asearcher, nemo-gym, beir, plain
    #[arg(long, value_name = "FORMAT", requires = "out")]
    to: Option<Format>,
    /// The file
    #[arg(long, value_name = "FILE", requires = "to")]
    out: Option<PathBuf>,
    /// The recipe whose prompt is written with them
    #[arg(long)]
    preset: Option<String>,
    /// Tell which tasks also occur in this file (or in `sample`, the built-in set), as a question of the same words
    #[arg(long, value_name = "FILE")]
    overlap: Option<PathBuf>,
}

/// Prints how many there are of each data set and the first questions, or writes them down. Accepted answers are shown nowhere.
///
/// # Errors
/// Unreadable tasks, a file that cannot be written.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let set = args.chosen.read()?;
    if let (Some(format), Some(path)) = (args.to, &args.out) {
        let rules = args.preset.as_deref().map(rules).transpose()?;
        sets::write(path, set.tasks(), format, rules.as_ref())?;
        context.tell(format_args!("wrote {} tasks to `{}`", count(set.tasks().len() as u64), path.display()));
    }
    let other = args.overlap.map(|path| read_tasks(&[path])).transpose()?;
    let overlap = other.as_ref().map(|other| set.overlap(other));
    let mut sources: BTreeMap<&str, u64> = BTreeMap::new();
    for task in set.tasks() {
        *sources.entry(task.source()).or_default() += 1;
    }
    if context.json {
        let overlap = overlap.as_ref().map(|pairs| pairs.iter().map(|(task, _)| task.id()).collect::<Vec<_>>());
        return context.print_json(&json!({
            "tasks": set.tasks().len(), "duplicates": set.duplicates().len(), "sources": sources, "overlap": overlap,
        }));
    }
    let mut out = context.out();
    writeln!(out, "{} tasks, {} more were there twice", count(set.tasks().len() as u64), set.duplicates().len())?;
    for (source, tasks) in sources {
        writeln!(out, "  {:24} {}", harmless(source), count(tasks))?;
    }
    match overlap {
        Some(pairs) => {
            writeln!(out, "{} also occur there", count(pairs.len() as u64))?;
            pairs.iter().take(20).try_for_each(|(task, _)| writeln!(out, "  {}", harmless(task.question())))?;
        }
        None => {
            set.tasks()
                .iter()
                .take(5)
                .try_for_each(|task| writeln!(out, "  {}  {}", task.id(), harmless(task.question())))?;
        }
    }
    out.flush()?;
    Ok(())
}
