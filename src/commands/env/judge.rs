//! `hindsearch env judge RUN --judge URL --model M`.

use std::path::PathBuf;

use super::{Chosen, Context};
use crate::failure::Failure;

/// Let a language model judge answers
#[derive(clap::Args)]
#[command(after_help = "\
The run's folder gets `verdicts.jsonl`; verdicts that are there are not asked for again. The server's token is read from
OPENAI_API_KEY.

Examples:
  hindsearch env judge runs/qwen --judge http://127.0.0.1:8002/v1 --model Qwen/Qwen2.5-32B-Instruct")]
pub struct Args {
    /// The run's folder, or its file
    run: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// The address of an OpenAI-compatible server
    #[arg(long, value_name = "URL")]
    judge: String,
    /// The model's name there
    #[arg(long)]
    model: String,
    /// Requests at a time
    #[arg(long, default_value = "16")]
    parallel: std::num::NonZero<usize>,
}

/// Asks the judge about each answer, and prints the share that it finds correct.
///
/// # Errors
/// Unreadable trajectories or tasks, a server that does not answer.
#[cfg(feature = "remote")]
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    use std::io::Write;
    use std::path::Path;

    use hindsearch::env::{Endpoint, Judge, Judging};
    use serde_json::json;

    use super::{tell_missing, trajectories, with_tasks};

    let set = args.chosen.read()?;
    let (all, missing) = with_tasks(trajectories(&args.run)?, set.tasks());
    tell_missing(missing, all.len(), context)?;
    let judge = Judge::new(Endpoint::from_environment(&args.judge)?, args.model);
    let folder = if args.run.is_dir() { &*args.run } else { args.run.parent().unwrap_or(Path::new("")) };
    let path = folder.join("verdicts.jsonl");
    let judging = Judging { judge: &judge, parallel: args.parallel };
    let progress = context.progress();
    let show = |done| progress.show("judging", "answers", done);
    let outcome = judging.run(&all, &path, &show, &context.interrupt);
    progress.finish();
    let told = outcome?;
    let counted = told.correct + told.incorrect;
    let share = (counted > 0).then(|| told.correct as f64 / counted as f64);
    if context.json {
        return context.print_json(&json!({
            "verdicts": path.display().to_string(), "correct": told.correct, "incorrect": told.incorrect,
            "unreadable": told.unreadable, "share": share,
        }));
    }
    let mut out = context.out();
    writeln!(
        out,
        "{} correct, {} not{}; `{}`",
        told.correct,
        told.incorrect,
        share.map_or(String::new(), |share| format!(", a share of {share:.4}")),
        path.display()
    )?;
    if told.unreadable > 0 {
        let expected = "expected a line with `VERDICT: correct` or `VERDICT: incorrect`; see `said` there";
        writeln!(out, "{} more were in no form that counts: {expected}", told.unreadable)?;
    }
    out.flush()?;
    Ok(())
}

/// Says that it cannot.
///
/// # Errors
/// Always.
#[cfg(not(feature = "remote"))]
pub fn run(args: Args, _context: &Context) -> Result<(), Failure> {
    Err(Failure::Usage(format!("`--judge {}`: this program is built without `remote`", args.judge)))
}
