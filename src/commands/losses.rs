//! `hindsearch losses RUN --model MODEL`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch::env::Trajectory;
use hindsearch::trainer::{Decoder, Language, Learner, Metrics, ModelFiles, Sample};
use serde::Serialize;
use serde_json::{Value, json};

use super::env::{Played, trajectories};
use super::train::How;
use super::{Context, write_whole};
use crate::failure::Failure;
use crate::output::count;

/// Tell what an objective makes of episodes that were played elsewhere
#[derive(clap::Args)]
#[command(after_help = "\
Episodes of one task are a group; those without a reward are left out. What the policy wrote has its log-probabilities in the file, or
counts as written by this model. Nothing is learnt: the loss and its gradient's norm are told, as an update would see them. Of the settings
`objective`, `update` and `rollout.sampling.temperature` count here.

`--out` gets a line an episode: `source`, `task`, `sample`, `reward`, `advantage`, `tokens` (all that the model saw), `places` (of those that the
policy wrote, from 0), `in_query` (which of these are in a query) and `logprobs` (of these under this model, natural logarithms, at the
temperature of `rollout.sampling`). The reference of a divergence is the model itself: it is 0 here.

Examples:
  hindsearch losses runs/vllm --model models/Qwen2.5-0.5B-Instruct
  hindsearch losses runs/vllm/trajectories.jsonl --model m --override objective=gspo --out losses.jsonl")]
pub struct Args {
    /// The run's folder (of a training run the last step), or a file of trajectories
    run: PathBuf,
    /// The model: a folder of Hugging Face's form, or a GGUF file
    #[arg(long)]
    model: PathBuf,
    #[command(flatten)]
    how: How,
    /// The recipe whose prompt was shown; without it each trajectory's own
    #[arg(long, value_name = "NAME|FILE")]
    recipe: Option<String>,
    /// Write what each episode's tokens are, and how likely
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints losses.
///
/// # Errors
/// Unusable settings, trajectories and models; what the library says.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let settings = args.how.resolve()?.settings;
    let episodes = trajectories(&args.run)?;
    let files = ModelFiles::open(&args.model)?;
    let language = Language::open(&files)?;
    let advantages = settings.objectives()?.advantage.of_episodes(&episodes);
    let mut played = Played::of(&args.run, args.recipe.as_deref())?;
    let (mut rewarded, mut samples) = (Vec::new(), Vec::new());
    for (episode, advantage) in episodes.iter().zip(advantages) {
        if let Some(advantage) = advantage {
            let prompt = &played.rules(episode)?.preset().prompt;
            samples.push(Sample::new(&language, prompt, episode, advantage)?);
            rewarded.push(episode);
        }
    }
    if samples.is_empty() {
        let found = episodes.len();
        return Err(Failure::Usage(format!(
            "`{}`: expected episodes with rewards, found none among {found}; `hindsearch env score` gives them",
            args.run.display()
        )));
    }
    let decoder = Decoder::placed(files.config(), files.weights()?, true, &settings.placement()?)?;
    let learner = settings.learner(Arc::new(decoder))?;
    if let Some(path) = &args.out {
        write(path, &learner, &rewarded, &samples)?;
        context.tell(format_args!("wrote {} episodes to `{}`", count(samples.len() as u64), path.display()));
    }
    let metrics = learner.gradients(&samples)?;
    tell(&metrics, learner.gradient_norm()?, samples.len(), episodes.len() - samples.len(), context)
}

/// A line of `--out`.
#[derive(Serialize)]
struct Told<'a> {
    source: &'a str,
    task: &'a str,
    sample: u32,
    reward: Option<f64>,
    advantage: f64,
    tokens: &'a [u32],
    places: &'a [usize],
    in_query: &'a [bool],
    logprobs: Vec<f32>,
}

fn write(path: &Path, learner: &Learner, episodes: &[&Trajectory], samples: &[Sample]) -> Result<(), Failure> {
    let logprobs = learner.logprobs(samples)?;
    write_whole(path, |sink| {
        for ((episode, sample), logprobs) in episodes.iter().zip(samples).zip(logprobs) {
            let line = Told {
                source: &episode.source,
                task: &episode.task,
                sample: episode.sample,
                reward: episode.reward.as_ref().map(|reward| reward.total),
                advantage: sample.advantage,
                tokens: &sample.tokens,
                places: &sample.places,
                in_query: &sample.in_query,
                logprobs,
            };
            serde_json::to_writer(&mut *sink, &line)?;
            writeln!(sink)?;
        }
        Ok(())
    })
}

fn tell(metrics: &Metrics, norm: f64, told: usize, failed: usize, context: &Context) -> Result<(), Failure> {
    let mut all: serde_json::Map<String, Value> =
        metrics.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    all.insert("gradient_norm".into(), json!(norm));
    all.insert("episodes".into(), json!(told));
    all.insert("episodes_without_reward".into(), json!(failed));
    if context.json {
        return context.print_json(&all);
    }
    let mut out = context.out();
    let widest = all.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in all {
        writeln!(out, "{name:widest$}  {value}")?;
    }
    Ok(out.flush()?)
}
