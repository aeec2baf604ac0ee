//! A tiny model learns in the loop; a run that was stopped anywhere ends with the same bits; what fails outside is not learnt from.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device};
use common::models::model;
use common::runs::{Outside, World, learner, numbers, world};
use hindsearch_env::read_trajectories;
use hindsearch_indexes::{Interrupt, Progress};
use hindsearch_trainer::ops::Placement;
use hindsearch_trainer::{
    Decoder, Error, Guidance, Learner, LoraConfig, Monitor, Sample, Skipped, TrainSettings, Watch,
};

struct Quiet {
    /// After so many notices the run is asked to stop.
    stops: Option<(usize, Interrupt)>,
    seen: AtomicUsize,
}

impl Watch for Quiet {
    fn progress(&self, _: &'static str, _: Progress) {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if let Some((at, interrupt)) = &self.stops
            && seen == *at
        {
            interrupt.stop();
        }
    }

    fn begins(&self, _: u64, _: u64, _: Option<f64>) {}

    fn skipped(&self, skipped: &Skipped) {
        panic!("{skipped:?}");
    }
}

impl World {
    /// Trains in a folder; `stops` after so many notices.
    fn train(&self, path: &Path, stops: Option<usize>, fails: Option<usize>) -> Result<Learner, Error> {
        let interrupt = Interrupt::default();
        let watch = Quiet { stops: stops.map(|at| (at, interrupt.clone())), seen: AtomicUsize::new(0) };
        let monitor = |after| Monitor::open(path, after, Arc::new(|_| {}));
        self.run(
            path,
            &Outside {
                watch: &watch,
                monitor: &monitor,
                interrupt: &interrupt,
                fails,
                critic: None,
                guidance: &Guidance::default(),
            },
        )
    }
}

fn weights(learner: &Learner) -> BTreeMap<String, Vec<u32>> {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    let (tensors, _) = learner.state().unwrap();
    tensors.into_iter().map(|(name, data)| (name, bits(&data.values))).collect()
}

const LEARNS: &str = r#"
steps = 4
objective = "search-r1"
[imitation]
steps = 60
tasks = 3
rate = 0.01
[rollout]
tasks = 3
samples = 4
parallel = 6
[schedule]
peak = 0.001
warmup = 0
decay = "constant"
total = 4
floor = 0.0
[evaluation]
every = 32
[checkpoint]
every = 3
"#;

#[test]
fn a_tiny_model_learns_to_search_and_to_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    world(LEARNS).train(&path, None, None).unwrap();
    let of = |step, what: &str| {
        let found = numbers(&path).into_iter().find(|(at, name, _)| (*at, name.as_str()) == (step, what));
        f64::from_bits(found.unwrap_or_else(|| panic!("{what} of step {step}")).2)
    };
    assert_eq!(of(0, "test/reward/mean"), 0.0, "it knows nothing at first");
    assert_eq!(of(64, "test/reward/mean"), 1.0);
    assert_eq!(of(64, "test/episode/searches"), 1.0);
    assert!(of(60, "loss") < of(1, "loss") / 10.0, "{} {}", of(1, "loss"), of(60, "loss"));
    assert!(of(64, "reward/mean") > 0.5);
    let episodes = read_trajectories(&path.join("trajectories/step-000064.jsonl")).unwrap();
    assert_eq!(episodes.len(), 12);
    assert!(episodes.iter().all(|episode| episode.turns.iter().all(|turn| {
        let span = &episode.spans[turn.span];
        !span.tokens.is_empty() && span.tokens.len() == span.logprobs.len()
    })));
}

#[test]
fn a_tiny_model_in_bf16_learns_it_too_and_goes_on_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let placement = Placement { device: Device::Cpu, dtype: DType::BF16 };
    let world = World { placement, ..world(LEARNS) };
    assert!(matches!(world.train(&path, Some(100), None), Err(Error::Interrupted)));
    world.train(&path, None, None).unwrap();
    let all = numbers(&path);
    let of = |step, what: &str| {
        let found = all.iter().find(|(at, name, _)| (*at, name.as_str()) == (step, what));
        f64::from_bits(found.unwrap_or_else(|| panic!("{what} of step {step}")).2)
    };
    assert_eq!(of(0, "test/reward/mean"), 0.0, "it knows nothing at first");
    assert!(of(64, "test/reward/mean") > 0.5, "{}", of(64, "test/reward/mean"));
    assert!(of(60, "loss") < of(1, "loss") / 5.0, "{} {}", of(1, "loss"), of(60, "loss"));
    assert_eq!(all.iter().filter(|(_, name, _)| name == "update/skipped").map(|(_, _, bits)| *bits).max(), Some(0));
}

#[test]
fn a_run_that_was_stopped_anywhere_ends_with_the_same_bits() {
    let settings =
        LEARNS.replace("steps = 60", "steps = 3").replace("steps = 4", "steps = 5").replace("total = 4", "total = 5");
    for lora in ["", "[lora]\nrank = 2\n"] {
        let folder = tempfile::tempdir().unwrap();
        let world = world(&format!("{settings}{lora}"));
        let whole = folder.path().join("whole");
        let expected = weights(&world.train(&whole, None, None).unwrap());
        let parts = folder.path().join("parts");
        let mut stops = 0;
        // Each time a little further; at last it is not stopped.
        let found = loop {
            match world.train(&parts, Some(6 + 3 * stops), None) {
                Err(Error::Interrupted) => stops += 1,
                other => break other.unwrap(),
            }
            assert!(stops < 100, "it never ends");
        };
        assert!(stops > 0, "it was stopped {stops} times");
        assert_eq!(weights(&found), expected);
        assert_eq!(numbers(&parts), numbers(&whole));
    }
}

