//! `hindsearch ablate SWEEP.toml`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use hindsearch::env::Preset;
use hindsearch::indexes::{self, FolderLock};
use hindsearch::trainer::sweep::{Planned, Report, State, Sweep};
use hindsearch::trainer::{self, Fingerprint, ModelFiles, TrainSettings};

use super::env::{Place, place};
use super::train::{Among, Pace, Questions, Run, Watched};
use super::{Context, write_whole};
use crate::failure::Failure;
use crate::output::count;

/// Train with several methods and seeds, and tell which learns more
#[derive(clap::Args)]
#[command(after_help = "\
A sweep is a file:

  index = \"wiki\"                     # as for `hindsearch train`, and seen from the current folder, like all paths
  model = \"models/Qwen2.5-0.5B-Instruct\"
  tasks = [\"nq_train.jsonl\"]          # without it the built-in set
  held_out = \"nq_test.jsonl\"          # or how many of the tasks
  recipe = \"search-r1\"
  settings_file = \"shared.toml\"       # what all arms share, above their presets; `[settings]` stands above the file
  seeds = [0, 1, 2]
  metric = \"test/reward/mean\"         # the number that is compared

  [warm_start]                        # the settings' imitation is done once for each seed, and all arms begin with its model
  once = \"per-seed\"                   # or per-sweep: the first seed's for all

  [[arms]]
  name = \"gspo\"
  preset = \"gspo\"
  override = { rollout.samples = 8 }  # this arm's alone

  [[expect]]                          # a published order
  better = \"gspo\"
  than = \"grpo\"
  source = \"paper, table\"

Each arm and seed is a run's folder, `OUT/arms/gspo/seed-0`. The same command passes over those that have ended and goes on with the others; a run that
fails is told, and the next one begins. Arms and seeds may be added; what is there goes on as it was begun only. At the end, and with `--report` at any time:
`OUT/report.md`, `report.json` and `curves.svg`, with means and spread over seeds, and whether published orders hold.

Examples:
  hindsearch ablate sweep.toml --dry-run
  hindsearch ablate sweep.toml --out runs/first
  hindsearch ablate sweep.toml --out runs/first --report")]
pub struct Args {
    /// The file that says what is compared
    #[arg(value_name = "SWEEP")]
    sweep: PathBuf,
    /// The folder of its runs; else `runs/` and the file's name
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the runs and what tells the arms apart, and train nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the report of what has ended, and train nothing
    #[arg(long, conflicts_with = "dry_run")]
    report: bool,
}

/// A run that is ready to be made.
struct Job<'a> {
    planned: Planned<'a>,
    settings: TrainSettings,
    recipe: Preset,
    model: PathBuf,
    folder: PathBuf,
}

impl Job<'_> {
    fn steps(&self) -> u64 {
        self.settings.imitation.steps + self.settings.steps
    }
}

/// All runs of a sweep, and what they share.
struct Work<'a> {
    sweep: &'a Sweep,
    out: &'a Path,
    questions: Questions,
    jobs: Vec<Job<'a>>,
    context: &'a Context,
}

/// Trains each arm with each seed.
///
/// # Errors
/// An unusable sweep, or another than that with which its runs were begun; the first run's that failed, when all others have ended.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let sweep = Sweep::read(&args.sweep)?;
    let stem = args.sweep.file_stem().unwrap_or_default();
    let out = args.out.unwrap_or_else(|| Path::new("runs").join(stem));
    if args.report {
        if !out.join("arms").is_dir() {
            let found =
                format!("`{}`: expected a sweep's folder with `arms`, found none; name it with `--out`", out.display());
            return Err(Failure::Verdict(indexes::ErrorKind::NotFound, found));
        }
        return report(&sweep, &out, &BTreeMap::new(), context);
    }
    let work = Work::new(&sweep, &out, context)?;
    work.check()?;
    if args.dry_run {
        return work.show();
    }
    let place = place(&sweep.index, context)?;
    let _lock = FolderLock::acquire(&out).map_err(trainer::Error::from)?;
    let (failures, outcome) = work.run(&place);
    outcome.and(report(&sweep, &out, &failures, context))
}

impl<'a> Work<'a> {
    /// Reads all that the runs need.
    fn new(sweep: &'a Sweep, out: &'a Path, context: &'a Context) -> Result<Self, Failure> {
        let job = |planned: Planned<'a>| -> Result<Job<'a>, Failure> {
            Ok(Job {
                planned,
                settings: sweep.settings_of(planned)?,
                recipe: Preset::load(&sweep.recipe_of(planned)?)?,
                model: sweep.model_of(planned, out),
                folder: planned.folder(out),
            })
        };
        let jobs = sweep.runs().into_iter().map(job).collect::<Result<Vec<_>, _>>()?;
        let seed = sweep.seeds.first().copied().unwrap_or_default();
        let questions = Questions::read(&sweep.tasks, &sweep.held_out.to_string(), seed)?;
        Ok(Self { sweep, out, questions, jobs, context })
    }

