//! A run whose process is killed again and again ends with the same bits as one that was left alone.
//!
//! `HINDSEARCH_KILLS` sets the number of kills; without it there are 30.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::runs::{Outside, numbers, world};
use hindsearch_indexes::{Interrupt, Progress};
use hindsearch_trainer::{Checkpoints, Guidance, Monitor, Notice, Skipped, TrainSettings, Watch};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 60 updates.
const SETTINGS: &str = r#"
steps = 40
objective = "search-r1"
[imitation]
steps = 20
tasks = 3
rate = 0.01
[rollout]
tasks = 3
samples = 2
parallel = 6
[schedule]
peak = 0.001
warmup = 4
decay = "cosine"
total = 40
floor = 0.0
[evaluation]
every = 6
[checkpoint]
every = 3
"#;
/// Tells a child where its run is.
const RUN: &str = "HINDSEARCH_TEST_RUN";
const SIGKILL: i32 = 9;

/// What a run does, in the order of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// It has loaded what it goes on from; until the first episode is over.
    Begin,
    Save,
    Rollout,
    Update,
}

const ALL: [Doing; 4] = [Doing::Begin, Doing::Save, Doing::Rollout, Doing::Update];

/// Whole steps, and what goes on behind them.
type Place = (u64, Doing);

/// Tells the parent where the run is.
struct Teller {
    settings: TrainSettings,
    step: AtomicU64,
}

impl Teller {
    #[allow(clippy::print_stdout, reason = "the parent reads it")]
    fn tell(&self, doing: Doing) {
        println!("at: {} {doing:?}", self.step.load(Ordering::Relaxed));
    }

    /// Numbers of a step or of a test were recorded.
    fn recorded(&self, line: &str) {
        let is_test = line.contains("test/");
        let step = self.step.fetch_add(u64::from(!is_test), Ordering::Relaxed) + u64::from(!is_test);
        let is_tested_first = step.is_multiple_of(self.settings.evaluation.every) && !is_test;
        let saves = step > 0 && step.is_multiple_of(self.settings.checkpoint.every) && !is_tested_first;
        self.tell(if saves { Doing::Save } else { Doing::Rollout });
    }
}

impl Watch for Teller {
    fn progress(&self, what: &'static str, done: Progress) {
        let is_over = Some(done.done) == done.total;
        self.tell(if is_over && what != "testing" { Doing::Update } else { Doing::Rollout });
    }

    fn begins(&self, _: u64, _: u64, _: Option<f64>) {}

    fn skipped(&self, skipped: &Skipped) {
        // A kill leaves nothing else behind: what has its final name is whole.
        assert!(skipped.path.extension().is_some_and(|extension| extension == "tmp"), "{skipped:?}");
    }
}

#[test]
#[ignore = "a child process of the test below"]
fn child_trains() {
    let path = env::var_os(RUN).expect("set by the parent");
    let path = Path::new(&path);
    let world = world(SETTINGS);
    let teller = Arc::new(Teller { settings: world.settings.clone(), step: AtomicU64::new(0) });
    let monitor = |after: Option<u64>| {
        teller.step.store(after.unwrap_or(0), Ordering::Relaxed);
        teller.tell(Doing::Begin);
        let teller = teller.clone();
        let told = move |notice: Notice<'_>| {
            if let Notice::Step(line) = notice {
                teller.recorded(line);
            }
        };
        Monitor::open(path, after, Arc::new(told))
    };
    let outside = Outside {
        watch: &*teller,
        monitor: &monitor,
        interrupt: &Interrupt::default(),
        fails: None,
        critic: None,
        guidance: &Guidance::default(),
    };
    world.run(path, &outside).unwrap();
}

