//! Many episodes at once: nothing is lost, nothing is scored that something outside has spoilt, and the record is the same
//! whoever waited for whom.

mod support;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hindsearch_env::policy::{Policy, Scripted, Turn};
use hindsearch_env::{
    Error, Message, Result, Rollout, RolloutOptions, Stop, Trajectory, TrajectoryLog, read_trajectories, replay, score,
};
use hindsearch_indexes::Interrupt;
use hindsearch_retriever::{Ranked, Retrieve};
use support::{Shelf, rules, tasks};

fn options(parallel: usize) -> RolloutOptions {
    RolloutOptions {
        parallel: NonZero::new(parallel).expect("some"),
        pause: Duration::from_millis(1),
        ..RolloutOptions::default()
    }
}

/// Searches twice, then gives the number in the question.
fn knows(turn: &Turn<'_>) -> String {
    let number = turn.episode.question.rsplit(' ').next().unwrap_or_default().to_owned();
    match turn.episode.turns.len() {
        0 => format!("<think>I look.</think><search>number {number}</search>"),
        1 => format!("<think>Again.</think><search>seed {}</search>", turn.seed),
        _ => format!("<think>I know.</think><answer>{number}</answer>"),
    }
}

fn run(
    path: &Path,
    shelf: &Shelf,
    policy: &dyn Policy,
    options: RolloutOptions,
    count: usize,
) -> hindsearch_env::Summary {
    let rules = rules();
    let rollout = Rollout { rules: &rules, retriever: shelf, policy, guide: None, options };
    let mut log = TrajectoryLog::open(path).expect("a log");
    rollout.run(&tasks(count), &mut log, &|_| (), &Interrupt::new()).expect("a run")
}

/// The file's lines in the order of their plays.
fn sorted(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn all_are_played_and_scored_and_equal_queries_are_searched_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trajectories.jsonl");
    // Slow enough for batches on a busy machine, too: whoever speaks meanwhile is searched for together.
    let shelf = Shelf { pause: Duration::from_millis(50), ..Shelf::default() };
    let options = RolloutOptions { samples: NonZero::new(3).expect("some"), ..options(1000) };
    let summary = run(&path, &shelf, &Scripted(knows), options, 100);
    assert_eq!((summary.played, summary.failed, summary.reward, summary.messages), (300, 0, 300.0, 900));
    let all = read_trajectories(&path).expect("trajectories");
    assert_eq!(all.len(), 300);
    assert!(all.iter().all(|one| one.stop == Some(Stop::Answer) && one.searches() == 2));
    // Three plays ask the same first question, most of them in one batch; their second one has a seed in it.
    let searched = shelf.queries.load(Ordering::Relaxed);
    assert!((400..450).contains(&searched), "{searched} of 600");
}

#[test]
fn the_record_depends_on_the_seed_and_on_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = |name: &str, parallel, seed| {
        let path = folder.path().join(name);
        run(&path, &Shelf::default(), &Scripted(knows), RolloutOptions { seed, ..options(parallel) }, 60);
        sorted(&path)
    };
    let one = lines("one", 1, 7);
    assert_eq!(one, lines("many", 64, 7));
    assert_ne!(one, lines("other", 64, 8));
}

/// Gives out its messages only when all callers are there, so that several must be.
struct Crowd;

impl Policy for Crowd {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        std::thread::sleep(Duration::from_millis(2));
        turns.iter().map(|turn| Ok(Message::text(knows(turn)))).collect()
    }

    fn callers(&self) -> usize {
        8
    }
}

#[test]
fn many_callers_write_what_one_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (alone, crowd) = (folder.path().join("alone"), folder.path().join("crowd"));
    run(&alone, &Shelf::default(), &Scripted(knows), options(1), 40);
    run(&crowd, &Shelf::default(), &Crowd, options(40), 40);
    assert_eq!(sorted(&alone), sorted(&crowd));
}

