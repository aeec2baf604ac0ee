//! `hindsearch env ...`: episodes at the command line.

mod judge;
mod play;
pub mod player;
mod presets;
mod replay;
mod rollout;
mod score;
mod tasks;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hindsearch::env::tasks::{self as sets, ReadOptions, TaskSet};
use hindsearch::env::{Preset, Rules, STEPS, TRAJECTORIES, Task, Trajectory, read_trajectories, trajectories_file};
use hindsearch::indexes::{self, Effort, ErrorKind};
use hindsearch::retriever::embed::Embedder;
use hindsearch::retriever::{Retrieve, Retriever};
use serde_json::Value;

use super::search::open_options;
use super::{Context, write_whole};
use crate::failure::Failure;

/// The file that says how they are played.
const DESCRIPTION: &str = "run.json";

/// Play, keep and score episodes
#[derive(clap::Subcommand)]
pub enum Command {
    /// Play an episode yourself
    Play(play::Args),
    /// Let a policy play many episodes
    Rollout(rollout::Args),
    /// Play trajectories again and compare
    Replay(replay::Args),
    /// Score trajectories anew, without playing
    Score(score::Args),
    /// Let a language model judge answers
    Judge(judge::Args),
    /// List the recipes, or show one
    Presets(presets::Args),
    /// List, choose and convert tasks
    Tasks(tasks::Args),
}

impl Command {
    /// Whether it is long and writes as it goes, so that it stops at a safe point.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Rollout(_) | Self::Judge(_))
    }
}

/// Runs one of them.
///
/// # Errors
/// Those of the command.
pub fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Play(args) => play::run(args, context),
        Command::Rollout(args) => rollout::run(args, context),
        Command::Replay(args) => replay::run(args, context),
        Command::Score(args) => score::run(args, context),
        Command::Judge(args) => judge::run(args, context),
        Command::Presets(args) => presets::run(args, context),
        Command::Tasks(args) => tasks::run(args, context),
    }
}

/// Which tasks.
#[derive(clap::Args)]
pub struct Chosen {
    /// Files of tasks (FlashRAG, Search-R1, verl, SkyRL, ASearcher, NeMo Gym, BEIR, plain), or `sample`, the built-in set
    #[arg(long, value_name = "FILE", default_value = "sample")]
    tasks: Vec<PathBuf>,
    /// Only those of this data set
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The first so many
    #[arg(long, value_name = "N", conflicts_with = "draw")]
    limit: Option<usize>,
    /// So many, drawn by the seed
    #[arg(long, value_name = "N")]
    draw: Option<usize>,
    /// Where what is drawn comes from, and all other seeds
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl Chosen {
    pub fn read(&self) -> Result<TaskSet, Failure> {
        let mut set = read_tasks(&self.tasks)?;
        if let Some(source) = &self.source {
            set = set.filter(|task| task.source() == source);
        }
        if let Some(count) = self.draw {
            set = set.sample(self.seed, count);
        }
        if let Some(count) = self.limit {
            set = set.take(count);
        }
        if set.tasks().is_empty() {
            return Err(Failure::Usage("no task is left; look at `--source`, `--limit` and `--draw`".into()));
        }
        Ok(set)
    }
}

/// The tasks of files, or the built-in set `sample`.
///
/// # Errors
/// Those of reading files.
pub fn read_tasks(files: &[PathBuf]) -> Result<TaskSet, Failure> {
    match files {
        [name] if name == Path::new("sample") && !name.is_file() => Ok(sets::built_in("sample")?),
        files => Ok(sets::read(files, &ReadOptions::default())?),
    }
}

/// The rules of a recipe by name or file.
pub fn rules(preset: &str) -> Result<Rules, Failure> {
    Ok(Rules::new(Arc::new(Preset::load(preset)?)))
}

/// The rules that a trajectory was played by: those of `--preset`, else those that its run wrote down, else built-in ones. What
/// a trajectory names is never read as a file.
pub struct Played {
    given: Option<Rules>,
    known: HashMap<String, Rules>,
}

impl Played {
    /// The recipe of a run; `given` stands above it.
    ///
    /// # Errors
    /// A description or a recipe that cannot be read.
    pub fn of(run: &Path, given: Option<&str>) -> Result<Self, Failure> {
        let mut known = HashMap::new();
        // A run's file lies beside what was written down of it.
        let is_a_runs = run.file_name().is_some_and(|name| TRAJECTORIES.iter().any(|known| name == *known));
        let folder = run.parent().unwrap_or(Path::new(""));
        let is_a_steps = folder.file_name().is_some_and(|name| name == STEPS || name == "evaluation");
        let run = match (is_a_runs, is_a_steps) {
            (true, _) => folder,
            (_, true) => folder.parent().unwrap_or(Path::new("")),
            _ => run,
        };
        if let Some(description) = description(run)? {
            let preset: Preset = serde_json::from_value(description["preset"].clone()).map_err(|error| {
                Failure::Verdict(
                    ErrorKind::Corrupt,
                    format!("`{}`: no preset ({error})", run.join(DESCRIPTION).display()),
                )
            })?;
            known.insert(preset.name.clone(), Rules::new(Arc::new(preset)));
        }
        Ok(Self { given: given.map(rules).transpose()?, known })
    }

