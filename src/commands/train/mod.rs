//! `hindsearch train INDEX --model MODEL --out RUN`.

mod settings;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hindsearch::env::tasks::TaskSet;
use hindsearch::env::{Preset, Rules};
use hindsearch::indexes::Progress;
use hindsearch::trainer::ops::LOGIT_ROWS;
use hindsearch::trainer::{
    Axes, Decoder, Fingerprint, Language, Machine, Method, ModelConfig, ModelFiles, ModelOutput, Monitor, Notice,
    PlanSettings, Precision, Processor, Record, RunFolder, Series, Shape, Skipped, TrainSettings, Training, Watch,
    chart, plan, read_metrics, write_model,
};

use super::env::{read_tasks, retriever};
use super::{Context, write_whole};
use crate::failure::Failure;
use crate::output::{count, duration, harmless};
use crate::progress::ProgressLine;

use settings::DEFAULT_RECIPE;
pub use settings::{How, Resolved};

/// Settings that may change while a run goes on.
const MAY_CHANGE: &[&str] =
    &["steps", "evaluation", "checkpoint", "rollout.parallel", "update.micro_tokens", "schedule.total"];

/// Train a model on episodes
#[derive(clap::Args)]
#[command(after_help = "\
The same command goes on with a run that was stopped, from its newest checkpoint, and on the CPU ends with the same bits. The run's folder
gets `config.toml` (all settings), `run.json` (the recipe, and what tells the model and the tasks from others), `metrics.jsonl`, TensorBoard's events, `curve.svg`, `trajectories/` and `evaluation/` (a file a step;
`hindsearch view` shows one), `checkpoints/`, and at the end `model/`, which transformers loads (with adapters also `adapter/`, for PEFT).

Settings stand one above the other: the defaults, `--preset`, `--settings`, `--override`. `hindsearch train ... --dry-run` prints what comes of
them, with what a step needs. A preset is a method of training, a recipe is how episodes are played.

Examples:
  hindsearch train wiki --model models/SmolLM2-135M-Instruct.gguf --out runs/first --dry-run
  hindsearch train wiki --model models/Qwen2.5-0.5B-Instruct --settings grpo.toml --out runs/grpo
  hindsearch train http://127.0.0.1:8000 --model m --tasks nq_train.jsonl --held-out nq_test.jsonl --recipe search-r1 --out runs/nq
  hindsearch train wiki --model m --out runs/gpu --override device=cuda --dry-run
  hindsearch train wiki --model m --preset gspo --override rollout.samples=8 --out runs/gspo")]
pub struct Args {
    /// The index folder, or addresses of servers, separated by commas
    index: String,
    /// The model: a folder of Hugging Face's form, or a GGUF file
    #[arg(long)]
    model: PathBuf,
    /// The run's folder
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    #[command(flatten)]
    how: How,
    /// The recipe of the episodes: a name (`hindsearch env presets`), or a file; else that of the preset, else `hindsearch`
    #[arg(long, value_name = "NAME|FILE")]
    recipe: Option<String>,
    /// Files of tasks to learn on, or `sample`, the built-in set
    #[arg(long, value_name = "FILE", default_value = "sample")]
    tasks: Vec<PathBuf>,
    /// What is tested on and not learnt on: a file of tasks, or how many of the tasks, drawn by the seed
    #[arg(long, value_name = "FILE|N", default_value = "32")]
    held_out: String,
    /// Print the settings and what a step needs, and train nothing
    #[arg(long)]
    dry_run: bool,
}