    /// Sees that the folder is the sweep's, and each run in it one that this sweep began.
    fn check(&self) -> Result<(), Failure> {
        if !self.out.join("arms").exists() {
            let own = |name: &str| ["LOCK", "warm-start"].contains(&name);
            let names = std::fs::read_dir(self.out).into_iter().flatten().flatten().map(|entry| entry.file_name());
            if let Some(other) = names.map(|name| name.to_string_lossy().into_owned()).find(|name| !own(name)) {
                let found = format!("one that holds `{}`; name another with `--out`", other.escape_debug());
                return Err(Failure::Usage(format!(
                    "`{}`: expected a folder that is empty or not there yet, or a sweep's, found {found}",
                    self.out.display()
                )));
            }
        }
        let mut known: BTreeMap<&Path, Fingerprint> = BTreeMap::new();
        // The model that all begin with is looked at in any case.
        known.insert(&self.sweep.model, fingerprint(&self.sweep.model)?);
        for job in self.jobs.iter().filter(|job| job.planned.state(self.out) != State::New) {
            if !known.contains_key(&*job.model) && job.model.join("config.json").exists() {
                known.insert(&job.model, fingerprint(&job.model)?);
            }
            self.run_of(job).check(known.get(&*job.model).cloned())?;
        }
        Ok(())
    }

    fn run_of<'b>(&'b self, job: &'b Job<'_>) -> Run<'b> {
        Run {
            questions: &self.questions,
            model: &job.model,
            recipe: &job.recipe,
            settings: &job.settings,
            out: &job.folder,
        }
    }

    /// Makes all runs that have not ended. Gives those that failed, and the first of them or the wish to stop.
    fn run(&self, place: &Place) -> (BTreeMap<String, String>, Result<(), Failure>) {
        let (mut failures, mut outcome) = (BTreeMap::new(), Ok(()));
        let pace = Pace::new();
        let left = |job: &&Job<'_>| job.planned.state(self.out) != State::Ended;
        for (number, job) in self.jobs.iter().enumerate().filter(|(_, job)| left(job)) {
            let name = format!("{} ({} of {})", job.planned, number + 1, self.jobs.len());
            let later = self.jobs[number + 1..].iter().filter(left).map(Job::steps).sum();
            let warm = job.planned.arm.and_then(|_| self.sweep.warm_start_of(job.planned.seed));
            let made = match warm.filter(|warm| warm.state(self.out) != State::Ended) {
                Some(warm) => Err(Failure::Usage(format!("its {warm}, has not ended"))),
                None => {
                    let watched = Watched::new(self.context, Some(Among { name, later, pace: &pace }));
                    self.run_of(job).train(place, &watched, self.context)
                }
            };
            let Err(failure) = made else { continue };
            if failure.exit_code() == 130 {
                return (failures, Err(failure));
            }
            self.context.tell(format_args!("{} failed: {failure}", job.planned));
            failures.insert(job.planned.to_string(), failure.to_string());
            outcome = outcome.and(Err(failure));
        }
        (failures, outcome)
    }

    /// Prints what would be made.
    fn show(&self) -> Result<(), Failure> {
        let report = Report::new(self.sweep, self.out, &BTreeMap::new())?;
        let state = |job: &Job<'_>| job.planned.state(self.out);
        if self.context.json {
            let run =
                |job: &Job<'_>| serde_json::json!({ "run": job.folder, "state": state(job), "steps": job.steps() });
            let runs: Vec<_> = self.jobs.iter().map(run).collect();
            return self.context.print_json(&serde_json::json!({ "runs": runs, "arms": report.arms }));
        }
        let mut out = self.context.out();
        for job in &self.jobs {
            let (name, steps) = (job.planned.to_string(), count(job.steps()));
            let state = match state(job) {
                State::Ended => "has ended",
                State::Begun => "goes on",
                State::New => "begins",
            };
            writeln!(out, "{name:32} {state:10} {steps:>7} steps  {}", job.folder.display())?;
        }
        let left = self.jobs.iter().filter(|job| state(job) != State::Ended);
        let steps = count(left.clone().map(Job::steps).sum());
        writeln!(out, "\n{} runs, {} of them to be made, {steps} steps in all", self.jobs.len(), left.count())?;
        writeln!(out, "\n{}", report.settings().trim_end())?;
        Ok(out.flush()?)
    }
}

fn fingerprint(model: &Path) -> Result<Fingerprint, Failure> {
    let files = ModelFiles::open(model)?;
    Ok(Fingerprint::of_model(files.config(), &files.weights()?))
}

/// Writes and prints what was found.
fn report(sweep: &Sweep, out: &Path, failures: &BTreeMap<String, String>, context: &Context) -> Result<(), Failure> {
    let report = Report::new(sweep, out, failures)?;
    let text = report.to_markdown();
    let path = out.join("report.md");
    write_whole(&out.join("curves.svg"), |file| Ok(file.write_all(report.curves().as_bytes())?))?;
    write_whole(&out.join("report.json"), |file| Ok(serde_json::to_writer_pretty(file, &report)?))?;
    write_whole(&path, |file| Ok(file.write_all(text.as_bytes())?))?;
    if context.json {
        return context.print_json(&report);
    }
    let mut stdout = context.out();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    context.tell(format_args!("written to `{}`", path.display()));
    Ok(())
}