#[test]
fn what_fails_outside_is_tried_again_and_never_scored() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trajectories.jsonl");
    // Every fifth call fails, and one query for ever.
    let shelf = Shelf { fails: Some(5), bad: Some("number 13".into()), ..Shelf::default() };
    let summary = run(&path, &shelf, &Scripted(knows), RolloutOptions { retries: 8, ..options(16) }, 50);
    assert_eq!((summary.played, summary.failed, summary.reward), (49, 1, 49.0));
    let all = read_trajectories(&path).expect("trajectories");
    let failed: Vec<&Trajectory> = all.iter().filter(|one| one.error.is_some()).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].question.ends_with(" 13") && failed[0].reward.is_none());
    assert!(failed[0].error.as_ref().is_some_and(|error| error.contains("the secret cause")));
    // The policy never sees what went wrong.
    let shown = |one: &Trajectory| one.spans.iter().any(|span| span.text.contains("secret cause"));
    assert!(!all.iter().any(shown));
}

/// Fails for some, and every other time forgets one.
#[derive(Default)]
struct Moody(AtomicUsize);

impl Policy for Moody {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        let say = |turn: &Turn<'_>| {
            if turn.episode.question.ends_with('3') {
                return Err(Error::Unavailable {
                    what: "model".into(),
                    found: "no answer".into(),
                    remedy: "wait".into(),
                });
            }
            Ok(Message::text(knows(turn)))
        };
        let forgotten = self.0.fetch_add(1, Ordering::Relaxed) % 2;
        turns[..turns.len() - forgotten].iter().map(say).collect()
    }

    fn batch(&self) -> usize {
        4
    }
}

#[test]
fn a_policy_that_fails_costs_its_own_episodes_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trajectories.jsonl");
    let summary = run(
        &path,
        &Shelf::default(),
        &Moody::default(),
        RolloutOptions { retries: 30, pause: Duration::ZERO, ..options(16) },
        30,
    );
    assert_eq!((summary.played, summary.failed), (27, 3));
}

#[test]
fn a_run_goes_on_where_it_was_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["trajectories.jsonl", "trajectories.jsonl.zst"] {
        let (path, whole) = (folder.path().join(name), folder.path().join(format!("whole-{name}")));
        let rules = rules();
        let interrupt = Interrupt::new();
        let policy = Scripted(knows);
        let shelf = Shelf::default();
        let rollout = Rollout { rules: &rules, retriever: &shelf, policy: &policy, guide: None, options: options(4) };
        {
            let mut log = TrajectoryLog::open(&path).expect("a log");
            assert!(TrajectoryLog::open(&path).is_err(), "a second writer");
            let stop = |progress: hindsearch_indexes::Progress| {
                if progress.done >= 10 {
                    interrupt.stop()
                }
            };
            let error = rollout.run(&tasks(50), &mut log, &stop, &interrupt).expect_err("a run that is stopped");
            assert!(matches!(error, Error::Interrupted), "{error}");
        }
        let done = read_trajectories(&path).expect("trajectories").len();
        assert!((10..50).contains(&done), "{done}");
        // A kill leaves a line that is not whole.
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &bytes[..bytes.len() - 9]).expect("a shorter file");
        assert_eq!(read_trajectories(&path).expect("trajectories").len(), done - 1);
        let summary = run(&path, &Shelf::default(), &policy, options(4), 50);
        assert_eq!((summary.resumed, summary.played), (done as u64 - 1, 51 - done as u64));
        run(&whole, &Shelf::default(), &policy, options(4), 50);
        let by_task = |path: &Path| {
            let all = read_trajectories(path).expect("trajectories");
            all.into_iter().map(|one| (one.task.clone(), one)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(by_task(&path), by_task(&whole));
    }
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trajectories.jsonl");
    run(&path, &Shelf::default(), &Scripted(knows), options(1), 2);
    let good = std::fs::read_to_string(&path).expect("a file");
    for (line, words) in [
        ("{\"a\": 1}\n", "line 3"),
        ("text\n", "line 3"),
        (&*good.replace("\"version\":1", "\"version\":2"), "version 2"),
    ] {
        let bad = format!("{good}{line}");
        std::fs::write(&path, &bad).expect("a file");
        for error in [TrajectoryLog::open(&path).err(), read_trajectories(&path).err()] {
            let error = error.expect("a refusal").to_string();
            assert!(error.contains(words) && error.contains("trajectories.jsonl"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), bad);
    }
}

#[test]
fn a_trajectory_is_played_again_byte_for_byte_and_scored_without_playing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trajectories.jsonl");
    run(&path, &Shelf::default(), &Scripted(knows), options(8), 20);
    let (rules, tasks) = (rules(), tasks(20));
    for trajectory in read_trajectories(&path).expect("trajectories") {
        let task = tasks.iter().find(|task| task.id() == trajectory.task).expect("its task");
        let again = replay(&rules, task, &Shelf::default(), &trajectory).expect("a replay");
        assert_eq!(serde_json::to_string(&again).expect("JSON"), serde_json::to_string(&trajectory).expect("JSON"));
        let mut bare = hindsearch_env::Trajectory { reward: None, ..trajectory.clone() };
        score(&rules, task, &mut bare);
        assert_eq!(bare, trajectory);
    }
}

