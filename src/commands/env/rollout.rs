//! `hindsearch env rollout INDEX --policy P --out RUN`.

use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hindsearch::env::policy::{Guesser, Oracle, Policy};
use hindsearch::env::{Rollout, RolloutOptions, Task, TrajectoryLog};
use serde_json::json;

use super::{Chosen, Context, TRAJECTORIES, retriever, rules};
use crate::commands::write_whole;
use crate::failure::Failure;
use crate::output::count;

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
    #[arg(long, default_value = "1")]
    samples: NonZero<u32>,
    /// Episodes under way at a time
    #[arg(long, default_value = "64")]
    parallel: NonZero<usize>,
    /// Where all seeds come from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sampling temperature; 0 is greedy
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Nucleus
    #[arg(long, default_value_t = 1.0)]
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
    let set = args.chosen.read(args.seed)?;
    let policy = policy(&args, set.tasks())?;
    let retriever = retriever(&args.index, context)?;
    std::fs::create_dir_all(&args.out).map_err(|error| refused("create", &args.out, &error))?;
    describe(&args, rules.preset())?;
    let path = args.out.join(if args.zstd { "trajectories.jsonl.zst" } else { TRAJECTORIES });
    let mut log = TrajectoryLog::open(&path)?;
    let options =
        RolloutOptions { samples: args.samples, parallel: args.parallel, seed: args.seed, ..RolloutOptions::default() };
    let rollout = Rollout { rules: &rules, retriever: &*retriever, policy: &*policy, options };
    let (progress, start) = (context.progress(), Instant::now());
    let show = |done| progress.show("playing", "episodes/s", done);
    let outcome = rollout.run(set.tasks(), &mut log, &show, &context.interrupt);
    progress.finish();
    let summary = outcome?;
    let seconds = start.elapsed().as_secs_f64();
    let mean = (summary.played > 0).then(|| summary.reward / summary.played as f64);
    if context.json {
        return context.print_json(&json!({
            "trajectories": path.display().to_string(), "played": summary.played, "resumed": summary.resumed,
            "failed": summary.failed, "mean_reward": mean, "searches": summary.searches, "messages": summary.messages,
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
        mean.map_or(String::new(), |mean| format!("; mean reward {mean:.4}")),
    )?;
    writeln!(out, "`{}`; look at it with `hindsearch view {}`", path.display(), args.out.display())?;
    out.flush()?;
    Ok(())
}

fn policy(args: &Args, tasks: &[Task]) -> Result<Box<dyn Policy>, Failure> {
    match args.policy.as_str() {
        "oracle" => Ok(Box::new(Oracle::new(tasks))),
        "guesser" => Ok(Box::new(Guesser)),
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
                callers: args.parallel.get(),
            };
            Ok(Box::new(ChatServer::new(Endpoint::from_environment(address)?, options)))
        }
        #[cfg(not(feature = "remote"))]
        other => Err(Failure::Usage(format!("`--policy {other}`: this program is built without `remote`"))),
    }
}

/// Writes down how the run is played; a run that was begun otherwise is not gone on with.
fn describe(args: &Args, preset: &hindsearch::env::Preset) -> Result<(), Failure> {
    let path = args.out.join("run.json");
    let description = json!({
        "version": env!("CARGO_PKG_VERSION"), "preset": preset, "policy": args.policy, "model": args.model, "index": args.index,
        "seed": args.seed, "temperature": args.temperature, "top_p": args.top_p,
    });
    match std::fs::read(&path) {
        Ok(bytes) => {
            let known: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let differs = |key: &&&str| known[**key] != description[**key];
            match ["preset", "policy", "model", "seed", "temperature", "top_p"].iter().find(differs) {
                None => Ok(()),
                Some(key) => Err(Failure::Usage(format!(
                    "`{}`: the run there was begun with another `{key}`; name another `--out`, or begin it again in the same way",
                    path.display()
                ))),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_whole(&path, |sink| {
            serde_json::to_writer_pretty(&mut *sink, &description)?;
            Ok(writeln!(sink)?)
        }),
        Err(error) => Err(refused("read", &path, &error)),
    }
}

fn refused(action: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::Verdict(
        hindsearch::indexes::ErrorKind::of_io(error),
        format!("cannot {action} `{}`: {error}", path.display()),
    )
}
