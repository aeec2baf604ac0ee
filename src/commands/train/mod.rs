//! `hindsearch train INDEX --model MODEL --out RUN`.

mod plan;
mod questions;
mod run;
mod settings;
mod teach;
mod watch;

use std::io::Write;
use std::path::PathBuf;

use hindsearch::env::Preset;
use hindsearch::trainer::{DEFAULT_RECIPE, ModelFiles};

use super::Context;
use super::env::place;
use crate::failure::Failure;

pub use questions::Questions;
pub use run::Run;
pub use settings::{How, Resolved};
pub use watch::{Among, Pace, Watched};

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
    let recipe = args.recipe.or(recipe).unwrap_or_else(|| DEFAULT_RECIPE.into());
    let recipe = Preset::load(&recipe)?;
    if args.dry_run {
        let files = ModelFiles::open(&args.model)?;
        return plan::show_plan(&settings, &recipe, files.config(), context);
    }
    let questions = Questions::read(&args.tasks, &args.held_out, settings.seed)?;
    let place = place(&args.index, context)?;
    let run = Run { questions: &questions, model: &args.model, recipe: &recipe, settings: &settings, out: &args.out };
    run.train(&place, &Watched::new(context, None), context)?;
    let (model, curve) = (run.learnt(), run.curve());
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