/// Trains.
///
/// # Errors
/// Unusable settings, tasks and models; a folder of another run; what the library says.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let Resolved { settings, recipe } = args.how.resolve()?;
    let recipe = args.recipe.clone().or(recipe).unwrap_or_else(|| DEFAULT_RECIPE.into());
    let recipe = Preset::load(&recipe)?;
    let files = ModelFiles::open(&args.model)?;
    if args.dry_run {
        return show_plan(&settings, &recipe, files.config(), context);
    }
    let placement = settings.placement()?;
    let language = Language::open(&files)?;
    let rules = Rules::measured(Arc::new(recipe), language.tokenizer.clone());
    let (tasks, held_out) = split(&args, settings.seed)?;
    let retriever = retriever(&args.index, context)?;
    tell_narrow(rules.preset(), files.config(), context);
    let weights = files.weights()?;
    let inputs = [
        ("model", Fingerprint::of_model(files.config(), &weights)),
        ("tasks", Fingerprint::of_tasks(tasks.tasks())),
        ("held-out tasks", Fingerprint::of_tasks(held_out.tasks())),
    ];
    let mut decoder = Decoder::placed(files.config(), weights, settings.lora.is_none(), &placement)?;
    if let Some(lora) = &settings.lora {
        decoder.add_adapters(lora, settings.seed)?;
    }
    let decoder = Arc::new(decoder);
    let mut learner = settings.learner(decoder.clone())?;
    check_model(&args.out.join("model"))?;
    // Not before all that can be refused is known to be usable.
    let folder = open(&args.out, &settings)?;
    folder.keep(rules.preset(), &inputs)?;
    let watch = Watched { line: Arc::new(context.progress()), context, step: Mutex::default() };
    let training = Training {
        settings: &settings,
        rules: &rules,
        retriever: &*retriever,
        tasks: tasks.tasks(),
        held_out: held_out.tasks(),
        language: &language,
        folder: &folder,
        watch: &watch,
    };
    let quiet = context.quiet || context.json;
    let line = watch.line.clone();
    let monitor = |after| {
        let told = Arc::new(move |notice: Notice<'_>| line.suspend(|| tell(notice, quiet)));
        Monitor::open(folder.path(), after, told)
    };
    let outcome = training.run(&mut learner, monitor, &context.interrupt);
    watch.line.finish();
    outcome?;
    let model = args.out.join("model");
    // That of an earlier end, where the run has gone on since.
    if model.exists() {
        check_model(&model)?;
        std::fs::remove_dir_all(&model).map_err(hindsearch::indexes::Error::io("replace", &model))?;
    }
    let output = ModelOutput { files: files.companions()?, ..ModelOutput::default() };
    write_model(&model, files.config(), &decoder.merged()?, &output)?;
    if let Some(lora) = &settings.lora {
        decoder.write_adapters(&args.out.join("adapter"), lora, &args.model.display().to_string())?;
    }
    let curve = args.out.join("curve.svg");
    write_whole(&curve, |file| Ok(file.write_all(draw(folder.path())?.as_bytes())?))?;
    if context.json {
        return context.print_json(&serde_json::json!({ "run": args.out, "model": model, "curve": curve }));
    }
    let mut out = context.out();
    writeln!(
        out,
        "`{}` is trained: the model is `{}`, its curve `{}`",
        args.out.display(),
        model.display(),
        curve.display()
    )?;
    Ok(out.flush()?)
}

/// Whether a model's folder has nothing but a model in it, so that another can take its place.
fn check_model(folder: &Path) -> Result<(), Failure> {
    const KINDS: [&str; 4] = ["json", "safetensors", "jinja", "model"];
    const NAMES: [&str; 2] = ["merges.txt", "vocab.txt"];
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_known = KINDS.contains(&kind) || NAMES.iter().any(|name| path.ends_with(name));
        if path.is_dir() || !is_known || !folder.join("config.json").is_file() {
            return Err(Failure::Usage(format!(
                "`{}` is not of a model, and the run's model will take this folder's place; move it away",
                path.display()
            )));
        }
    }
    Ok(())
}

/// What episodes earned, step by step.
fn draw(run: &Path) -> Result<String, Failure> {
    let records = read_metrics(&run.join("metrics.jsonl"), &|_| {})?;
    let series = |name: &str, metric: &str| {
        let point = |record: &Record| Some((record.step as f64, *record.values.get(metric)?));
        Series::mean(name, &[records.iter().filter_map(point).collect()])
    };
    let all = [series("held-out tasks, greedy", "test/reward/mean"), series("rollouts", "reward/mean")];
    let shown: Vec<Series> = all.into_iter().filter(|series| !series.points.is_empty()).collect();
    Ok(chart("Mean reward", &shown, Axes { x: "step", y: "reward" }))
}

/// What is learnt on, and what is tested on.
fn split(args: &Args, seed: u64) -> Result<(TaskSet, TaskSet), Failure> {
    let tasks = read_tasks(&args.tasks)?;
    let Ok(count) = args.held_out.parse::<usize>() else {
        let held_out = read_tasks(&[PathBuf::from(&args.held_out)])?;
        let shared = tasks.overlap(&held_out).len();
        return if shared == 0 {
            Ok((tasks, held_out))
        } else {
            let remedy = "take them out with `hindsearch env tasks`, or what is tested was learnt";
            Err(Failure::Usage(format!("{shared} questions of `--tasks` are also in `{}`; {remedy}", args.held_out)))
        };
    };
    if count >= tasks.tasks().len() {
        let found = tasks.tasks().len();
        return Err(Failure::Usage(format!(
            "`--held-out {count}`: expected fewer than the {found} tasks that there are"
        )));
    }
    let held_out = tasks.clone().sample(seed, count);
    let rest = tasks.filter(|task| !held_out.tasks().iter().any(|held| held.id() == task.id()));
    Ok((rest, held_out))
}

