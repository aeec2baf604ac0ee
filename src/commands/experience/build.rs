//! `hindsearch experience build RUN --rules --out FILE`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hindsearch::env::experience::{BuildOptions, Builder, Experience, Group, KeyEmbedder, Reflector, RuleReflector};
use hindsearch::indexes::Effort;
use hindsearch::retriever::Retriever;
use serde_json::json;

use super::keys;
use crate::commands::Context;
use crate::commands::env::{Chosen, description, number, tell_missing, trajectories, with_tasks};
use crate::commands::search::open_options;
use crate::failure::Failure;
use crate::output::count;

/// Make experience of the plays of a run
#[derive(clap::Args)]
#[command(after_help = "\
Cases (level 1) are what the plays of a task teach, patterns (2) are clusters of cases, strategies (3) clusters of patterns. Keys
are embedded by the model of the run's index, where that is a folder here, else by the one of the settings.

A language model's answers are kept in `FILE.answers.jsonl`: the same command goes on with a build that was stopped, and with other
thresholds asks for clusters alone. The server's token is read from OPENAI_API_KEY.

Examples:
  hindsearch env rollout sample --policy http://127.0.0.1:8001/v1 --model Qwen/Qwen2.5-3B --samples 8 --out runs/eight
  hindsearch experience build runs/eight --rules --out experience.jsonl
  hindsearch experience build runs/eight --writer http://127.0.0.1:8001/v1 --writer-model Qwen/Qwen2.5-3B --out experience.jsonl")]
#[command(group(clap::ArgGroup::new("reflector").required(true).args(["rules", "writer"])))]
pub struct Args {
    /// The run's folder, or its file of trajectories; several plays of each task
    run: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// The experience file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write lessons by rules, without a model
    #[arg(long)]
    rules: bool,
    /// Let the model on this OpenAI-compatible server write them
    #[arg(long, value_name = "URL", requires = "writer_model")]
    writer: Option<String>,
    /// The model's name there
    #[arg(long, value_name = "NAME", requires = "writer")]
    writer_model: Option<String>,
    /// Requests at a time
    #[arg(long, default_value = "16", requires = "writer")]
    parallel: std::num::NonZero<usize>,
    /// Requests at most
    #[arg(long, value_name = "N", requires = "writer")]
    budget: Option<u64>,
    /// The model that embeds keys: a folder or a hub id
    #[arg(long, value_name = "MODEL")]
    key_model: Option<String>,
    /// Pass over tasks whose plays all succeeded or all failed
    #[arg(long)]
    contrast_only: bool,
    /// Entries of a cluster, on average, that thresholds are calibrated for
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(2..=1000))]
    cluster_size: u32,
    /// Ward's height below which cases form a pattern, instead of a calibrated one
    #[arg(long, value_name = "HEIGHT", value_parser = height)]
    pattern_threshold: Option<f64>,
    /// Ward's height below which patterns form a strategy, instead of a calibrated one
    #[arg(long, value_name = "HEIGHT", value_parser = height)]
    strategy_threshold: Option<f64>,
}

/// Builds, and prints what came of it.
///
/// # Errors
/// Unreadable trajectories or tasks, a model that is not there, a server that does not answer, plays that teach nothing.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    // What is there already may be older experience, and nothing else: not the plays, say.
    if args.out.is_file() {
        Experience::read(&args.out).map_err(|error| {
            let advice = "name another file, or move it away";
            Failure::Usage(format!("`{}` is there, and is no experience; {advice} ({error})", args.out.display()))
        })?;
    }
    let set = args.chosen.read()?;
    let (plays, missing) = with_tasks(trajectories(&args.run)?, set.tasks());
    tell_missing(missing, plays.len(), context)?;
    let groups = Group::all(plays.iter().map(|(task, play)| (*task, play)));
    let keys = keys_of(&args, context)?;
    let (reflector, batch) = reflector(&args)?;
    let options = BuildOptions {
        thresholds: [args.pattern_threshold, args.strategy_threshold],
        cluster_size: args.cluster_size as usize,
        contrast_only: args.contrast_only,
        batch,
        ..BuildOptions::default()
    };
    let (progress, begun) = (context.progress(), Instant::now());
    let show = |what: &'static str, done| {
        progress.show(what, if what == "reflecting" { "tasks" } else { "clusters" }, done);
    };
    let built = Builder { reflector: &*reflector, keys: &keys, options }.build(&groups, &show, &context.interrupt);
    progress.finish();
    let experience = built?;
    experience.write(&args.out)?;
    let won: usize = groups.iter().map(|group| group.won.len()).sum();
    let all = won + groups.iter().map(|group| group.lost.len()).sum::<usize>();
    let mixed = groups.iter().filter(|group| group.has_contrast()).count();
    let told =
        Told { plays: all, pass_rate: won as f64 / all.max(1) as f64, mixed, seconds: begun.elapsed().as_secs_f64() };
    print(&args, &experience, &told, context)
}

