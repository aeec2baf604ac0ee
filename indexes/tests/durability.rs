//! After a kill, a power cut or a failing disk, the index is the old one or the new one, whole.
//!
//! `PROPTEST_CASES` sets the number of random histories.

mod support;

use std::env;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use hindsearch_indexes::storage::{Disk, Storage};
use hindsearch_indexes::{Error, ErrorKind, FolderLock, Generation, Staging, collect_on};
use proptest::prelude::*;
use tempfile::TempDir;

use support::build::{FILES, Promises, append, build, check, check_promises, content};
use support::faulty::{Fault, Faulty, READY};
use support::scratch;
use support::volatile::{Loss, Volatile};

/// Larger than the number of calls of any run.
const NEVER: usize = usize::MAX;

fn root() -> PathBuf {
    // Two folders that do not exist yet, so that making them is part of the test.
    PathBuf::from("/disk/indexes/wiki")
}

/// One process that works on the index.
#[derive(Debug, Clone, Copy)]
enum Run {
    Build(u64),
    /// Adds a shard, where there is an index.
    Append(u64),
    Collect,
    /// Moves the index to a file system that gives no file a second name.
    Move,
}

/// A process, and how it ends.
#[derive(Debug, Clone, Copy)]
struct Step {
    run: Run,
    /// The call to the storage at which it stops.
    stop_at: usize,
    /// The power is cut then; otherwise only the process dies.
    power_cut: Option<Loss>,
}

impl Step {
    fn whole(run: Run) -> Self {
        Self { run, stop_at: NEVER, power_cut: None }
    }
}

/// A disk with a past.
struct History {
    disk: Arc<Volatile>,
    promises: Promises,
}

impl History {
    fn new() -> Self {
        Self { disk: Arc::new(Volatile::new()), promises: Promises::default() }
    }

    fn of(steps: &[Step]) -> Self {
        let mut history = Self::new();
        for step in steps {
            history.play(*step);
        }
        history
    }

    /// A copy to go on with.
    fn fork(&self) -> Self {
        Self { disk: Arc::new(self.disk.kill()), promises: self.promises.clone() }
    }

    /// A copy after a power cut.
    fn cut(&self, loss: Loss) -> Self {
        Self { disk: Arc::new(self.disk.power_cut(loss)), promises: self.promises.clone() }
    }

    /// Plays a step, and gives the number of calls that it made.
    fn play(&mut self, step: Step) -> usize {
        let storage = Arc::new(Faulty::new(self.disk.clone(), step.stop_at, Fault::Stop));
        match step.run {
            Run::Build(id) => drop(build(storage.clone(), &root(), id, &mut self.promises)),
            Run::Append(id) => drop(append(storage.clone(), &root(), id, &mut self.promises)),
            Run::Collect => drop(collect_on(storage.clone(), &root(), 0)),
            Run::Move => self.disk.refuse_links(),
        }
        self.disk = Arc::new(match step.power_cut {
            Some(loss) => self.disk.power_cut(loss),
            None => self.disk.kill(),
        });
        storage.calls().len()
    }

    fn check(&self) -> Result<(), String> {
        self.check_sealed()?;
        check(Arc::new(self.disk.kill()), &root(), &self.promises)
    }

    /// Nothing may be written to the files of the current generation, also once the next process has made its
    /// preparations.
    fn check_sealed(&self) -> Result<(), String> {
        let disk = Arc::new(self.disk.kill());
        let Ok(current) = Generation::open_current_on(disk.clone(), &root()) else { return Ok(()) };
        let next = FolderLock::acquire_on(disk.clone(), &root()).and_then(Staging::create_or_resume);
        next.map_err(|e| format!("resuming fails: {e}"))?;
        let names = disk.list(current.path()).map_err(|e| e.to_string())?;
        match names.iter().find(|entry| disk.is_writable(&current.path().join(&entry.name))) {
            Some(entry) if entry.name != "build.json" => Err(format!("{:?} is writable", entry.name)),
            _ => Ok(()),
        }
    }

    fn keeps_promises(&self) -> bool {
        let copy: Arc<dyn Storage> = Arc::new(self.disk.kill());
        check_promises(&copy, &root(), &self.promises).is_ok()
    }
}

