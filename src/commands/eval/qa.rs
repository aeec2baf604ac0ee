//! `hindsearch eval qa INDEX --policy P`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use hindsearch::env::evaluate::{QaReport, QuestionScore, Scores};
use hindsearch::env::{Rollout, RolloutOptions, TRAJECTORIES, TrajectoryLog, read_trajectories};
use hindsearch::indexes::ErrorKind;
use hindsearch::retriever::evaluate::Estimate;
use serde_json::json;

use crate::commands::env::player::{Drawing, Player};
use crate::commands::env::{Chosen, describe, place, rules, telling_of_the_wait, with_tasks};
use crate::commands::experience::Guidance;
use crate::commands::{Context, write_whole};
use crate::failure::Failure;
use crate::output::{count, harmless, shorten};

/// Let a policy answer questions, with or without experience
#[derive(clap::Args)]
#[command(after_help = "\
Each question is played once, greedily, and scored by itself; intervals are of 95 % (bootstrap). Cover exact match rises with the
length of answers, which stands beside it. With `--out` the plays are kept, and the same command goes on with what is left.

Examples:
  hindsearch eval qa sample --policy http://127.0.0.1:8001/v1 --model Qwen/Qwen2.5-3B --tasks nq_test.jsonl
  hindsearch eval qa sample --policy http://127.0.0.1:8001/v1 --model Qwen/Qwen2.5-3B --experience experience.jsonl
  hindsearch eval qa sample --policy guesser --experience experience.jsonl --planning e2+e3 --step none")]
pub struct Args {
    /// The index folder, or addresses of servers, separated by commas
    index: String,
    #[command(flatten)]
    player: Player,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    guidance: Guidance,
    /// The recipe: a name (`hindsearch env presets`), or a file
    #[arg(long, default_value = "hindsearch")]
    preset: String,
    /// Keep the plays in this folder
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Write each question's scores as JSON lines
    #[arg(long, value_name = "FILE")]
    per_question: Option<PathBuf>,
}

impl Args {
    /// Whether plays are kept, so that a run can be gone on with.
    pub fn keeps(&self) -> bool {
        self.out.is_some()
    }
}

const GREEDY: Drawing = Drawing { temperature: 0.0, top_p: 1.0 };

/// Plays, scores and prints.
///
/// # Errors
/// Unreadable tasks, an unknown recipe, a missing index or experience file, a policy that answers no question at all.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let rules = rules(&args.preset)?;
    let set = args.chosen.read()?;
    let policy = args.player.open(set.tasks(), GREEDY)?;
    let place = place(&args.index, context)?;
    let guide = args.guidance.open(place.embedder.as_ref(), context)?;
    let passing = tempfile::tempdir()?;
    let folder = args.out.as_deref().unwrap_or(passing.path());
    let mut facts = args.player.facts(GREEDY);
    facts["preset"] = json!(&**rules.preset());
    facts["index"] = json!(args.index);
    facts["seed"] = json!(args.chosen.seed);
    facts["experience"] = args.guidance.facts(guide.as_ref());
    describe(folder, facts)?;
    let path = folder.join(TRAJECTORIES[0]);
    let mut log = TrajectoryLog::open(&path)?;
    let options =
        RolloutOptions { parallel: args.player.parallel(), seed: args.chosen.seed, ..RolloutOptions::default() };
    let rollout =
        Rollout { rules: &rules, retriever: &*place.retriever, policy: &*policy, guide: guide.as_ref(), options };
    let (progress, begun) = (context.progress(), Instant::now());
    let show = |done| progress.show("answering", "questions", done);
    let outcome = telling_of_the_wait(context, || rollout.run(set.tasks(), &mut log, &show, &context.interrupt));
    progress.finish();
    let summary = outcome?;
    drop(log);
    let (plays, _) = with_tasks(read_trajectories(&path)?, set.tasks());
    let scores: Vec<QuestionScore> = plays.iter().filter_map(|(task, play)| QuestionScore::of(task, play)).collect();
    let Some(report) = QaReport::of(&scores) else {
        let failure = summary.failure.unwrap_or_default();
        let told = format!("none of {} questions was played to its end; the first failure: {failure}", summary.failed);
        return Err(Failure::Verdict(ErrorKind::Unavailable, told));
    };
    if let Some(path) = &args.per_question {
        write_whole(path, |sink| {
            scores.iter().try_for_each(|score| {
                serde_json::to_writer(&mut *sink, score)?;
                Ok(writeln!(sink)?)
            })
        })?;
    }
    let failed = set.tasks().len().saturating_sub(scores.len());
    let seconds = begun.elapsed().as_secs_f64();
    if context.json {
        let (em, f1, cover) = report.mean_of_sources();
        return context.print_json(&json!({
            "report": report, "mean_of_sources": { "em": em, "f1": f1, "cover": cover }, "failed": failed,
            "failure": summary.failure, "seconds": seconds,
        }));
    }
    let mut out = context.out();
    writeln!(out, "{:20} {:>7}  {:20} {:20} {:20} searches  words  advice", "data set", "n", "EM", "F1", "cover EM")?;
    for (source, scores) in &report.sources {
        line(&mut out, source, scores)?;
    }
    if report.sources.len() > 1 {
        line(&mut out, "all questions", &report.all)?;
        let (em, f1, cover) = report.mean_of_sources();
        writeln!(out, "{:20} {:>7}  {em:<20.3} {f1:<20.3} {cover:<20.3}", "mean of data sets", "")?;
    }
    writeln!(out, "{} questions, {seconds:.1} s", count(report.all.n as u64))?;
    if failed > 0 {
        let failure = summary.failure.as_deref().unwrap_or("see the plays");
        writeln!(out, "{} questions failed outside and have no score: {}", count(failed as u64), harmless(failure))?;
    }
    if let Some(guide) = guide.filter(|_| report.all.advice.mean == 0.0) {
        let why = if guide.settings().guides() {
            "no query came near enough to a case (`hindsearch experience show` tells which `--threshold` queries reach), or the recipe's \
             observations have no room for one beside passages"
        } else {
            "`--planning` and `--step` are `none`"
        };
        writeln!(out, "no experience was shown: {why}")?;
    }
    Ok(out.flush()?)
}

fn line(out: &mut dyn Write, name: &str, scores: &Scores) -> std::io::Result<()> {
    let Scores { n, em, f1, cover, searches, words, advice } = scores;
    let told = |Estimate { mean, low, high }: &Estimate| format!("{mean:.3} [{low:.3}, {high:.3}]");
    writeln!(
        out,
        "{:20} {:>7}  {:20} {:20} {:20} {:>8.2} {:>6.2} {:>7.2}",
        shorten(&harmless(name), 20),
        count(*n as u64),
        told(em),
        told(f1),
        told(cover),
        searches.mean,
        words.mean,
        advice.mean
    )
}
