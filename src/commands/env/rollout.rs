//! `hindsearch env rollout INDEX --policy P --out RUN`.

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hindsearch::env::policy::{Guesser, Oracle, Policy};
use hindsearch::env::{Rollout, RolloutOptions, TRAJECTORIES, Task, TrajectoryLog};
use serde_json::json;

use super::{Chosen, Context, DESCRIPTION, description, number, retriever, rules};
use crate::commands::write_whole;
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
    /// Who plays: the address of an OpenAI-compatible server, `oracle` (is told the answers) or `guesser`
    #[arg(long)]
    policy: String,
    /// The model's name on that server
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    chosen: Chosen,
    /// The recipe: a name (`hindsearch env presets`), or a file
    #[arg(long, default_value = "hindsearch")]
    preset: String,
    /// Plays of each task
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    samples: u32,
    /// Episodes under way at a time
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    parallel: u32,
    /// Sampling temperature; 0 is greedy
    #[arg(long, default_value_t = 1.0, value_parser = temperature)]
    temperature: f64,
    /// Nucleus
    #[arg(long, default_value_t = 1.0, value_parser = top_p)]
    top_p: f64,
    /// Continue text instead of a chat, for models without a chat template
    #[arg(long)]
    completions: bool,
    /// Send the server only what OpenAI's own knows
    #[arg(long)]
    plain: bool,
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
    let policy = policy(&args, set.tasks())?;
    let retriever = retriever(&args.index, context)?;
    std::fs::create_dir_all(&args.out).map_err(hindsearch::indexes::Error::io("create", &args.out))?;
    describe(&args, rules.preset())?;
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
        parallel: NonZero::new(args.parallel as usize).unwrap_or(NonZero::<usize>::MIN),
        seed: args.chosen.seed,
        ..RolloutOptions::default()
    };
    let rollout = Rollout { rules: &rules, retriever: &*retriever, policy: &*policy, guide: None, options };
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

fn policy(args: &Args, tasks: &[Task]) -> Result<Box<dyn Policy>, Failure> {
    match args.policy.as_str() {
        "oracle" => Ok(Box::new(Oracle::new(tasks))),
        "guesser" => Ok(Box::new(Guesser)),
        other if !other.starts_with("http://") && !other.starts_with("https://") => Err(Failure::Usage(format!(
            "`--policy {other}`: expected `oracle`, `guesser`, or the address of a server such as http://127.0.0.1:8001/v1"
        ))),
        #[cfg(feature = "remote")]
        address => {
            use hindsearch::env::Endpoint;
            use hindsearch::env::policy::{ChatServer, ChatServerOptions};
            let Some(model) = args.model.clone() else {
                return Err(Failure::Usage(format!("`--policy {address}` needs `--model`, the model's name there")));
            };
            let options = ChatServerOptions {
                model,
                completions: args.completions,
                extensions: !args.plain,
                temperature: args.temperature,
                top_p: args.top_p,
                callers: args.parallel as usize,
            };
            Ok(Box::new(ChatServer::new(Endpoint::from_environment(address)?, options)))
        }
        #[cfg(not(feature = "remote"))]
        other => Err(Failure::Usage(format!("`--policy {other}`: this program is built without `remote`"))),
    }
}

/// Says, once, that answers are waited for after a wish to stop.
fn telling_of_the_wait<T>(context: &Context, work: impl FnOnce() -> T) -> T {
    const LOOK: Duration = Duration::from_millis(100);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut waited = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                waited += u32::from(context.interrupt.check().is_err());
                if waited == 10 && !context.quiet {
                    let words = "waiting for answers that are under way; stop again to leave without them";
                    let _ = writeln!(std::io::stderr(), "{words}");
                }
            }
        });
        let outcome = work();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome
    })
}

/// Writes down how the run is played; a run that was begun otherwise is not gone on with.
fn describe(args: &Args, preset: &hindsearch::env::Preset) -> Result<(), Failure> {
    let path = args.out.join(DESCRIPTION);
    let new = json!({
        "version": env!("CARGO_PKG_VERSION"), "preset": preset, "policy": args.policy, "model": args.model, "index": args.index,
        "seed": args.chosen.seed, "temperature": args.temperature, "top_p": args.top_p, "completions": args.completions,
        "plain": args.plain,
    });
    // A run in which nothing was played is none.
    let is_empty = |name: &&str| !args.out.join(name).metadata().is_ok_and(|facts| facts.len() > 0);
    let known = if TRAJECTORIES.iter().all(is_empty) { None } else { description(&args.out)? };
    let Some(known) = known else {
        return write_whole(&path, |sink| {
            serde_json::to_writer_pretty(&mut *sink, &new)?;
            Ok(writeln!(sink)?)
        });
    };
    // As it is read from the file: numbers are read a hair otherwise than they were written.
    let new: serde_json::Value = serde_json::from_str(&new.to_string())?;
    let keys = ["preset", "policy", "model", "index", "seed", "temperature", "top_p", "completions", "plain"];
    keys.iter().find(|key| known[**key] != new[**key]).map_or(Ok(()), |key| {
        Err(Failure::Usage(format!(
            "`{}`: the run there was begun with another `{key}`; name another `--out`, or begin it again in the same way",
            path.display()
        )))
    })
}

fn temperature(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=100.0).contains(&value), "a number from 0 to 100")
}

fn top_p(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1.0, "a number above 0, up to 1")
}
