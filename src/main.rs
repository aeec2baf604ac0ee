//! The command line: parses, resolves the settings, runs one command, and turns its outcome into an exit code.

mod commands;
mod failure;
mod output;
mod progress;

use std::io::Write;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Args, Parser, Subcommand};
use hindsearch::config::Config;
use hindsearch::indexes::Interrupt;

use commands::Context;
use failure::Failure;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 2 unusable input, 3 not found, 4 unauthorised, 5 damaged or incompatible, 6 locked, 7 overloaded,
8 timed out, 9 unavailable (disk, library, server), 70 a defect, 130 interrupted.

Examples:
  hindsearch build examples/data/corpus.jsonl --out sample
  hindsearch search sample \"Who discovered radium?\"
  hindsearch serve sample
  hindsearch eval retrieval sample --questions examples/data/questions.jsonl";

/// A local search engine and a training ground for search agents.
#[derive(Parser)]
#[command(name = "hindsearch", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Global {
    /// Settings file; else that of HINDSEARCH_CONFIG, else `hindsearch.toml` in the current folder where it is there
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override one setting, such as `--set index.kind=hnsw`; `hindsearch config show` lists all
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print JSON on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Show no progress
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Build an index from a corpus
    Build(commands::build::Args),
    /// Add passages to an index
    Append(commands::append::Args),
    /// Delete passages from an index
    Delete(commands::delete::Args),
    /// Rewrite an index without what was deleted, in one piece
    Compact(commands::compact::Args),
    /// Make one index of several
    Merge(commands::merge::Args),
    /// Search an index
    Search(commands::search::Args),
    /// Serve an index over HTTP
    #[cfg(feature = "serve")]
    Serve(commands::serve::Args),
    /// Let an agent search an index, over standard input and output (Model Context Protocol)
    #[cfg(feature = "serve")]
    Mcp(commands::mcp::Args),
    /// Turn texts into vectors
    Embed(commands::embed::Args),
    /// Show what an index holds and how it was made
    Inspect(commands::inspect::Args),
    /// Check an index for damage
    Verify(commands::verify::Args),
    /// Write an index's passages back to a file
    Export(commands::export::Args),
    /// Measure quality
    #[command(subcommand)]
    Eval(commands::eval::Command),
    /// Measure speed
    #[command(subcommand)]
    Bench(commands::bench::Command),
    /// Tell what an index of so many vectors takes, and how fast it can be on this machine
    Plan(commands::plan::Args),
    /// Play, keep and score episodes
    #[command(subcommand)]
    Env(commands::env::Command),
    /// Build, and look at, the experience of earlier episodes
    #[command(subcommand)]
    Experience(commands::experience::Command),
    /// Train a model on episodes
    Train(Box<commands::train::Args>),
    /// Train with several methods and seeds, and tell which learns more
    Ablate(commands::ablate::Args),
    /// Tell what an objective makes of episodes that were played elsewhere
    Losses(commands::losses::Args),
    /// Show the trajectories of a run in a browser
    #[cfg(feature = "view")]
    View(commands::view::Args),
    /// Check this machine: library, model, memory, disk
    Doctor(commands::doctor::Args),
    /// Show or check the settings
    #[command(subcommand)]
    Config(commands::config::Command),
    /// Print a shell's completion script
    Completions(commands::completions::Args),
}

/// What the last panic said. Libraries that read damaged files are allowed to panic where it is caught and becomes an
/// error; only what nobody caught is told.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// ONNX Runtime takes this from the environment when it is loaded; asked later not to, it has made its database and its
/// device id in the user's home already.
const NO_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// Starts this program anew, in the same process, with telemetry switched off, unless the user has decided about it: a
/// running program cannot change its own environment safely.
#[cfg(unix)]
fn switch_telemetry_off() {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(NO_TELEMETRY).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let failed = std::env::current_exe().map(|program| {
        let mut again = std::process::Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments).env(NO_TELEMETRY, "1").exec()
    });
    let why = failed.unwrap_or_else(|error| error);
    let _ = writeln!(
        std::io::stderr(),
        "warning: cannot set {NO_TELEMETRY}=1 ({why}); set it, or ONNX Runtime keeps usage data in your home"
    );
}

fn main() -> ExitCode {
    #[cfg(unix)]
    switch_telemetry_off();
    let cli = Cli::parse();
    panic::set_hook(Box::new(|what| *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = what.to_string()));
    let outcome = panic::catch_unwind(|| run(cli))
        .unwrap_or_else(|_| Err(Failure::internal(LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner))));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {}", output::harmless(&failure.to_string()));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let interrupt = Interrupt::new();
    // Commands that write stop at a safe point at the first Ctrl-C, and at once at the second. The others just end.
    let writes = match &cli.command {
        Command::Append(_) | Command::Delete(_) | Command::Compact(_) | Command::Merge(_) => true,
        Command::Build(_) | Command::Export(_) | Command::Train(_) | Command::Ablate(_) | Command::Bench(_) => true,
        Command::Env(command) => command.writes(),
        Command::Eval(command) => command.writes(),
        Command::Experience(command) => command.writes(),
        _ => false,
    };
    if writes {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, interrupt.flag())
                .map_err(Failure::internal)?;
            signal_hook::flag::register(signal, interrupt.flag()).map_err(Failure::internal)?;
        }
    }
    let Global { config, set, json, quiet } = cli.global;
    let named = || std::env::var_os("HINDSEARCH_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = config.or_else(named);
    let resolve = || Config::resolve(config.as_deref(), std::env::vars_os(), &set);
    let context = |config| Context { config, json, quiet, interrupt: interrupt.clone() };
    match cli.command {
        Command::Build(args) => commands::build::run(args, &context(resolve()?)),
        Command::Append(args) => commands::append::run(args, &context(resolve()?)),
        Command::Delete(args) => commands::delete::run(args, &context(resolve()?)),
        Command::Compact(args) => commands::compact::run(args, &context(resolve()?)),
        Command::Merge(args) => commands::merge::run(args, &context(resolve()?)),
        Command::Search(args) => commands::search::run(args, &context(resolve()?)),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::run(args, &context(resolve()?)),
        #[cfg(feature = "serve")]
        Command::Mcp(args) => commands::mcp::run(args, &context(resolve()?)),
        Command::Embed(args) => commands::embed::run(args, &context(resolve()?)),
        Command::Inspect(args) => commands::inspect::run(args, &context(resolve()?)),
        Command::Verify(args) => commands::verify::run(args, &context(resolve()?)),
        Command::Export(args) => commands::export::run(args, &context(resolve()?)),
        Command::Bench(command) => commands::bench::run(command, &context(resolve()?)),
        Command::Plan(args) => commands::plan::run(args, &context(resolve()?)),
        Command::Env(command) => commands::env::run(command, &context(resolve()?)),
        Command::Experience(command) => commands::experience::run(command, &context(resolve()?)),
        Command::Train(args) => commands::train::run(*args, &context(resolve()?)),
        Command::Ablate(args) => commands::ablate::run(args, &context(resolve()?)),
        Command::Losses(args) => commands::losses::run(args, &context(resolve()?)),
        Command::Eval(command) => commands::eval::run(command, &context(resolve()?)),
        #[cfg(feature = "view")]
        Command::View(args) => commands::view::run(args, &context(resolve()?)),
        Command::Doctor(args) => commands::doctor::run(args, &context(resolve()?)),
        Command::Config(command) => commands::config::run(command, &context(resolve()?)),
        Command::Completions(args) => commands::completions::run(args),
    }
}