/// The number of the call that does `operation` for the `nth` time, counted from 1.
fn call(past: &[Step], run: Run, operation: &str, nth: usize) -> usize {
    let mut history = History::of(past);
    let storage = Arc::new(Faulty::new(history.disk.clone(), NEVER, Fault::Stop));
    match run {
        Run::Build(id) => build(storage.clone(), &root(), id, &mut history.promises).map(drop),
        Run::Append(id) => append(storage.clone(), &root(), id, &mut history.promises).map(drop),
        Run::Collect => collect_on(storage.clone(), &root(), 0).map(drop),
        Run::Move => Ok(()),
    }
    .expect("a sound disk");
    let calls = storage.calls();
    let mut found = calls.iter().zip(1..).filter(|((name, _), _)| *name == operation);
    found.nth(nth - 1).expect("as many such calls").1
}

/// Pasts that lead to every line of the commit path, each with the last run, whose syncs are put to the test.
fn histories() -> Vec<(Vec<Step>, Run)> {
    let first = Step::whole(Run::Build(1));
    let renames = |past: &[Step]| {
        let count = |nth| call(past, Run::Build(2), "rename", nth);
        // Three of states, one of the folder, one of `CURRENT`.
        (count(3), count(4), count(5))
    };
    let (state, folder, current) = renames(&[first]);
    let killed = |stop_at| Step { run: Run::Build(2), stop_at, power_cut: None };
    let grown = Step::whole(Run::Append(2));
    let renamed = |nth| call(&[first], Run::Append(2), "rename", nth);
    let moved = Step::whole(Run::Move);
    let copied = call(&[first, moved], Run::Append(2), "rename", 4);
    let killed_append = |stop_at| Step { run: Run::Append(2), stop_at, power_cut: None };
    vec![
        (vec![], Run::Build(1)),
        (vec![first], Run::Build(2)),
        // Another build finds the state of one that was killed.
        (vec![first, killed(state + 1)], Run::Build(3)),
        // The same build finds a folder that was renamed, but never became current.
        (vec![first, killed(folder + 1)], Run::Build(2)),
        (vec![first, killed(folder + 1)], Run::Build(3)),
        // The last build died before it could sync the new `CURRENT`.
        (vec![first, killed(current + 1)], Run::Build(3)),
        (vec![first, killed(current + 1)], Run::Collect),
        (vec![first], Run::Append(2)),
        // A shard more, and then the first generation may go, whose files the others share.
        (vec![first, grown], Run::Append(3)),
        (vec![first, grown], Run::Collect),
        // An append goes on, or gives way to a build.
        (vec![first, killed_append(renamed(2) + 1)], Run::Append(2)),
        (vec![first, killed_append(renamed(2) + 1)], Run::Build(3)),
        (vec![first, killed_append(renamed(4) + 1)], Run::Append(2)),
        // The same with copies.
        (vec![first, moved], Run::Append(2)),
        (vec![first, moved, killed_append(copied)], Run::Append(2)),
    ]
}

/// The total loss, and partial ones of so many seeds.
fn losses(seeds: u64) -> impl Iterator<Item = Loss> {
    std::iter::once(Loss::All).chain((0..seeds).map(Loss::Some))
}

#[test]
fn a_kill_at_any_call_leaves_the_old_or_the_new_generation() {
    for (past, run) in histories() {
        let before = History::of(&past);
        let calls = before.fork().play(Step::whole(run));
        for stop_at in 1..=calls + 1 {
            let mut history = before.fork();
            history.play(Step { run, stop_at, power_cut: None });
            history.check().unwrap_or_else(|broken| panic!("{past:?}, then {run:?} killed at {stop_at}: {broken}"));
        }
    }
}

#[test]
fn a_power_cut_at_any_call_leaves_the_old_or_the_new_generation() {
    for (past, run) in histories() {
        let before = History::of(&past);
        let calls = before.fork().play(Step::whole(run));
        for stop_at in 1..=calls + 1 {
            let mut history = before.fork();
            history.play(Step { run, stop_at, power_cut: None });
            for loss in losses(8) {
                history
                    .cut(loss)
                    .check()
                    .unwrap_or_else(|broken| panic!("{past:?}, then {run:?}, {loss:?} at {stop_at}: {broken}"));
            }
        }
    }
}

