//! `hindsearch env score RUN`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::score;
use serde_json::json;

use super::{Chosen, Context, Played, file_of, tell_missing, trajectories, with_tasks};
use crate::commands::write_whole;
use crate::failure::Failure;
use crate::output::harmless;

/// Score trajectories anew, without playing
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env score runs/qwen
  hindsearch env score runs/qwen --preset search-r1-v0.3 --out rescored.jsonl   # what another recipe would have paid")]
pub struct Args {
    /// The run's folder, or a file of trajectories
    run: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// Score as this recipe does; without it as each trajectory's own
    #[arg(long)]
    preset: Option<String>,
    /// Write the trajectories with their new rewards
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Sums of one data set.
#[derive(Default)]
struct Sum {
    count: u64,
    failed: u64,
    total: f64,
    terms: BTreeMap<String, f64>,
}

/// Prints mean rewards by data set.
///
/// # Errors
/// Unreadable trajectories or tasks, an unknown recipe, a file that cannot be written.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if let Some(path) = &args.out {
        let is_same = path
            .canonicalize()
            .is_ok_and(|out| file_of(&args.run).is_ok_and(|run| run.canonicalize().is_ok_and(|run| run == out)));
        if is_same || path.extension().is_some_and(|extension| extension == "zst") {
            return Err(Failure::Usage(format!(
                "`--out {}`: expected another file than the run's own, not compressed; name a new `.jsonl`",
                path.display()
            )));
        }
    }
    let set = args.chosen.read()?;
    let (mut all, missing) = with_tasks(trajectories(&args.run)?, set.tasks());
    tell_missing(missing, all.len(), context)?;
    let mut played = Played::of(&args.run, args.preset.as_deref())?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (task, trajectory) in &mut all {
        let rules = played.rules(trajectory)?;
        score(rules, task, trajectory);
        let sum = sums.entry(trajectory.source.clone()).or_default();
        let Some(reward) = &trajectory.reward else {
            sum.failed += 1;
            continue;
        };
        (sum.count, sum.total) = (sum.count + 1, sum.total + reward.total);
        for term in &reward.terms {
            *sum.terms.entry(term.name.clone()).or_default() += term.value;
        }
    }
    if let Some(path) = &args.out {
        write_whole(path, |sink| {
            all.iter().try_for_each(|(_, trajectory)| {
                serde_json::to_writer(&mut *sink, trajectory)?;
                Ok(writeln!(sink)?)
            })
        })?;
    }
    let mean = |sum: &Sum, value: f64| value / sum.count.max(1) as f64;
    if context.json {
        let entry = |(source, sum): (&String, &Sum)| {
            let terms: BTreeMap<_, _> = sum.terms.iter().map(|(name, value)| (name, mean(sum, *value))).collect();
            let facts =
                json!({ "episodes": sum.count, "failed": sum.failed, "reward": mean(sum, sum.total), "terms": terms });
            (source.clone(), facts)
        };
        return context.print_json(&sums.iter().map(entry).collect::<serde_json::Map<_, _>>());
    }
    let mut out = context.out();
    writeln!(out, "{:24} {:>9} {:>8} {:>8}  terms", "data set", "episodes", "failed", "reward")?;
    for (source, sum) in &sums {
        let terms = sum.terms.iter().map(|(name, value)| format!("{name} {:.4}", mean(sum, *value)));
        let terms = terms.collect::<Vec<_>>().join(", ");
        writeln!(
            out,
            "{:24} {:>9} {:>8} {:>8.4}  {terms}",
            harmless(source),
            sum.count,
            sum.failed,
            mean(sum, sum.total)
        )?;
    }
    out.flush()?;
    Ok(())
}