#[test]
fn an_episode_that_failed_outside_is_in_no_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    world(&LEARNS.replace("steps = 60", "steps = 20")).train(&path, None, Some(2)).unwrap();
    let all = numbers(&path);
    let sum = |what: &str| -> f64 {
        all.iter().filter(|(_, name, _)| name == what).map(|(_, _, bits)| f64::from_bits(*bits)).sum()
    };
    assert!(sum("episode/failed") > 0.0, "some failed");
    assert_eq!(sum("episode/failed") + sum("episode/count"), 4.0 * 12.0);
    assert_eq!(sum("update/skipped"), 0.0);
}

fn samples(world: &World, advantages: &[f64]) -> Vec<Sample> {
    let prompt = world.language.tokenizer.encode("q?").unwrap();
    let sample = |(at, advantage): (usize, &f64)| {
        let answer = world.language.tokenizer.encode(&format!("<a>{}</a>", "ab".repeat(at + 1))).unwrap();
        Sample { advantage: *advantage, ..Sample::imitated(&prompt, &answer) }
    };
    advantages.iter().enumerate().map(sample).collect()
}

#[test]
fn any_split_into_micro_batches_gives_the_same_gradients() {
    // The preset's own means are over micro-batches, as Search-R1's.
    let world = world(&LEARNS.replace("objective = \"search-r1\"", "objective = { scope = \"global\" }"));
    let samples = samples(&world, &[1.0, -0.5, 0.25, -2.0, 0.7, 0.1, -0.3, 1.5]);
    let gradients = |micro_tokens: usize| {
        let mut settings = world.settings.clone();
        settings.update.micro_tokens = micro_tokens;
        let learner = learner(&settings, &world.placement);
        let loss = learner.gradients(&samples).unwrap().value("loss").unwrap();
        let of = |parameter: &Arc<hindsearch_trainer::ops::Parameter>| {
            parameter.gradient().unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        (loss, learner.decoder().parameters().iter().flat_map(of).collect::<Vec<f32>>())
    };
    let (loss, whole) = gradients(1 << 20);
    let size = whole.iter().fold(0f32, |most, value| most.max(value.abs()));
    for micro_tokens in [1, 20, 60, 150] {
        let (other, split) = gradients(micro_tokens);
        assert!((loss - other).abs() < 1e-6, "{loss} {other}");
        let off = whole.iter().zip(&split).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(off < 1e-6 * size.max(1.0), "{off} of {size}");
    }
}

#[test]
fn what_is_not_finite_is_skipped_and_the_third_time_ends_the_run() {
    let world = world(LEARNS);
    let mut learner = learner(&world.settings, &world.placement);
    let before = weights(&learner);
    let samples = samples(&world, &[f64::NAN, 1.0]);
    for _ in 0..2 {
        let metrics = learner.update(&samples, |_| 0.1).unwrap();
        assert_eq!(metrics.value("update/skipped"), Some(1.0));
        assert_eq!(weights(&learner), before);
    }
    assert!(matches!(learner.update(&samples, |_| 0.1), Err(Error::Diverged { .. })));
    assert_eq!(weights(&learner), before);
}

#[test]
fn only_what_the_policy_wrote_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&LEARNS.replace("steps = 60", "steps = 1").replace("steps = 4", "steps = 0"));
    let path = folder.path().join("run");
    world.train(&path, None, None).unwrap();
    let episodes = read_trajectories(&path.join("trajectories/step-000001.jsonl")).unwrap();
    for episode in &episodes {
        let sample = Sample::new(&world.language, &world.rules.preset().prompt, episode, 0.0).unwrap();
        let learnt: Vec<u32> = sample.places.iter().map(|place| sample.tokens[*place]).collect();
        let encode = |text: &str| world.language.tokenizer.encode(text).unwrap();
        let written: Vec<u32> = episode.policy_texts().flat_map(encode).collect();
        assert_eq!(learnt, written);
        assert!(sample.tokens.len() > written.len() + 10, "there are a prompt and passages");
    }
}

#[test]
fn settings_say_what_is_wrong_and_come_back_as_they_were() {
    let settings = TrainSettings::parse(LEARNS, "settings").unwrap();
    let resolved = TrainSettings::parse(&settings.to_toml().unwrap(), "settings").unwrap();
    assert_eq!(resolved.to_toml().unwrap(), settings.to_toml().unwrap());
    for (wrong, word) in [
        ("stepss = 1", "stepss"),
        ("objective = \"grpoo\"", "grpo-paper"),
        ("[rollout]\nsamples = 0", "rollout.samples"),
        ("[rollout]\nsampling = { temperature = -1.0 }", "temperature"),
        ("[imitation]\nrate = nan", "imitation.rate"),
    ] {
        let error = TrainSettings::parse(wrong, "`run.toml`").unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let unknown = LoraConfig { targets: vec!["w_proj".into()], ..LoraConfig::default() };
    let files = model("llama");
    let mut decoder = Decoder::new(files.config(), files.weights().unwrap(), false).unwrap();
    let error = decoder.add_adapters(&unknown, 0).unwrap_err().to_string();
    assert!(error.contains("w_proj") && error.contains("q_proj"), "{error}");
}