    /// The rules of this trajectory.
    ///
    /// # Errors
    /// A recipe that nobody knows.
    pub fn rules(&mut self, trajectory: &Trajectory) -> Result<&Rules, Failure> {
        if let Some(given) = &self.given {
            return Ok(given);
        }
        let name = &trajectory.preset;
        if !self.known.contains_key(name) {
            self.known.insert(name.clone(), Rules::new(Arc::new(Preset::named(name)?)));
        }
        Ok(&self.known[name])
    }
}

/// Says, once, that answers are waited for after a wish to stop.
pub fn telling_of_the_wait<T>(context: &Context, work: impl FnOnce() -> T) -> T {
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

/// Writes down how a run is played, in its folder, which is made where it is not there; a run that was begun otherwise is not gone
/// on with.
///
/// # Errors
/// A folder that cannot be written to; a run that was begun with other facts.
pub fn describe(run: &Path, facts: Value) -> Result<(), Failure> {
    std::fs::create_dir_all(run).map_err(indexes::Error::io("create", run))?;
    let path = run.join(DESCRIPTION);
    // A run in which nothing was played is none.
    let is_empty = |name: &&str| !run.join(name).metadata().is_ok_and(|facts| facts.len() > 0);
    let known = if TRAJECTORIES.iter().all(is_empty) { None } else { description(run)? };
    let Some(known) = known else {
        let mut new = facts;
        new["version"] = env!("CARGO_PKG_VERSION").into();
        return write_whole(&path, |sink| {
            serde_json::to_writer_pretty(&mut *sink, &new)?;
            Ok(writeln!(sink)?)
        });
    };
    // As it is read from the file: numbers are read a hair otherwise than they were written.
    let facts: Value = serde_json::from_str(&facts.to_string())?;
    let other = facts.as_object().into_iter().flatten().find(|(key, value)| known[key.as_str()] != **value);
    other.map_or(Ok(()), |(key, _)| {
        Err(Failure::Usage(format!(
            "`{}`: the run there was begun with another `{key}`; name another `--out`, or begin it again in the same way",
            path.display()
        )))
    })
}

/// What a run wrote down about itself.
pub fn description(run: &Path) -> Result<Option<Value>, Failure> {
    let path = run.join(DESCRIPTION);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let what =
                format!("`{}` is no JSON ({error}); restore it, or play again into another folder", path.display());
            Failure::Verdict(ErrorKind::Corrupt, what)
        }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(indexes::Error::io("read", &path)(error).into()),
    }
}

/// Where passages come from.
pub struct Place {
    /// The index, or the servers.
    pub retriever: Box<dyn Retrieve>,
    /// The model of an index on this machine.
    pub embedder: Option<Arc<Embedder>>,
}

/// An index folder, or the address of a server.
///
/// # Errors
/// A missing or damaged index; an address that is none.
pub fn place(place: &str, context: &Context) -> Result<Place, Failure> {
    #[cfg(feature = "remote")]
    if place.starts_with("http://") || place.starts_with("https://") {
        use hindsearch::retriever::{RemoteOptions, RemoteRetriever};
        let addresses = place.split(',').map(str::to_owned).collect();
        let token = std::env::var("HINDSEARCH_TOKEN").ok().filter(|token| !token.is_empty());
        let options = RemoteOptions { addresses, token, ..RemoteOptions::default() };
        return Ok(Place { retriever: Box::new(RemoteRetriever::new(options)?), embedder: None });
    }
    let retriever = Retriever::open(Path::new(place), open_options(context, None, Effort::default())?)?;
    let embedder = Some(Arc::clone(retriever.embedder()));
    Ok(Place { retriever: Box::new(retriever), embedder })
}

/// What finds passages there.
///
/// # Errors
/// Those of [`place`].
pub fn retriever(named: &str, context: &Context) -> Result<Box<dyn Retrieve>, Failure> {
    Ok(place(named, context)?.retriever)
}

/// The trajectories of a run's folder, or of a file.
///
/// # Errors
/// What cannot be found or read.
pub fn trajectories(run: &Path) -> Result<Vec<Trajectory>, Failure> {
    Ok(read_trajectories(&trajectories_file(run)?)?)
}

/// Each trajectory with its task; those without one are counted.
pub fn with_tasks(all: Vec<Trajectory>, tasks: &[Task]) -> (Vec<(&Task, Trajectory)>, usize) {
    let by_id: HashMap<&str, &Task> = tasks.iter().map(|task| (task.id(), task)).collect();
    let count = all.len();
    let known = |one: Trajectory| by_id.get(one.task.as_str()).map(|task| (*task, one));
    let known: Vec<_> = all.into_iter().filter_map(known).collect();
    let missing = count - known.len();
    (known, missing)
}

/// Says on stderr what was left out.
///
/// # Errors
/// When nothing is left.
pub fn tell_missing(missing: usize, left: usize, context: &Context) -> Result<(), Failure> {
    if left == 0 && missing > 0 {
        return Err(Failure::Usage(format!(
            "none of the {missing} trajectories is of a task that `--tasks` holds; name the tasks that were played"
        )));
    }
    if missing > 0 {
        context
            .tell(format_args!("{missing} trajectories are of tasks that `--tasks` does not hold, and were left out"));
    }
    Ok(())
}

/// A number of an argument, where it fits.
pub fn number(text: &str, fits: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| fits(*value)).ok_or_else(|| format!("expected {expected}"))
}