/// The mutation check: with any one sync ignored, some power cut breaks a promise.
#[test]
fn no_sync_can_be_left_out() {
    let mut tried = 0;
    // In these a folder is renamed back, whose sync is not needed; the others reach every line.
    let renamed_back = [3, 4, 12];
    for (past, run) in histories().into_iter().enumerate().filter(|(at, _)| !renamed_back.contains(at)).map(|(_, h)| h)
    {
        let before = History::of(&past);
        let mut whole = before.fork();
        let calls = whole.play(Step::whole(run));
        for sync in before.disk.syncs() + 1..=whole.disk.syncs() {
            let breaks = |stop_at| {
                let mut history = before.fork();
                history.disk.ignore_sync(Some(sync));
                history.play(Step { run, stop_at, power_cut: None });
                // What happens before that sync is tested above.
                history.disk.syncs() >= sync && losses(64).any(|loss| !history.cut(loss).keeps_promises())
            };
            let broken = (1..=calls + 1).any(breaks);
            assert!(broken, "after {past:?}, {run:?} does without its sync {}", sync - before.disk.syncs());
            tried += 1;
        }
    }
    assert!(tried > 40, "only {tried} syncs were tried");
}

fn step() -> impl Strategy<Value = Step> {
    let run = prop_oneof![
        4 => (1..4_u64).prop_map(Run::Build), 4 => (4..7_u64).prop_map(Run::Append), 1 => Just(Run::Collect)
    ];
    let stop_at = prop_oneof![4 => 1..160_usize, 1 => Just(NEVER)];
    let loss = prop_oneof![1 => Just(Loss::All), 3 => any::<u64>().prop_map(Loss::Some)];
    (run, stop_at, prop::option::of(loss)).prop_map(|(run, stop_at, power_cut)| Step { run, stop_at, power_cut })
}

proptest! {
    #[test]
    fn any_history_of_kills_and_power_cuts_keeps_the_promises(steps in prop::collection::vec(step(), 1..6)) {
        let mut history = History::new();
        for step in steps {
            history.play(step);
            if let Err(broken) = history.check() {
                prop_assert!(false, "{broken}");
            }
        }
    }
}

#[test]
fn a_failing_call_gives_a_typed_error_and_the_old_index_stays() {
    let numbers = [libc::ENOSPC, libc::EIO, libc::EMFILE, libc::EROFS];
    for fault in numbers.into_iter().flat_map(|number| [Fault::Once(number), Fault::Full(number)]) {
        let before = History::of(&[Step::whole(Run::Build(1))]);
        let mut failures = 0;
        for at in 1.. {
            let mut history = before.fork();
            let storage = Arc::new(Faulty::new(history.disk.clone(), at, fault));
            let result = build(storage.clone(), &root(), 2, &mut history.promises);
            let calls = storage.calls().clone();
            match result {
                Err(Error::Io { source, .. }) => {
                    assert!(source.raw_os_error().is_some(), "{fault:?} at {at}: {source}")
                }
                Err(e) => panic!("{fault:?} at {at}: {e}"),
                Ok(generation) => assert_eq!(generation.number(), 2),
            }
            if let Some(("sync", path)) = calls.get(at - 1)
                && matches!(fault, Fault::Once(_))
            {
                let later = calls[at..].iter().any(|call| call == &("sync", path.clone()));
                assert!(!later, "{fault:?} at {at}: the failed sync of {} is tried again", path.display());
            }
            history.check().unwrap_or_else(|broken| panic!("{fault:?} at {at}: {broken}"));
            if calls.len() < at {
                break;
            }
            failures += 1;
        }
        assert!(failures > 60, "only {failures} calls were tried");
    }
}

/// Makes an index on the real file system.
fn published(id: u64) -> (TempDir, Promises) {
    let folder = scratch();
    let mut promises = Promises::default();
    build(Arc::new(Disk), folder.path(), id, &mut promises).expect("a sound disk");
    (folder, promises)
}

