//! `hindsearch env score RUN`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::{Verdicts, score, trajectories_file};
use serde_json::json;

use super::{Chosen, Context, Played, number, tell_missing, trajectories, with_tasks};
use crate::commands::write_whole;
use crate::failure::Failure;
use crate::output::{count, harmless};

/// Score trajectories anew, without playing
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env score runs/qwen
  hindsearch env score runs/qwen --preset search-r1-v0.3 --out rescored.jsonl   # what another recipe would have paid
  hindsearch env score runs/qwen --verdicts runs/qwen/verdicts.jsonl --judge-weight 0.5 --out judged.jsonl")]
pub struct Args {
    /// The run's folder, or a file of trajectories
    run: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// Score as this recipe does; without it as each trajectory's own
    #[arg(long)]
    preset: Option<String>,
    /// Add a term `judge` to each reward, 1 for an answer that is correct by these verdicts and 0 for another one (the file that
    /// `env judge` writes); a trajectory without a verdict has no reward
    #[arg(long, value_name = "FILE")]
    verdicts: Option<PathBuf>,
    /// The judge's model, where the file holds verdicts of several
    #[arg(long, value_name = "NAME", requires = "verdicts")]
    judge_model: Option<String>,
    /// What the term `judge` is multiplied with
    #[arg(long, value_name = "W", requires = "verdicts", default_value_t = 1.0, allow_negative_numbers = true, value_parser = weight)]
    judge_weight: f64,
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
        let is_same = path.canonicalize().is_ok_and(|out| {
            trajectories_file(&args.run).is_ok_and(|run| run.canonicalize().is_ok_and(|run| run == out))
        });
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
    let verdicts =
        args.verdicts.as_deref().map(|path| Verdicts::read(path, args.judge_model.as_deref())).transpose()?;
    let mut unjudged = 0u64;
    let mut played = Played::of(&args.run, args.preset.as_deref())?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (task, trajectory) in &mut all {
        let rules = played.rules(trajectory)?;
        score(rules, task, trajectory);
        if let Some(verdicts) = &verdicts {
            unjudged += u64::from(verdicts.add_to(trajectory, args.judge_weight));
        }
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
    if let (Some(verdicts), 1..) = (&verdicts, unjudged) {
        let advice = "they have no reward; `hindsearch env judge` asks for what is missing";
        context.tell(format_args!(
            "{} trajectories have no verdict of `{}`; {advice}",
            count(unjudged),
            harmless(verdicts.judge())
        ));
    }
    if let Some(path) = &args.out {
        write_whole(path, |sink| {
            all.iter().try_for_each(|(_, trajectory)| {
                serde_json::to_writer(&mut *sink, trajectory)?;
                Ok(writeln!(sink)?)
            })
        })?;
        context.tell(format_args!("wrote {} trajectories to `{}`", count(all.len() as u64), path.display()));
    }
    // Of no episodes there is no mean.
    let mean = |sum: &Sum, value: f64| (sum.count > 0).then(|| value / sum.count as f64);
    let shown = |mean: Option<f64>| mean.map_or("-".into(), |mean| format!("{mean:.4}"));
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
        let terms = sum.terms.iter().map(|(name, value)| format!("{name} {}", shown(mean(sum, *value))));
        let terms = terms.collect::<Vec<_>>().join(", ");
        writeln!(
            out,
            "{:24} {:>9} {:>8} {:>8}  {terms}",
            harmless(source),
            sum.count,
            sum.failed,
            shown(mean(sum, sum.total))
        )?;
    }
    out.flush()?;
    Ok(())
}

fn weight(text: &str) -> Result<f64, String> {
    number(text, |value| (-1e6..=1e6).contains(&value), "a number between -1,000,000 and 1,000,000")
}