/// Panics at its second message.
#[derive(Default)]
struct Broken(AtomicUsize);

impl Policy for Broken {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) == 0, "a defect of a policy");
        turns.iter().map(|turn| Ok(Message::text(knows(turn)))).collect()
    }
}

#[test]
fn a_policy_that_panics_ends_the_run_and_does_not_hang_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rules, shelf, policy) = (rules(), Shelf::default(), Broken::default());
    let rollout = Rollout { rules: &rules, retriever: &shelf, policy: &policy, guide: None, options: options(4) };
    let mut log = TrajectoryLog::open(&folder.path().join("t.jsonl")).expect("a log");
    let error = rollout.run(&tasks(4), &mut log, &|_| (), &Interrupt::new()).expect_err("a run that ends");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

/// Is there for a while, and then away.
struct Leaves {
    shelf: Shelf,
    searches: AtomicUsize,
    stays: usize,
}

impl Retrieve for Leaves {
    fn retrieve(&self, queries: &[String], top_k: usize) -> hindsearch_retriever::Result<Vec<Vec<Ranked>>> {
        if self.searches.fetch_add(1, Ordering::Relaxed) < self.stays {
            return self.shelf.retrieve(queries, top_k);
        }
        Err(hindsearch_retriever::Error::Unavailable {
            what: "the shelf".into(),
            found: "gone".into(),
            remedy: "wait".into(),
        })
    }
}

#[test]
fn a_retriever_that_stays_away_ends_the_run_which_goes_on_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.jsonl");
    let policy = Scripted(knows);
    let rules = rules();
    let (tasks, interrupt) = (tasks(20), Interrupt::new());
    let rollout = |stays: usize| {
        let retriever = Leaves { shelf: Shelf::default(), searches: AtomicUsize::new(0), stays };
        let options = RolloutOptions { patience: Duration::ZERO, ..options(2) };
        let mut log = TrajectoryLog::open(&path).expect("a log");
        Rollout { rules: &rules, retriever: &retriever, policy: &policy, guide: None, options }.run(
            &tasks,
            &mut log,
            &|_| (),
            &interrupt,
        )
    };
    let error = rollout(12).expect_err("it is away").to_string();
    assert!(error.contains("the retriever: nothing for") && error.contains("goes on with what is left"), "{error}");
    let played = read_trajectories(&path).expect("trajectories");
    assert!(!played.is_empty() && played.len() < 20, "{}", played.len());
    assert!(played.iter().all(|episode| episode.error.is_none()), "nobody pays for it");
    let summary = rollout(usize::MAX).expect("a run");
    assert_eq!((summary.resumed, summary.played, summary.failed), (played.len() as u64, 20 - played.len() as u64, 0));
}