/// What is told of the plays beside the experience.
struct Told {
    plays: usize,
    pass_rate: f64,
    mixed: usize,
    seconds: f64,
}

fn print(args: &Args, experience: &Experience, told: &Told, context: &Context) -> Result<(), Failure> {
    let Told { plays, pass_rate, mixed, seconds } = told;
    if context.json {
        let entries = [1, 2, 3].map(|level| experience.count(level));
        return context.print_json(&json!({
            "experience": args.out.display().to_string(), "plays": plays, "pass_rate": pass_rate, "tasks": experience.groups,
            "mixed_tasks": mixed, "dropped": experience.dropped, "entries": entries,
            "levels": experience.levels, "nearness": experience.nearness, "reflector": experience.reflector, "embedder": experience.embedder, "seconds": seconds,
        }));
    }
    let mut out = context.out();
    writeln!(
        out,
        "{} plays of {} tasks, {:.1} % right; {} tasks with both outcomes; {seconds:.1} s",
        count(*plays as u64),
        count(experience.groups as u64),
        100.0 * pass_rate,
        count(*mixed as u64)
    )?;
    writeln!(out, "  level 1  {} cases, {} tasks taught nothing", experience.count(1), experience.dropped)?;
    super::show::levels(&mut out, experience)?;
    writeln!(out, "`{}`; look at it with `hindsearch experience show {}`", args.out.display(), args.out.display())?;
    Ok(out.flush()?)
}

fn keys_of(args: &Args, context: &Context) -> Result<KeyEmbedder, Failure> {
    // A run tells its index, in the folder of its file.
    let folder = if args.run.is_dir() { &*args.run } else { args.run.parent().unwrap_or(Path::new("")) };
    let described = description(folder)?;
    let index = described.as_ref().and_then(|facts| facts["index"].as_str()).map(Path::new);
    let embedder = match index.filter(|index| args.key_model.is_none() && index.is_dir()) {
        Some(index) => {
            let retriever = Retriever::open(index, open_options(context, None, Effort::default())?)?;
            Some(std::sync::Arc::clone(retriever.embedder()))
        }
        None => None,
    };
    keys(args.key_model.as_deref(), embedder.as_ref(), context)
}

/// Who writes, and how much it is given at a time.
#[cfg(feature = "remote")]
fn reflector(args: &Args) -> Result<(Box<dyn Reflector>, usize), Failure> {
    use hindsearch::env::experience::WrittenReflector;
    use hindsearch::env::{CachedWriter, Endpoint, ServerWriter, ServerWriterOptions};
    let (Some(address), Some(model)) = (&args.writer, &args.writer_model) else {
        return Ok((Box::new(RuleReflector), BuildOptions::default().batch));
    };
    let options = ServerWriterOptions { model: model.clone(), parallel: args.parallel, budget: args.budget };
    let writer = ServerWriter::new(Endpoint::from_environment(address)?, options);
    let mut answers = args.out.clone().into_os_string();
    answers.push(".answers.jsonl");
    let writer = CachedWriter::open(writer, Path::new(&answers))?;
    Ok((Box::new(WrittenReflector::new(writer)), 2 * args.parallel.get()))
}

/// Who writes, and how much it is given at a time.
#[cfg(not(feature = "remote"))]
fn reflector(args: &Args) -> Result<(Box<dyn Reflector>, usize), Failure> {
    match &args.writer {
        Some(address) => {
            Err(Failure::Usage(format!("`--writer {address}`: this program is built without `remote`; use `--rules`")))
        }
        None => Ok((Box::new(RuleReflector), BuildOptions::default().batch)),
    }
}

fn height(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=1e6).contains(&value), "a height, 0 or more")
}