/// A process that trains.
struct Run {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Run {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child_trains", "--ignored", "--nocapture"])
            .env(RUN, path)
            .env("RAYON_NUM_THREADS", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Where it is, as far as it has told.
    fn places(&mut self) -> impl Iterator<Item = Place> {
        self.lines.by_ref().map_while(Result::ok).filter_map(|line| {
            let (step, doing) = line.split_once("at: ")?.1.split_once(' ')?;
            Some((step.parse().ok()?, ALL.into_iter().find(|one| doing == format!("{one:?}"))?))
        })
    }

    /// Lets it come to its end; gives how long it does each thing at a time, the median.
    fn end(mut self) -> BTreeMap<Doing, Duration> {
        let mut lengths: BTreeMap<Doing, Vec<Duration>> = BTreeMap::new();
        let mut since: Option<(Doing, Instant)> = None;
        for (_, doing) in self.places() {
            let now = Instant::now();
            if let Some((before, begun)) = since.filter(|(before, _)| *before != doing) {
                lengths.entry(before).or_default().push(now - begun);
            }
            since = since.filter(|(before, _)| *before == doing).or(Some((doing, now)));
        }
        assert!(self.child.wait().unwrap().success());
        let median = |mut lengths: Vec<Duration>| {
            lengths.sort();
            lengths[lengths.len() / 2]
        };
        lengths.into_iter().map(|(doing, lengths)| (doing, median(lengths))).collect()
    }

    /// Kills it so long after it came to a place; gives what it was doing, if it was not over.
    fn kill(mut self, path: &Path, at: Place, after: Duration) -> Option<Doing> {
        // Where it goes on, the place may be behind it.
        let before = self.places().find(|place| *place == at || place.0 > at.0);
        thread::sleep(after);
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        if status.success() {
            return None;
        }
        assert_eq!(status.signal(), Some(SIGKILL), "it failed by itself: {status}");
        let (step, doing) = self.places().last().or(before).expect("a place");
        let saves = || {
            let names =
                path.join("checkpoints").read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
            let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            !names.contains(&format!("step-{step:06}")) || names.iter().any(|name| name.ends_with(".tmp"))
        };
        match doing {
            // It tells nothing when it has saved.
            Doing::Save if !saves() => Some(Doing::Rollout),
            doing => Some(doing),
        }
    }
}

/// What a finished run goes on from: the bits of weights and moments, and the rest.
fn end(path: &Path) -> (u64, BTreeMap<String, Vec<u32>>, String) {
    let checkpoints = Checkpoints::new(path.join("checkpoints"), NonZero::<usize>::MIN);
    let last = checkpoints.latest(&|skipped| panic!("{skipped:?}")).unwrap().unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    let tensors = last.tensors.into_iter().map(|(name, tensor)| (name, bits(&tensor.values))).collect();
    (last.step, tensors, last.state.to_string())
}

#[test]
fn a_run_that_was_killed_anywhere_ends_with_the_same_bits() {
    let count = env::var("HINDSEARCH_KILLS").map_or(30, |count| count.parse::<usize>().expect("a number of kills"));
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    // Kills come anywhere in what is done, however fast the machine is.
    let lengths = Run::start(&whole).end();
    let settings = TrainSettings::parse(SETTINGS, "settings").unwrap();
    let (steps, every) = (settings.imitation.steps + settings.steps, settings.checkpoint.every);

    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut kills: Vec<Place> = (0..count)
        .map(|number| match ALL[number % ALL.len()] {
            Doing::Save => (every * random.random_range(1..steps / every), Doing::Save),
            doing => (random.random_range(0..steps - every), doing),
        })
        .collect();
    kills.sort();
    let mut found: BTreeMap<Doing, usize> = BTreeMap::new();
    for (step, doing) in kills {
        // Where it begins depends on the kill before.
        let at = if doing == Doing::Begin { (0, doing) } else { (step, doing) };
        let after = lengths[&doing].mul_f64(random.random());
        if let Some(doing) = Run::start(&killed).kill(&killed, at, after) {
            *found.entry(doing).or_default() += 1;
        }
    }
    eprintln!("killed while it did: {found:?}");
    assert!(ALL.iter().all(|doing| found.contains_key(doing)), "{found:?}");
    assert!(10 * found.values().sum::<usize>() >= 9 * count, "it was over before too many kills: {found:?}");

    Run::start(&killed).end();
    assert_eq!(end(&killed).0, steps);
    assert!(end(&killed) == end(&whole), "other weights, moments or counts");
    assert_eq!(numbers(&killed), numbers(&whole));
}
