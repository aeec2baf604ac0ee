//! Episodes that are imitated before rewards count: one that knows the format, and is mostly misled, plays; some of its better episodes
//! stand behind a hint as a teacher would see it, or are guided by experience.

use std::collections::HashMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use hindsearch::env::experience::{ExperienceSettings, Guide, KeyEmbedder};
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
use super::world::{Page, name_in};

/// Tasks whose episodes are shown, and plays of each. The last play of a task answers wrongly, and is only there to be criticised.
const TASKS: usize = 1500;
const PLAYS: u32 = 6;
/// Shares of plays that search for the whole question, and that leave out its first word; the others search for the name.
const WHOLE: f64 = 0.6;
const SHORTER: f64 = 0.15;
/// The least cosine at which a case stands behind passages; queries of made-up names are seldom nearer to one another.
const THRESHOLD: f32 = 0.5;

/// One that searches as the misled do, or as it is advised, and answers what it finds.
struct Tutor<'a> {
    words: HashMap<&'a str, &'a str>,
    is_advised: bool,
}

impl Policy for Tutor<'_> {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<hindsearch::env::Result<Message>> {
        turns.iter().map(|turn| Ok(Message::text(self.say(turn)))).collect()
    }
}

impl<'a> Tutor<'a> {
    fn new(pages: &'a [Page], is_advised: bool) -> Self {
        Self { words: pages.iter().map(|page| (&*page.id, &*page.words)).collect(), is_advised }
    }

    fn say(&self, turn: &Turn<'_>) -> String {
        let (grammar, episode) = (&turn.rules.preset().grammar, turn.episode);
        let (question, task) = (episode.question.as_str(), &*episode.task);
        let place = Position { seed: 0, purpose: "tutor", update: 0, task, sample: u64::from(episode.sample) };
        let is_wrong = episode.sample + 1 == PLAYS;
        let Some(found) = episode.turns.first().and_then(|turn| turn.found.as_ref()) else {
            let query = match place.stream().random::<f64>() {
                _ if is_wrong || self.is_advised => name_in(question),
                share if share < WHOLE => question,
                share if share < WHOLE + SHORTER => question.split_once(' ').map_or(question, |(_, rest)| rest),
                _ => name_in(question),
            };
            return grammar.searching(episode, "", query);
        };
        let best = found.first().and_then(|ranking| ranking.first());
        let words = best.and_then(|best| self.words.get(best.id.as_str())).copied().unwrap_or_default();
        let answer = if is_wrong { question.rsplit_once(' ').map_or("", |(before, _)| before) } else { words };
        grammar.answering(episode, "", answer)
    }

    fn plays(&self, retriever: &Retriever, tasks: &[Task], guide: Option<&Guide>, path: &Path) -> Outcome<()> {
        let rules = Rules::new(Arc::new(Preset::load("examples/small_world/recipe.toml")?));
        let samples =
            if self.is_advised { NonZero::<u32>::MIN } else { NonZero::new(PLAYS).unwrap_or(NonZero::<u32>::MIN) };
        let options = RolloutOptions { samples, ..RolloutOptions::default() };
        let rollout = Rollout { rules: &rules, retriever, policy: self, guide, options };
        begin(path)?;
        rollout.run(tasks, &mut TrajectoryLog::open(path)?, &|_| {}, &Interrupt::default())?;
        Ok(())
    }
}

/// Plays of the misled.
pub fn plays(retriever: &Retriever, pages: &[Page], tasks: &[Task], path: &Path) -> Outcome<()> {
    Tutor::new(pages, false).plays(retriever, &tasks[..TASKS.min(tasks.len())], None, path)
}

/// Episodes to imitate, in an order by chance, from the plays of the misled and the experience that was built of them.
pub fn episodes(retriever: &Retriever, pages: &[Page], tasks: &[Task], world: &Path) -> Outcome<Vec<Trajectory>> {
    let tasks = &tasks[..TASKS.min(tasks.len())];
    let mut by_task: HashMap<String, Vec<Trajectory>> = HashMap::new();
    for episode in read_trajectories(&world.join("plays.jsonl"))? {
        by_task.entry(episode.task.clone()).or_default().push(episode);
    }
    let critic = RuleCritic::new(CriticOptions::default(), |id: &str| retriever.passage(id).ok().flatten())?;
    let mut shown = Vec::new();
    for task in tasks {
        let mut attempts = by_task.remove(task.id()).unwrap_or_default();
        attempts.sort_by_key(|attempt| attempt.sample);
        shown.extend(of_task(task, &attempts, &critic)?);
    }
    let settings = ExperienceSettings { threshold: THRESHOLD, ..ExperienceSettings::published() };
    let keys = KeyEmbedder::of(retriever.embedder().clone());
    let guide = Guide::open(&world.join("lessons.jsonl"), settings, keys)?;
    let guided = tempfile::Builder::new().suffix(".jsonl").tempfile()?;
    Tutor::new(pages, true).plays(retriever, tasks, Some(&guide), guided.path())?;
    shown.extend(read_trajectories(guided.path())?);
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
    begin(path)?;
    let mut log = TrajectoryLog::open(path)?;
    Ok(episodes.iter().try_for_each(|episode| log.append(episode))?)
}

/// What an earlier try has left is in the way.
fn begin(path: &Path) -> Outcome<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}