/// Runs one of the child processes below.
fn child(test: &str, root: &Path, call: usize) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(env::current_exe().expect("the path of this test"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("INDEX_ROOT", root)
        .env("INDEX_CALL", call.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test starts again");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    (child, lines)
}

fn root_of_child() -> PathBuf {
    env::var_os("INDEX_ROOT").expect("set by the parent").into()
}

#[test]
#[ignore = "a child process of the tests below"]
fn child_builds_and_waits() {
    let call = env::var("INDEX_CALL").expect("set by the parent").parse().expect("a number");
    let storage = Arc::new(Faulty::new(Arc::new(Disk), call, Fault::Wait));
    build(storage, &root_of_child(), 2, &mut Promises::default()).expect("a sound disk");
}

#[test]
#[ignore = "a child process of the tests below"]
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn child_takes_the_lock() {
    let lock = FolderLock::acquire(root_of_child());
    let answer = match &lock {
        Ok(_) => "won".into(),
        Err(e) if e.kind() == ErrorKind::Locked => "locked".into(),
        Err(e) => e.to_string(),
    };
    // On a line of its own: the test harness has begun one.
    println!("\nanswer: {answer}");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the parent's end");
}

#[test]
fn a_process_killed_at_any_call_leaves_the_old_or_the_new_generation() {
    let mut kills = 0;
    for call in 1.. {
        let (folder, mut promises) = published(1);
        let (mut child, lines) = child("child_builds_and_waits", folder.path(), call);
        let waits = lines.map_while(Result::ok).any(|line| line.ends_with(READY));
        child.kill().expect("the child runs or has ended");
        child.wait().expect("the child ends");
        promises.attempts.push((2, 2));
        check(Arc::new(Disk), folder.path(), &promises).unwrap_or_else(|broken| panic!("killed at {call}: {broken}"));
        if !waits {
            break;
        }
        kills += 1;
    }
    assert!(kills > 60, "only {kills} calls were tried");
}

#[test]
fn one_of_eight_processes_builds_and_its_death_frees_the_lock() {
    let folder = scratch();
    let root = folder.path().join("wiki");
    let mut children: Vec<_> = (0..8).map(|_| child("child_takes_the_lock", &root, 0)).collect();
    let answers: Vec<String> = children
        .iter_mut()
        .map(|(_, lines)| {
            let mut lines = lines.map_while(Result::ok);
            lines.find_map(|line| line.strip_prefix("answer: ").map(str::to_string)).expect("an answer")
        })
        .collect();
    assert_eq!(answers.iter().filter(|answer| *answer == "won").count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| *answer == "locked").count(), 7, "{answers:?}");

    let winner = answers.iter().position(|answer| answer == "won").expect("counted above");
    let error = FolderLock::acquire(&root).expect_err("the winner lives");
    assert!(error.to_string().contains("is locked by another process"), "{error}");
    children[winner].0.kill().expect("the winner lives");
    children[winner].0.wait().expect("the winner ends");
    FolderLock::acquire(&root).expect("the lock went with the winner");
    for (mut child, _) in children {
        child.kill().expect("the child runs or has ended");
        child.wait().expect("the child ends");
    }
}

#[test]
fn one_of_eight_threads_builds() {
    let folder = scratch();
    let barrier = Barrier::new(8);
    let won = std::thread::scope(|scope| {
        let try_lock = || {
            let lock = FolderLock::acquire(folder.path());
            barrier.wait();
            match lock {
                Ok(_) => 1,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
                    0
                }
            }
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(try_lock)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
    });
    assert_eq!(won, 1);
}

#[test]
fn readers_never_miss_while_generations_come_and_go() {
    let (folder, _) = published(1);
    let root = folder.path();
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let mut last = 0;
            while !finished.load(Ordering::Relaxed) {
                let generation = Generation::open_current(root).expect("an index");
                assert!(generation.number() >= last, "generation {} after {last}", generation.number());
                last = generation.number();
                let id = generation.manifest().attributes["build"].as_u64().expect("the number that was written");
                for file in FILES {
                    let bytes = std::fs::read(generation.path().join(file)).expect("a file in use");
                    assert_eq!(bytes, content(id, file));
                }
            }
        };
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        let published: Result<Vec<_>, _> = (2..=30)
            .map(|id| {
                build(Arc::new(Disk), root, id, &mut Promises::default())?;
                collect_on(Arc::new(Disk), root, 0)
            })
            .collect();
        finished.store(true, Ordering::Relaxed);
        published.expect("a sound disk");
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    });
    collect_on(Arc::new(Disk), root, 0).expect("a sound disk");
    let names = Disk.list(root).expect("a folder");
    assert_eq!(names.len(), 3, "`CURRENT`, `LOCK` and one generation, not {names:?}");
}
