//! `hindsearch env rollout INDEX --policy P --out RUN`.

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use hindsearch::env::{Rollout, RolloutOptions, TRAJECTORIES, TrajectoryLog};
use serde_json::json;

use super::player::{Drawing, Player};
use super::{Chosen, Context, describe, number, place, rules, telling_of_the_wait};
use crate::commands::experience::Guidance;
use crate::failure::Failure;
use crate::output::{count, harmless};

/// Let a policy play many episodes
#[derive(clap::Args)]
#[command(after_help = "\
The run's folder gets `trajectories.jsonl`, to which lines are only added, and `run.json`. The same command goes on with a run
that was stopped. A model server's token is read from OPENAI_API_KEY.

Examples:
  hindsearch env rollout sample --policy oracle --out runs/oracle
  hindsearch env rollout sample --policy http://127.0.0.1:8001/v1 --model Qwen/Qwen2.5-3B --samples 5 --out runs/qwen
  hindsearch env rollout http://127.0.0.1:8000 --policy guesser --tasks nq_test.jsonl --preset search-r1 --out runs/guess")]
pub struct Args {
    /// The index folder, or addresses of servers, separated by commas
    index: String,
    /// The run's folder
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    #[command(flatten)]
    player: Player,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    guidance: Guidance,
    /// The recipe: a name (`hindsearch env presets`), or a file
    #[arg(long, default_value = "hindsearch")]
    preset: String,
    /// Plays of each task
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    samples: u32,
    /// Sampling temperature; 0 is greedy
    #[arg(long, default_value_t = 1.0, value_parser = temperature)]
    temperature: f64,
    /// Nucleus
    #[arg(long, default_value_t = 1.0, value_parser = top_p)]
    top_p: f64,
    /// Compress the trajectories
    #[arg(long)]
    zstd: bool,
}

/// Plays, and prints what came of it.
///
/// # Errors
/// Unreadable tasks, an unknown recipe, a missing index, a run's folder of another run. What fails while episodes are played is
/// told in their trajectories.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let rules = rules(&args.preset)?;
    let set = args.chosen.read()?;
    let drawing = Drawing { temperature: args.temperature, top_p: args.top_p };
    let policy = args.player.open(set.tasks(), drawing)?;
    let place = place(&args.index, context)?;
    let guide = args.guidance.open(place.embedder.as_ref(), context)?;
    let mut facts = args.player.facts(drawing);
    facts["preset"] = json!(&**rules.preset());
    facts["index"] = json!(args.index);
    facts["seed"] = json!(args.chosen.seed);
    facts["experience"] = args.guidance.facts(guide.as_ref());
    describe(&args.out, facts)?;
    let [plain, packed] = TRAJECTORIES.map(|name| args.out.join(name));
    let (path, other) = if args.zstd { (packed, plain) } else { (plain, packed) };
    if other.exists() {
        return Err(Failure::Usage(format!(
            "the run there is kept in `{}`; {} `--zstd`, or name another `--out`",
            other.display(),
            if args.zstd { "leave out" } else { "add" }
        )));
    }
    let mut log = TrajectoryLog::open(&path)?;
    let options = RolloutOptions {
        samples: NonZero::new(args.samples).unwrap_or(NonZero::<u32>::MIN),
        parallel: args.player.parallel(),
        seed: args.chosen.seed,
        ..RolloutOptions::default()
    };
    let rollout =
        Rollout { rules: &rules, retriever: &*place.retriever, policy: &*policy, guide: guide.as_ref(), options };
    let (progress, start) = (context.progress(), Instant::now());
    let show = |done| progress.show("playing", "episodes", done);
    let outcome = telling_of_the_wait(context, || rollout.run(set.tasks(), &mut log, &show, &context.interrupt));
    progress.finish();
    let summary = outcome?;
    if let (0, 0, Some(failure)) = (summary.played, summary.resumed, &summary.failure) {
        return Err(Failure::Verdict(
            hindsearch::indexes::ErrorKind::Unavailable,
            format!("none of {} episodes came to its end; the first failure: {failure}", summary.failed),
        ));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mean = (summary.played > 0).then(|| summary.reward / summary.played as f64);
    if context.json {
        return context.print_json(&json!({
            "trajectories": path.display().to_string(), "played": summary.played, "resumed": summary.resumed,
            "failed": summary.failed, "failure": summary.failure, "mean_reward": mean, "searches": summary.searches, "messages": summary.messages,
            "seconds": seconds,
        }));
    }
    let mut out = context.out();
    writeln!(
        out,
        "{} episodes played ({} were there), {} failed outside and have no reward{}; {seconds:.1} s",
        count(summary.played),
        count(summary.resumed),
        count(summary.failed),
        mean.map_or(String::new(), |mean| format!("; mean reward of those played now {mean:.4}")),
    )?;
    if let Some(failure) = &summary.failure {
        writeln!(out, "the first failure: {}", harmless(failure))?;
    }
    writeln!(out, "`{}`; look at it with `hindsearch view {}`", path.display(), args.out.display())?;
    out.flush()?;
    Ok(())
}

fn temperature(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=100.0).contains(&value), "a number from 0 to 100")
}

fn top_p(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1.0, "a number above 0, up to 1")
}
