//! How long the rules take for a step, and how much a rollout adds to the time of its searches.
//!
//!     cargo run --release -p hindsearch-env --example episode_speed -- INDEX [AT LEAST SO MANY EPISODES]
//!
//! Prints one JSON object: microseconds a step without and with an observation of three passages, seconds of the searches alone
//! (the same queries, in batches as a rollout makes them) and of a rollout of four searches and an answer each.

use std::hint::black_box;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use hindsearch_env::policy::{Scripted, Turn};
use hindsearch_env::tasks::built_in;
use hindsearch_env::{Decision, Message, Preset, Rollout, RolloutOptions, Rules, Task, TrajectoryLog};
use hindsearch_indexes::Interrupt;
use hindsearch_retriever::{OpenOptions, Ranked, Retrieve, Retriever};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Four searches, no two the same, then an answer.
fn say(turn: &Turn<'_>) -> String {
    let grammar = &turn.rules.preset().grammar;
    match turn.episode.turns.len() {
        number @ 0..4 => {
            grammar.searching(turn.episode, "More.", &query(&turn.episode.question, turn.episode.sample, number))
        }
        _ => grammar.answering(turn.episode, "Enough.", "unknown"),
    }
}

fn query(question: &str, sample: u32, turn: usize) -> String {
    format!("{question} {sample} {turn}")
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let index = arguments.next().ok_or("usage: episode_speed INDEX [EPISODES]")?;
    let episodes: usize = arguments.next().map_or(Ok(512), |count| count.parse())?;
    let retriever = Retriever::open(index.as_ref(), OpenOptions::default())?;
    let rules = Rules::new(Arc::new(Preset::named("hindsearch")?));
    let set = built_in("sample")?;
    let tasks: Vec<Task> = set.tasks().to_vec();
    let samples = episodes.div_ceil(tasks.len()) as u32;

    let (bare, shown) = step_microseconds(&rules, &tasks[0], &retriever.retrieve(&["a river".into()], 3)?)?;

    let plays = || tasks.iter().flat_map(|task| (0..samples).map(move |sample| (task, sample))).take(episodes);
    let queries = |turn| plays().map(|(task, sample)| query(task.question(), sample, turn)).collect::<Vec<_>>();
    // Loads the model on every thread.
    retriever.retrieve(&queries(9)[..256.min(episodes)], 3)?;
    let begun = Instant::now();
    for turn in 0..4 {
        for batch in queries(turn).chunks(256) {
            black_box(retriever.retrieve(batch, 3)?);
        }
    }
    let searches = begun.elapsed().as_secs_f64();

    let folder = tempfile::tempdir()?;
    let mut log = TrajectoryLog::open(&folder.path().join("trajectories.jsonl"))?;
    let policy = Scripted(say);
    let chosen = &tasks[..episodes.min(tasks.len())];
    let options = RolloutOptions {
        samples: NonZero::new(samples).ok_or("no episodes")?,
        parallel: NonZero::new(episodes).ok_or("no episodes")?,
        ..RolloutOptions::default()
    };
    let rollout = Rollout { rules: &rules, retriever: &retriever, policy: &policy, guide: None, options };
    let begun = Instant::now();
    let summary = rollout.run(chosen, &mut log, &|_| (), &Interrupt::new())?;
    let seconds = begun.elapsed().as_secs_f64();
    let per_search = searches / (episodes * 4) as f64;
    let report = json!({
        "step_us": bare, "step_with_observation_us": shown, "episodes": summary.played, "searches": summary.searches,
        "searches_alone_s": per_search * summary.searches as f64, "rollout_s": seconds,
        "ratio": seconds / (per_search * summary.searches as f64),
    });
    #[expect(clippy::print_stdout, reason = "it is what the example is for")]
    {
        println!("{report}");
    }
    Ok(())
}

/// Of a message that is no action, and of a search with what was found.
fn step_microseconds(rules: &Rules, task: &Task, found: &[Vec<Ranked>]) -> Outcome<(f64, f64)> {
    const ROUNDS: u32 = 20_000;
    let fresh = rules.begin(task, 0);
    let (mut bare, mut shown) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let mut episode = fresh.clone();
        let begun = Instant::now();
        black_box(rules.decide(&mut episode, Message::text("<think>I do not know what to do.</think>"))?);
        bare += begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        if let Decision::Search(_) =
            rules.decide(&mut episode, Message::text("<think>So.</think><search> a river </search>"))?
        {
            black_box(rules.observe(&mut episode, found)?);
        }
        shown += begun.elapsed().as_secs_f64();
    }
    let microseconds = |seconds: f64| seconds * 1e6 / f64::from(ROUNDS);
    Ok((microseconds(bare), microseconds(shown)))
}