/// Says that episodes may not fit the model.
fn tell_narrow(preset: &Preset, config: &ModelConfig, context: &Context) {
    let (wanted, there) = (preset.limits.context_tokens, config.max_positions);
    if wanted > there {
        context.tell(format_args!(
            "recipe `{}` has episodes of up to {wanted} tokens, and the model {there} positions: a longer one fails and is not learnt \
             from; `context_tokens` of the recipe sets the limit",
            preset.name
        ));
    }
}

/// Begins the run, or goes on with it.
fn open(path: &Path, settings: &TrainSettings) -> Result<RunFolder, Failure> {
    let config = settings.to_toml()?;
    if !path.join("config.toml").exists() {
        return Ok(RunFolder::create(path, &config)?);
    }
    let mut folder = RunFolder::open(path)?;
    folder.change_config(&config, MAY_CHANGE)?;
    Ok(folder)
}

fn show_plan(
    settings: &TrainSettings,
    preset: &Preset,
    config: &ModelConfig,
    context: &Context,
) -> Result<(), Failure> {
    tell_narrow(preset, config, context);
    let size = |number: usize| number as u64;
    let shape = Shape {
        hidden: size(config.hidden),
        layers: size(config.layers),
        heads: size(config.heads),
        kv_heads: size(config.kv_heads),
        head_dim: size(config.head_dim),
        intermediate: size(config.intermediate),
        vocabulary: size(config.vocabulary),
        tied: config.tied,
        qkv_bias: config.qkv_bias,
    };
    let episodes = size(settings.rollout.tasks) * u64::from(settings.rollout.samples);
    let context_tokens = size(preset.limits.context_tokens.min(config.max_positions));
    let needs = PlanSettings {
        method: settings.lora.as_ref().map_or(Method::Full, |lora| Method::Lora { rank: size(lora.rank) }),
        episodes,
        parallel: episodes.min(size(settings.rollout.parallel)),
        context: context_tokens,
        generated: context_tokens.min(size(preset.limits.response_tokens) * (size(preset.limits.turns) + 1)),
        batch_tokens: size(settings.update.micro_tokens),
        head_rows: size(LOGIT_ROWS),
        epochs: size(settings.update.epochs),
        reference: settings.objectives()?.needs_reference(),
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let memory = hindsearch::retriever::build::available_memory().unwrap_or(0);
    let (machine, named) = match (settings.device, settings.precision()) {
        (Processor::Cpu, _) => (Machine::cpu(cores, memory), "this machine, in f32"),
        (Processor::Cuda, Precision::F32) => (Machine::h200_in_f32(), "one H200, in f32"),
        (Processor::Cuda, Precision::Bf16) => (Machine::h200(), "one H200, in bf16"),
    };
    let found = plan(&shape, &needs, &machine)?;
    if context.json {
        return context.print_json(&serde_json::json!({ "settings": settings, "plan": found, "machine": named }));
    }
    let mut out = context.out();
    writeln!(out, "{}", settings.to_toml()?)?;
    writeln!(out, "{found}")?;
    writeln!(
        out,
        "Planned for {named}; {} episodes a step; an episode is counted as long as it may be",
        count(episodes)
    )?;
    Ok(out.flush()?)
}

struct Watched<'a> {
    line: Arc<ProgressLine>,
    context: &'a Context,
    /// Which step it is, and how long the run may still take.
    step: Mutex<String>,
}

impl Watch for Watched<'_> {
    fn progress(&self, what: &'static str, done: Progress) {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stage = if step.is_empty() { what.to_owned() } else { format!("{step}: {what}") };
        self.line.show(&stage, "episodes", done);
    }

    fn begins(&self, next: u64, last: u64, seconds: Option<f64>) {
        let left = seconds.map(|seconds| duration(seconds * (last - next + 1) as f64));
        let left = left.map_or(String::new(), |left| format!(", about {left} left"));
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = format!("step {next}/{last}{left}");
    }

    fn skipped(&self, skipped: &Skipped) {
        self.context.tell(format_args!("passed over `{}`: {}", skipped.path.display(), harmless(&skipped.why)));
    }
}

fn tell(notice: Notice<'_>, quiet: bool) {
    let words = match notice {
        Notice::Step(_) if quiet => return,
        Notice::Step(words) | Notice::Trouble(words) => words,
    };
    // Nobody may be reading; the work goes on.
    let _ = writeln!(std::io::stderr(), "{}", harmless(words));
}
