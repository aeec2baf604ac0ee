//! `hindsearch env replay RUN --index INDEX`.

use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::replay;
use hindsearch::indexes::{ErrorKind, Progress};
use serde_json::json;

use super::{Chosen, Context, retriever, rules, tell_missing, trajectories, with_tasks};
use crate::failure::Failure;
use crate::output::count;

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
    let set = args.chosen.read(0)?;
    let (all, missing) = with_tasks(trajectories(&args.run)?, set.tasks());
    tell_missing(missing, context);
    let retriever = retriever(&args.index, context)?;
    let progress = context.progress();
    let (mut same, mut different) = (0u64, Vec::new());
    let mut known = std::collections::HashMap::new();
    for (at, (task, trajectory)) in all.iter().enumerate() {
        context.interrupt.check().map_err(hindsearch::retriever::Error::from)?;
        let name = args.preset.as_deref().unwrap_or(&trajectory.preset);
        if !known.contains_key(name) {
            known.insert(name.to_owned(), rules(name)?);
        }
        let mut expected = trajectory.clone();
        (expected.error, expected.critique) = (None, None);
        let again = replay(&known[name], task, &*retriever, trajectory)?;
        // Tokens of what the environment said are the trainer's to add.
        if again == expected {
            same += 1;
        } else {
            different.push(format!("{} sample {}", trajectory.task, trajectory.sample));
        }
        progress.show("replaying", "episodes/s", Progress { done: at as u64 + 1, total: Some(all.len() as u64) });
    }
    progress.finish();
    if context.json {
        context.print_json(&json!({ "same": same, "different": different }))?;
    } else {
        let mut out = context.out();
        writeln!(out, "{} trajectories came out the same, {} did not", count(same), count(different.len() as u64))?;
        different.iter().take(20).try_for_each(|one| writeln!(out, "  {one}"))?;
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
