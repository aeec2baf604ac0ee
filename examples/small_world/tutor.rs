//! Episodes that are imitated before rewards count: one that knows the format, and is mostly misled, plays; some of its better episodes
//! stand behind a hint as a teacher would see it.

use std::collections::HashMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use hindsearch::env::hindsight::{
    Critic, CriticOptions, Placement, RuleCritic, SiblingOptions, Siblings, failures, is_correct, placed,
};
use hindsearch::env::policy::{Policy, Turn};
use hindsearch::env::{
    Message, Preset, Rollout, RolloutOptions, Rules, Task, Trajectory, TrajectoryLog, read_trajectories,
};
use hindsearch::indexes::Interrupt;
use hindsearch::retriever::{Retrieve, Retriever};
use hindsearch::trainer::Position;
use rand::RngExt;

use super::Outcome;
use super::world::{Page, Question};

/// Tasks whose episodes are shown, and plays of each. The last play of a task answers wrongly, and is only there to be criticised.
const TASKS: usize = 1500;
const PLAYS: u32 = 6;
/// Shares of plays that search for the whole question, and that leave out its first word; the others search for the name.
const WHOLE: f64 = 0.6;
const SHORTER: f64 = 0.15;

/// One that searches as the misled do, and answers what it finds.
struct Tutor<'a> {
    names: HashMap<&'a str, &'a str>,
    words: HashMap<&'a str, &'a str>,
}

impl Policy for Tutor<'_> {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<hindsearch::env::Result<Message>> {
        turns.iter().map(|turn| Ok(Message::text(self.say(turn)))).collect()
    }
}

impl Tutor<'_> {
    fn say(&self, turn: &Turn<'_>) -> String {
        let (grammar, episode) = (&turn.rules.preset().grammar, turn.episode);
        let (question, task) = (episode.question.as_str(), &*episode.task);
        let place = Position { seed: 0, purpose: "tutor", update: 0, task, sample: u64::from(episode.sample) };
        let name = self.names.get(task).copied().unwrap_or(question);
        let is_wrong = episode.sample + 1 == PLAYS;
        let Some(found) = episode.turns.first().and_then(|turn| turn.found.as_ref()) else {
            let query = match place.stream().random::<f64>() {
                _ if is_wrong => name,
                share if share < WHOLE => question,
                share if share < WHOLE + SHORTER => question.split_once(' ').map_or(question, |(_, rest)| rest),
                _ => name,
            };
            return grammar.searching(episode, "", query);
        };
        let best = found.first().and_then(|ranking| ranking.first());
        let words = best.and_then(|best| self.words.get(best.id.as_str())).copied().unwrap_or_default();
        let answer = if is_wrong { question.rsplit_once(' ').map_or("", |(before, _)| before) } else { words };
        grammar.answering(episode, "", answer)
    }
}

/// Episodes to imitate, in an order by chance.
pub fn episodes(retriever: &Retriever, pages: &[Page], questions: &[Question]) -> Outcome<Vec<Trajectory>> {
    let preset = Preset::load("examples/small_world/recipe.toml")?;
    let rules = Rules::new(Arc::new(preset));
    let task = |question: &Question| {
        let gold = vec![question.page.words.clone()];
        Task::new(question.text.clone(), gold, "small-world".into()).with_passages(vec![question.page.id.clone()])
    };
    let questions = &questions[..TASKS.min(questions.len())];
    let tasks: Vec<Task> = questions.iter().map(task).collect();
    let names = tasks.iter().zip(questions).map(|(task, question)| (task.id(), question.page.name.as_str()));
    let words = pages.iter().map(|page| (page.id.as_str(), page.words.as_str()));
    let policy = Tutor { names: names.collect(), words: words.collect() };
    let samples = NonZero::new(PLAYS).unwrap_or(NonZero::<u32>::MIN);
    let options = RolloutOptions { samples, ..RolloutOptions::default() };
    let rollout = Rollout { rules: &rules, retriever, policy: &policy, guide: None, options };
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile()?;
    rollout.run(&tasks, &mut TrajectoryLog::open(file.path())?, &|_| {}, &Interrupt::default())?;
    let mut by_task: HashMap<String, Vec<Trajectory>> = HashMap::new();
    for episode in read_trajectories(file.path())? {
        by_task.entry(episode.task.clone()).or_default().push(episode);
    }
    let critic = RuleCritic::new(CriticOptions::default(), |id: &str| retriever.passage(id).ok().flatten())?;
    let mut shown = Vec::new();
    for task in &tasks {
        let mut attempts = by_task.remove(task.id()).unwrap_or_default();
        attempts.sort_by_key(|attempt| attempt.sample);
        shown.extend(of_task(task, &attempts, &critic)?);
    }
    super::world::shuffle(&mut shown, "warm-up");
    (0..).zip(&mut shown).for_each(|(number, episode)| episode.sample = number);
    Ok(shown)
}

/// Two plays as they are, and a good one behind each of two hints.
fn of_task(task: &Task, attempts: &[Trajectory], critic: &dyn Critic) -> Outcome<Vec<Trajectory>> {
    let Some((wrong, played)) = attempts.split_last() else { return Ok(Vec::new()) };
    let mut shown: Vec<Trajectory> = played.iter().take(2).cloned().collect();
    let Some(good) = played.iter().find(|attempt| is_correct(task, attempt)) else { return Ok(shown) };
    let mut behind = |hint: &str| shown.push(placed(good, hint, Placement::UserPrefix).episode);
    let all: Vec<&Trajectory> = played.iter().collect();
    let failed = failures(task, &all).first().map_or(wrong, |place| all[*place]);
    // Now and then one that found what it needed, and answered something else.
    let criticised = if good.sample % 2 == 0 { failed } else { wrong };
    for critique in critic.critique(&[(task, criticised)]) {
        critique?.iter().for_each(|critique| behind(&critique.hint().text()));
    }
    let block = Siblings { task, attempts: &all, own: 0 }.block(&SiblingOptions::default(), 0);
    block.iter().for_each(|block| behind(&block.text()));
    Ok(shown)
}

/// Writes episodes down.
pub fn write(path: &Path, episodes: &[Trajectory]) -> Outcome<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    let mut log = TrajectoryLog::open(path)?;
    Ok(episodes.iter().try_for_each(|episode| log.append(episode))?)
}
