//! `hindsearch env replay RUN --index INDEX`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::{Trajectory, replay};
use hindsearch::indexes::{ErrorKind, Progress};
use serde_json::json;

use super::{Chosen, Context, Played, retriever, tell_missing, trajectories, with_tasks};
use crate::failure::Failure;
use crate::output::{count, harmless};

/// Play trajectories again and compare
#[derive(clap::Args)]
#[command(after_help = "Examples:
  hindsearch env replay runs/oracle --index sample")]
pub struct Args {
    /// The run's folder, or a file of trajectories
    run: PathBuf,
    /// The index folder, or the address of a server
    #[arg(long)]
    index: String,
    #[command(flatten)]
    chosen: Chosen,
    /// The recipe, where it is one of a file
    #[arg(long)]
    preset: Option<String>,
}

/// Says the same messages again, searches anew, and compares byte for byte. Exit code 5 where something differs.
///
/// # Errors
/// Unreadable trajectories or tasks, an unknown recipe, a missing index, trajectories that differ.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let set = args.chosen.read()?;
    let (all, missing) = with_tasks(trajectories(&args.run)?, set.tasks());
    tell_missing(missing, all.len(), context)?;
    let retriever = retriever(&args.index, context)?;
    let progress = context.progress();
    let (mut same, mut failed, mut different) = (0u64, 0u64, Vec::new());
    let mut played = Played::of(&args.run, args.preset.as_deref())?;
    for (at, (task, trajectory)) in all.iter().enumerate() {
        context.interrupt.check().map_err(hindsearch::retriever::Error::from)?;
        // One that something outside kept from its end has none to compare.
        if trajectory.error.is_some() {
            failed += 1;
            continue;
        }
        let expected = Trajectory { critique: None, ..trajectory.clone() };
        let again = replay(played.rules(trajectory)?, task, &*retriever, trajectory)?;
        // As the file would have it: numbers are read a hair otherwise than they were written.
        let again: Trajectory = serde_json::from_str(&serde_json::to_string(&again)?)?;
        // Tokens of what the environment said are the trainer's to add.
        if again == expected {
            same += 1;
        } else {
            different.push(format!("{} sample {}", trajectory.task, trajectory.sample));
        }
        progress.show("replaying", "episodes", Progress { done: at as u64 + 1, total: Some(all.len() as u64) });
    }
    progress.finish();
    if context.json {
        context.print_json(&json!({ "same": same, "failed": failed, "different": different }))?;
    } else {
        let mut out = context.out();
        let others = count(different.len() as u64);
        writeln!(out, "{} trajectories came out the same, {others} did not; {failed} had failed outside", count(same))?;
        different.iter().take(20).try_for_each(|one| writeln!(out, "  {}", harmless(one)))?;
        out.flush()?;
    }
    if different.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(
        ErrorKind::Incompatible,
        "some trajectories came out otherwise; is it the same index, and the same recipe?".into(),
    ))
}
