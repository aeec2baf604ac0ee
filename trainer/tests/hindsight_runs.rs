//! Runs that learn in hindsight: who is criticised, what is told to teachers, when it counts, and that it all goes on after a stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::runs::{Outside, numbers, world};
use hindsearch_env::experience::KeyEmbedder;
use hindsearch_env::hindsight::{Critic, Critique, is_correct};
use hindsearch_env::{Task, Trajectory, read_trajectories};
use hindsearch_indexes::{Interrupt, Progress, Vectors};
use hindsearch_trainer::{
    Error, Guidance, Layers, Learner, Monitor, Skipped, TRAIN_PRESETS, TrainPreset, TrainSettings, Watch,
};
use tempfile::tempdir;

/// Stops a run after so many steps.
struct Quiet {
    stops: Option<(usize, Interrupt)>,
    seen: AtomicUsize,
}

impl Watch for Quiet {
    fn progress(&self, _: &'static str, _: Progress) {}

    fn begins(&self, _: u64, _: u64, _: Option<f64>) {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if let Some((at, interrupt)) = &self.stops
            && seen == *at
        {
            interrupt.stop();
        }
    }

    fn skipped(&self, skipped: &Skipped) {
        panic!("{skipped:?}");
    }
}

/// Says where it was asked, and what a task's gold is.
#[derive(Default)]
struct Judge {
    asked: Mutex<Vec<(String, u32)>>,
    /// It fails where this says so.
    fails: bool,
    /// What it may be asked is used up after so many.
    budget: Option<usize>,
}

impl Critic for Judge {
    fn critique(&self, failures: &[(&Task, &Trajectory)]) -> Vec<hindsearch_env::Result<Option<Critique>>> {
        let one = |(task, episode): &(&Task, &Trajectory)| {
            assert!(!is_correct(task, episode), "a success reached the judge");
            self.asked.lock().unwrap().push((episode.task.clone(), episode.sample));
            if self.fails {
                return Err(hindsearch_env::Error::Interrupted);
            }
            if self.budget.is_some_and(|most| self.asked.lock().unwrap().len() > most) {
                let (what, expected, found) = ("budget".to_owned(), "more".to_owned(), "none".to_owned());
                return Err(hindsearch_env::Error::InvalidInput { what, expected, found });
            }
            let gold = task.gold().answers()[0].clone();
            let text = format!("Search for {gold}. Then answer.");
            // Every fifth is not usable.
            Ok((episode.sample != 4).then_some(Critique { text, turn: None, contains_gold: true }))
        };
        failures.iter().map(one).collect()
    }
}

const BASE: &str = r#"
steps = 3
[rollout]
tasks = 2
samples = 5
[schedule]
peak = 1e-3
[evaluation]
every = 0
[checkpoint]
every = 1
"#;

fn settings(changes: &[&str]) -> TrainSettings {
    let mut layers = Layers::default();
    layers.add("base", BASE).unwrap();
    changes.iter().for_each(|change| layers.add("changes", *change).unwrap());
    layers.settings().unwrap()
}

fn run(
    settings: &TrainSettings,
    path: &Path,
    critic: Option<&dyn Critic>,
    stops: Option<usize>,
) -> Result<Learner, Error> {
    run_guided(settings, path, critic, stops, &Guidance::default())
}

fn run_guided(
    settings: &TrainSettings,
    path: &Path,
    critic: Option<&dyn Critic>,
    stops: Option<usize>,
    guidance: &Guidance,
) -> Result<Learner, Error> {
    let mut world = world(BASE);
    world.settings = settings.clone();
    let interrupt = Interrupt::default();
    let watch = Quiet { stops: stops.map(|at| (at, interrupt.clone())), seen: AtomicUsize::new(0) };
    let monitor = |after| Monitor::open(path, after, Arc::new(|_| {}));
    world.run(path, &Outside { watch: &watch, monitor: &monitor, interrupt: &interrupt, fails: None, critic, guidance })
}

fn metrics(path: &Path) -> BTreeMap<(u64, String), f64> {
    numbers(path).into_iter().map(|(step, name, bits)| ((step, name), f64::from_bits(bits))).collect()
}

fn bits(learner: &Learner) -> Vec<u32> {
    let all = learner.decoder().parameters().into_iter();
    all.flat_map(|parameter| parameter.to_vec().unwrap()).map(f32::to_bits).collect()
}

const HINDSEARCH: &str = r#"
[objective]
preset = "search-r1"
[objective.hindsight.distillation]
weight = 0.5
scope = "policy"
[hindsight]
view = "critique"
"#;

#[test]
fn failures_alone_are_criticised_and_critiques_are_kept() {
    let (folder, judge) = (tempdir().unwrap(), Judge::default());
    run(&settings(&[HINDSEARCH]), folder.path(), Some(&judge), None).unwrap();
    let found = metrics(folder.path());
    let of = |step: u64, name: &str| found.get(&(step, name.to_owned())).copied();
    let mut told = 0;
    for step in 1..=3 {
        let path = folder.path().join(format!("trajectories/step-{step:06}.jsonl"));
        for episode in read_trajectories(&path).unwrap() {
            assert_eq!(episode.critique.is_some(), episode.sample != 4, "{episode:?}");
            told += usize::from(episode.critique.is_some());
        }
        assert_eq!(of(step, "critique/dropped"), Some(0.2));
        assert_eq!(of(step, "critique/contains_gold"), Some(1.0));
        assert_eq!(of(step, "hindsight/homogeneous"), Some(1.0));
        assert!(of(step, "hindsight/hint_tokens").unwrap() > 5.0);
        assert_eq!(of(step, "hindsight/hint_cut"), Some(0.0));
        assert!(of(step, "loss/distillation").unwrap().abs() > 0.0);
    }
    let asked = judge.asked.lock().unwrap().len();
    assert!(told > 0 && told * 5 == asked * 4, "{told} of {asked}");
}

#[test]
fn a_judge_that_is_not_there_ends_the_run() {
    let (folder, judge) = (tempdir().unwrap(), Judge { fails: true, ..Judge::default() });
    assert!(run(&settings(&[HINDSEARCH]), folder.path(), Some(&judge), None).is_err());
    let error = run(&settings(&[HINDSEARCH]), tempdir().unwrap().path(), None, None).err().unwrap();
    assert!(error.to_string().contains("critic"), "{error}");
    // A step is not half taught where the budget ends.
    let (folder, judge) = (tempdir().unwrap(), Judge { budget: Some(13), ..Judge::default() });
    let error = run(&settings(&[HINDSEARCH]), folder.path(), Some(&judge), None).err().unwrap();
    assert!(error.to_string().contains("budget"), "{error}");
    assert_eq!(metrics(folder.path()).keys().map(|(step, _)| *step).max(), Some(1));
}

#[test]
fn a_stopped_run_ends_with_the_same_bits() {
    let sd = "[objective]\npreset = \"search-r1\"\n[objective.hindsight.divergence]\nweight = 0.5\nscope = \"policy\"\n\
              [hindsight]\nview = \"siblings\"\napply = \"all\"\nsiblings = { labels = \"shuffled\", shuffle = true }\n\
              [hindsight.teacher]\nweights = \"ema\"\nrate = 0.5\n";
    for changes in [HINDSEARCH, sd] {
        let (settings, judge) = (settings(&[changes]), Judge::default());
        let (whole, stopped) = (tempdir().unwrap(), tempdir().unwrap());
        let expected = bits(&run(&settings, whole.path(), Some(&judge), None).unwrap());
        assert!(matches!(run(&settings, stopped.path(), Some(&judge), Some(1)), Err(Error::Interrupted)));
        let found = bits(&run(&settings, stopped.path(), Some(&judge), None).unwrap());
        assert!(found == expected, "{changes}");
        assert_eq!(numbers(stopped.path()), numbers(whole.path()));
    }
}

#[test]
fn nothing_counts_before_the_schedule_begins() {
    let schedule = "[hindsight.schedule]\nstart = 1\nramp = 2\nuntil = 2\n";
    let (folder, judge) = (tempdir().unwrap(), Judge::default());
    run(&settings(&[HINDSEARCH, schedule]), folder.path(), Some(&judge), None).unwrap();
    let found = metrics(folder.path());
    let factors: Vec<_> = (1..=3).map(|step| found.get(&(step, "hindsight/factor".to_owned())).copied()).collect();
    assert_eq!(factors, [Some(0.0), Some(0.5), Some(0.0)]);
    // Nobody was asked in vain.
    let played = read_trajectories(&folder.path().join("trajectories/step-000002.jsonl")).unwrap().len();
    assert_eq!(judge.asked.lock().unwrap().len(), played);
    let taught: Vec<_> = (1..=3).map(|step| found.contains_key(&(step, "loss/distillation".to_owned()))).collect();
    assert_eq!(taught, [false, true, false]);
}

#[test]
fn guards_halve_what_a_teacher_says_or_end_the_run() {
    let (folder, judge) = (tempdir().unwrap(), Judge::default());
    // Wherever the teacher is surer, the weight is at its limit.
    let guard = "[objective.hindsight.distillation]\nclamp = 1e-9\n[hindsight.guards]\nsaturation = 0.0\n";
    run(&settings(&[HINDSEARCH, guard]), folder.path(), Some(&judge), None).unwrap();
    let found = metrics(folder.path());
    let factors: Vec<_> = (1..=3).map(|step| found[&(step, "hindsight/factor".to_owned())]).collect();
    assert_eq!(factors, [1.0, 0.5, 0.25]);

    let folder = tempdir().unwrap();
    let stop = format!("{guard}then = \"stop\"\n");
    let error = run(&settings(&[HINDSEARCH, &stop]), folder.path(), Some(&judge), None).err().unwrap();
    assert!(error.to_string().contains("hindsight/clamp_saturation"), "{error}");
    assert!(folder.path().join("checkpoints").read_dir().unwrap().next().is_some(), "the step is saved");
    // The same command does not go on beyond the limit.
    let trained = || metrics(folder.path()).keys().map(|(step, _)| *step).max();
    let before = trained();
    let error = run(&settings(&[HINDSEARCH, &stop]), folder.path(), Some(&judge), None).err().unwrap();
    assert!(error.to_string().contains("hindsight.guards"), "{error}");
    assert_eq!(trained(), before);
}

#[test]
fn a_hint_is_cut_and_an_episode_never_is() {
    // A sentence has more tokens than that.
    let (folder, judge) = (tempdir().unwrap(), Judge::default());
    run(&settings(&[HINDSEARCH, "[hindsight]\nbudget = 3\n"]), folder.path(), Some(&judge), None).unwrap();
    let found = metrics(folder.path());
    assert_eq!(found[&(1, "hindsight/no_lesson".to_owned())], 1.0);
    assert_eq!(found.get(&(1, "loss/distillation".to_owned())), Some(&0.0));
    // One of two sentences fits.
    let folder = tempdir().unwrap();
    run(&settings(&[HINDSEARCH]), folder.path(), Some(&judge), None).unwrap();
    let whole = metrics(folder.path())[&(1, "hindsight/hint_tokens".to_owned())];
    let budget = format!("[hindsight]\nbudget = {}\n", whole as usize - 5);
    let folder = tempdir().unwrap();
    run(&settings(&[HINDSEARCH, &budget]), folder.path(), Some(&judge), None).unwrap();
    let found = metrics(folder.path());
    assert!(found[&(1, "hindsight/hint_tokens".to_owned())] < whole);
    assert_eq!(found[&(1, "hindsight/no_lesson".to_owned())], 0.0);
    assert_eq!(found[&(1, "hindsight/hint_cut".to_owned())], 1.0);
}

#[test]
fn every_method_that_is_built_in_takes_its_steps() {
    for name in TRAIN_PRESETS {
        let preset = TrainPreset::named(name).unwrap();
        let mut layers = Layers::default();
        layers.add_preset(name, &preset).unwrap();
        layers.add("base", BASE).unwrap();
        layers.add("soon", "steps = 1\n[hindsight.schedule]\nstart = 0\n").unwrap();
        if name.starts_with("hiexp") {
            layers.add("a file", "[experience]\nfile = \"experience.jsonl\"\n").unwrap();
        }
        let settings = layers.settings().unwrap();
        let (folder, judge) = (tempdir().unwrap(), Judge::default());
        run(&settings, folder.path(), Some(&judge), None).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = metrics(folder.path());
        assert!(found[&(1, "loss".to_owned())].is_finite(), "{name}");
        let is_taught = found.get(&(1, "hindsight/factor".to_owned())) == Some(&1.0);
        assert_eq!(is_taught, settings.objectives().unwrap().needs_teacher(), "{name}");
    }
}

/// Vectors of the first letters.
fn keys() -> KeyEmbedder {
    let of = |text: &&str| {
        let mut counts = [0.01f32; 26];
        text.bytes().filter(u8::is_ascii_lowercase).for_each(|byte| counts[usize::from(byte - b'a')] += 1.0);
        counts
    };
    KeyEmbedder::new("letters", move |texts| Ok(Vectors::new(26, texts.iter().flat_map(of).collect()).unwrap()))
}

#[test]
fn experience_is_built_anew_from_the_runs_own_plays_and_goes_on_after_a_stop() {
    let changes =
        "steps = 4\n[experience]\nrefresh_every = 2\ndistiller = \"rules\"\nplanning = \"e2\"\nstep = \"e1\"\n";
    let settings = settings(&[changes]);
    let guidance = || Guidance::new(None, Some(keys()));
    let (whole, stopped) = (tempdir().unwrap(), tempdir().unwrap());
    let expected = bits(&run_guided(&settings, whole.path(), None, None, &guidance()).unwrap());
    let built = |path: &Path| {
        let names = path.join("experience").read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(built(whole.path()), ["step-000003.jsonl"]);
    // It stops in the step that follows.
    let outcome = run_guided(&settings, stopped.path(), None, Some(3), &guidance());
    assert!(matches!(outcome, Err(Error::Interrupted)));
    let found = bits(&run_guided(&settings, stopped.path(), None, None, &guidance()).unwrap());
    assert!(found == expected);
    assert_eq!(numbers(stopped.path()), numbers(whole.path()));
    let error = run_guided(&settings, tempdir().unwrap().path(), None, None, &Guidance::default()).err().unwrap();
    assert!(error.to_string().contains("experience.refresh_every"), "{error}");
}

#[test]
fn every_placement_and_span_takes_its_steps() {
    for placement in ["user-prefix", "raw-prefix", "user-suffix", "system-suffix", "step-prefix"] {
        for span in ["content", "inclusive", "close-only"] {
            let change = format!("steps = 1\n[hindsight]\nplacement = \"{placement}\"\nspan = \"{span}\"\n");
            let (folder, judge) = (tempdir().unwrap(), Judge::default());
            run(&settings(&[HINDSEARCH, &change]), folder.path(), Some(&judge), None)
                .unwrap_or_else(|error| panic!("{placement} {span}: {error}"));
        }
    }
}

/// Every published ablation, and what else the frame can be set to.
#[test]
fn every_switch_takes_its_steps() {
    let critique = "view = \"critique\"";
    let siblings = "view = \"siblings\"\napply = \"all\"";
    let mut switches: Vec<(String, &str)> = Vec::new();
    for change in [
        "broadcast = \"earliest-error-step\"",
        "apply = \"all\"",
        "apply = \"mixed-groups\"",
        "apply = \"all-failed-groups\"",
        "tokens = \"actions\"",
        "skip_homogeneous = true",
        "critic = { sees_gold = false, leak = \"redact\" }",
        "teacher = { weights = \"current\", refresh = \"batch\" }",
        "teacher = { weights = \"ema\", rate = 0.5 }",
    ] {
        switches.push((format!("{critique}\n{change}"), "distillation = { weight = 0.1, scope = \"policy\" }"));
    }
    for change in ["scope = \"query\"", "detach = false", "clamp = 0.5", "aggregation = \"seq-mean-token-mean\""] {
        let loss = Box::leak(format!("distillation = {{ weight = 0.1, {change} }}").into_boxed_str());
        switches.push((critique.into(), loss));
    }
    for change in [
        "future_masking = false",
        "content = \"step-documents\"",
        "labels = \"none\"",
        "labels = \"shuffled\"",
        "which = \"correct-only\"",
        "which = \"own-only\"",
        "which = \"leave-one-out\"",
        "rho = 0.5",
        "merge = true",
        "shuffle = true",
    ] {
        let loss = "divergence = { weight = 0.1, scope = \"policy\" }";
        switches.push((format!("{siblings}\nsiblings = {{ {change} }}"), loss));
    }
    for change in [
        "distance = \"forward-kl\"",
        "distance = \"reverse-kl\"",
        "distance = \"mse\"",
        "tail = \"renormalise\"",
        "tail = \"drop\", distance = \"jsd\"",
        "support = { k = 3, side = \"student\" }",
        "support = { k = 3, side = \"union\" }",
        "support = { k = 3, side = \"overlap\" }",
        "support = { k = 384, side = \"teacher\" }",
    ] {
        let loss = format!("divergence = {{ weight = 0.1, scope = \"policy\", {change} }}").into_boxed_str();
        switches.push((siblings.into(), Box::leak(loss)));
    }
    for (frame, loss) in switches {
        let change = format!("steps = 1\n[objective]\nhindsight = {{ {loss} }}\n[hindsight]\n{frame}\n");
        let (folder, judge) = (tempdir().unwrap(), Judge::default());
        run(&settings(&[&change]), folder.path(), Some(&judge), None)
            .unwrap_or_else(|error| panic!("{change}: {error}"));
        let found = metrics(folder.path());
        assert!(found[&(1, "loss".to_owned())].is_finite(), "{change}");
        assert_eq!(found[&(1, "hindsight/factor".to_owned())], 1.0, "{change}");
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    for (changes, expected) in [
        ("[hindsight]\nview = \"gold\"\n", "objective.hindsight"),
        ("[objective.hindsight.distillation]\nweight = 0.1\n", "hindsight.view"),
        ("[hindsight]\nbudget = 0\n", "hindsight.budget"),
        ("[hindsight.critic]\nkind = \"server\"\n", "hindsight.critic"),
        ("[hindsight.critic]\nmodel = \"m\"\n", "hindsight.critic"),
        ("[hindsight.teacher]\nweights = \"larger\"\n", "hindsight.teacher.model"),
        ("[hindsight.siblings]\nrho = nan\n", "rho"),
        ("[hindsight.guards]\nkl = inf\n", "hindsight.guards"),
        ("[hindsight.guards]\nkl = -1.0\n", "hindsight.guards"),
        ("[hindsight.siblings]\nrho = -1.0\n", "rho"),
        ("[hindsight]\nveiw = \"gold\"\n", "veiw"),
        ("[objective.hindsight.distillation]\nweight = -1.0\n[hindsight]\nview = \"gold\"\n", "distillation.weight"),
        (
            "[objective.hindsight.distillation]\nweight = 1.0\n[hindsight]\nview = \"gold\"\nschedule = { start = 3 }\n",
            "schedule",
        ),
        (
            "[objective.hindsight.divergence]\nweight = 1.0\n[hindsight]\nview = \"siblings\"\n[rollout]\nsamples = 1\n",
            "samples",
        ),
        (
            "[objective]\nkl = { weight = 0.0 }\nhindsight = { distillation = { weight = 1.0 } }\n[hindsight]\nview = \"gold\"\nguards = { kl = 1.0 }\n",
            "guards.kl",
        ),
        (
            "[objective.hindsight.divergence]\nweight = 1.0\n[hindsight]\nview = \"gold\"\nguards = { saturation = 0.5 }\n",
            "guards.saturation",
        ),
        ("[experience]\nplanning = \"e2\"\n", "experience"),
        ("[experience]\nplanning = \"e2\"\nrefresh_every = 3\ndistiller = \"teacher\"\n", "experience.distiller"),
    ] {
        let mut layers = Layers::default();
        layers.add("base", BASE).unwrap();
        layers.add("changes", changes).unwrap();
        let error = layers.settings().err().unwrap().to_string();
        assert!(error.contains(expected), "{changes}: {error}");
    }
}
