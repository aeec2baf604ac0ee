//! `hindsearch env play INDEX`: a person at the terminal is the policy.

use std::io::{BufRead, BufWriter, StdoutLock, Write};

use hindsearch::env::{Decision, Message, Rules, Task, Trajectory, Transition, score, tasks, unescape};
use serde_json::{Value, json};

use super::{Chosen, Context, retriever, rules};
use crate::failure::Failure;
use crate::output::harmless;

/// Play an episode yourself
#[derive(clap::Args)]
#[command(after_help = "\
A line is a query; a line that begins with `=` is the answer; a line with the recipe's own tags is taken as it is. With `--json` stdout is a
line of JSON for the question, for each turn and for the end.

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
    let mut table = Table { out: context.out(), json: context.json };
    table.begin(&rules, &episode, args.prompt)?;
    let grammar = &rules.preset().grammar;
    let mut lines = std::io::stdin().lock().split(b'\n');
    while episode.stop.is_none() {
        table.ask()?;
        let Some(line) = lines.next().transpose()? else { break };
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let text = match line.strip_prefix('=') {
            Some(answer) => grammar.answering(&episode, "", answer.trim()),
            None if line.contains(&grammar.search.open) || line.contains('<') => line.to_owned(),
            None => grammar.searching(&episode, "", line),
        };
        let next = match rules.decide(&mut episode, Message::text(text))? {
            Decision::Search(queries) => {
                let found = retriever.retrieve(&queries, rules.preset().observation.top_k)?;
                rules.observe(&mut episode, &found)?
            }
            Decision::Next(next) => next,
        };
        table.show(&rules, &episode, &next)?;
    }
    score(&rules, task, &mut episode);
    table.end(task, &episode)
}

/// What the player sees: words, or a line of JSON for each thing that happens.
struct Table {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
}

impl Table {
    fn line(&mut self, value: &Value) -> Result<(), Failure> {
        writeln!(self.out, "{value}")?;
        Ok(self.out.flush()?)
    }

    fn begin(&mut self, rules: &Rules, episode: &Trajectory, prompt: bool) -> Result<(), Failure> {
        let (turns, searches) = rules.left(episode);
        if self.json {
            let messages = episode.messages().into_iter().map(|(role, text)| json!({ "role": role, "content": text }));
            let messages = prompt.then(|| messages.collect::<Vec<_>>());
            return self.line(&json!({
                "event": "question", "task": episode.task, "question": episode.question, "preset": episode.preset, "messages": messages,
                "turns_left": turns, "searches_left": searches,
            }));
        }
        if prompt {
            for (role, text) in episode.messages() {
                writeln!(self.out, "--- {role:?}")?;
                text.lines().try_for_each(|line| writeln!(self.out, "{}", harmless(line)))?;
            }
        }
        writeln!(self.out, "Question: {}", harmless(&episode.question))?;
        writeln!(self.out, "(a line is a query; `= answer` is the answer)")?;
        writeln!(self.out, "({})", left_in_words(turns, searches))?;
        Ok(())
    }

    /// Wants a line.
    fn ask(&mut self) -> Result<(), Failure> {
        if !self.json {
            write!(self.out, "> ")?;
        }
        Ok(self.out.flush()?)
    }

    fn show(&mut self, rules: &Rules, episode: &Trajectory, next: &Transition) -> Result<(), Failure> {
        let (turns, searches) = rules.left(episode);
        if self.json {
            let action = episode.turns.last().map(|turn| &turn.action);
            return self.line(&json!({
                "event": "turn", "action": action, "observation": next.observation, "stop": next.stop,
                "turns_left": turns, "searches_left": searches,
            }));
        }
        for line in unescape(&next.observation).trim().lines() {
            writeln!(self.out, "{}", harmless(line))?;
        }
        if next.stop.is_none() {
            writeln!(self.out, "({})", left_in_words(turns, searches))?;
        }
        Ok(())
    }

    fn end(mut self, task: &Task, episode: &Trajectory) -> Result<(), Failure> {
        let golds = task.gold().answers();
        if self.json {
            let reward = &episode.reward;
            return self.line(&json!({ "event": "over", "stop": episode.stop, "reward": reward, "accepted": golds }));
        }
        let why = episode.stop.map_or("given up".to_owned(), |stop| format!("{stop:?}").to_lowercase());
        let golds = golds.join(" | ");
        match &episode.reward {
            Some(reward) => {
                let terms = reward.terms.iter().map(|term| format!("{} {}", term.name, term.value));
                let terms = terms.collect::<Vec<_>>().join(", ");
                writeln!(self.out, "Over ({why}). Reward {} ({terms}). Accepted: {}", reward.total, harmless(&golds))?;
            }
            None => writeln!(self.out, "Over ({why}), no reward. Accepted: {}", harmless(&golds))?,
        }
        Ok(self.out.flush()?)
    }
}

fn left_in_words(turns: usize, searches: usize) -> String {
    let many = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    format!("{} left, {} among them", many(turns, "message", "messages"), many(searches, "search", "searches"))
}
