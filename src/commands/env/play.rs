//! `hindsearch env play INDEX`: a person at the terminal is the policy.

use std::io::{BufRead, Write};

use hindsearch::env::{Decision, Message, score, tasks, unescape};

use super::{Chosen, Context, retriever, rules};
use crate::failure::Failure;
use crate::output::harmless;

/// Play an episode yourself
#[derive(clap::Args)]
#[command(after_help = "\
A line is a query; a line that begins with `=` is the answer; a line with the recipe's own tags is taken as it is.

Examples:
  hindsearch env play sample
  hindsearch env play http://127.0.0.1:8000 --preset search-r1 --tasks nq_test.jsonl --seed 7")]
pub struct Args {
    /// The index folder, or the address of a server
    index: String,
    #[command(flatten)]
    chosen: Chosen,
    /// The recipe: a name (`hindsearch env presets`), or a file
    #[arg(long, default_value = "hindsearch")]
    preset: String,
    /// Show the prompt as the policy gets it
    #[arg(long)]
    prompt: bool,
}

/// Asks a question, shows what is found, and tells the reward.
///
/// # Errors
/// Unreadable tasks, an unknown recipe, a missing index.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let rules = rules(&args.preset)?;
    let set = args.chosen.read()?;
    let chosen = tasks::pick(args.chosen.seed, set.tasks().len());
    let Some(task) = chosen.and_then(|at| set.tasks().get(at)) else { return Ok(()) };
    let retriever = retriever(&args.index, context)?;
    let mut episode = rules.begin(task, 0);
    let mut out = context.out();
    if args.prompt {
        for (role, text) in episode.messages() {
            writeln!(out, "--- {role:?}")?;
            text.lines().try_for_each(|line| writeln!(out, "{}", harmless(line)))?;
        }
    }
    writeln!(out, "Question: {}", harmless(task.question()))?;
    writeln!(out, "(a line is a query; `= answer` is the answer)")?;
    let grammar = &rules.preset().grammar;
    let mut lines = std::io::stdin().lock().lines();
    while episode.stop.is_none() {
        write!(out, "> ")?;
        out.flush()?;
        let Some(line) = lines.next().transpose()? else { break };
        let line = line.trim();
        let text = match line.strip_prefix('=') {
            Some(answer) => grammar.answering("", answer.trim()),
            None if line.contains(&grammar.search.open) || line.contains('<') => line.to_owned(),
            None => grammar.searching("", line),
        };
        let next = match rules.decide(&mut episode, Message::text(text))? {
            Decision::Search(queries) => {
                let found = retriever.retrieve(&queries, rules.preset().observation.top_k)?;
                rules.observe(&mut episode, &found)?
            }
            Decision::Next(next) => next,
        };
        for line in unescape(&next.observation).trim().lines() {
            writeln!(out, "{}", harmless(line))?;
        }
    }
    score(&rules, task, &mut episode);
    let why = episode.stop.map_or("given up".to_owned(), |stop| format!("{stop:?}").to_lowercase());
    let golds = task.gold().answers().join(" | ");
    match &episode.reward {
        Some(reward) => {
            let terms = reward.terms.iter().map(|term| format!("{} {}", term.name, term.value));
            let terms = terms.collect::<Vec<_>>().join(", ");
            writeln!(out, "Over ({why}). Reward {} ({terms}). Accepted: {}", reward.total, harmless(&golds))?;
        }
        None => writeln!(out, "Over ({why}), no reward. Accepted: {}", harmless(&golds))?,
    }
    out.flush()?;
    Ok(())
}
