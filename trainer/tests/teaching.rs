//! A teacher that reads more than the policy did teaches exactly what the papers' formulas say, and nothing but the policy's tokens.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::models::{golden, json, model};
use hindsearch_trainer::{
    AdamWSettings, Decoder, Learner, LearnerParts, Lesson, Objectives, Refresh, Sample, Side, Support, TeacherSettings,
    TeacherWeights, TokenScope, UpdateSettings,
};
use serde::Deserialize;
use serde_json::from_value;

#[derive(Deserialize)]
struct Golden {
    temperature: f64,
    samples: Vec<GoldenSample>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct GoldenSample {
    tokens: Vec<u32>,
    places: Vec<usize>,
    in_query: Vec<bool>,
    advantage: f64,
    lesson: Option<GoldenLesson>,
}

#[derive(Deserialize)]
struct GoldenLesson {
    tokens: Vec<u32>,
    places: Vec<usize>,
    mask: Vec<bool>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    term: String,
    support: Option<Support>,
    loss: f64,
    gradients: BTreeMap<String, Gradient>,
}

#[derive(Deserialize)]
struct Gradient {
    norm: f64,
    step: usize,
    some: Vec<f64>,
}

fn known() -> Golden {
    from_value(json(&golden("teaching.json"))).unwrap()
}

fn samples(golden: &Golden) -> Vec<Sample> {
    let lesson = |lesson: &GoldenLesson| Lesson {
        tokens: lesson.tokens.clone(),
        places: lesson.places.clone(),
        mask: lesson.mask.clone(),
    };
    let sample = |sample: &GoldenSample| Sample {
        tokens: sample.tokens.clone(),
        places: sample.places.clone(),
        in_query: sample.in_query.clone(),
        spells_gold: Vec::new(),
        logprobs: None,
        advantage: sample.advantage,
        lessons: sample.lesson.iter().map(lesson).collect(),
    };
    golden.samples.iter().map(sample).collect()
}

/// Only this term, with weight 1.
fn only(term: &str, support: Option<Support>) -> Objectives {
    let mut all = off();
    let hindsight = &mut all.hindsight;
    match term {
        "distillation" => hindsight.distillation.weight = 1.0,
        "divergence" => {
            hindsight.divergence.weight = 1.0;
            hindsight.divergence.support = support.unwrap_or(hindsight.divergence.support);
        }
        "surrogate" => {
            hindsight.surrogate.weight = 1.0;
            hindsight.surrogate.support = support.unwrap_or(hindsight.surrogate.support);
        }
        other => panic!("no term {other}"),
    }
    all
}

fn off() -> Objectives {
    let mut all = Objectives::default();
    (all.policy_gradient.weight, all.kl.weight, all.entropy.weight) = (0.0, 0.0, 0.0);
    all
}

fn teacher(weights: TeacherWeights) -> TeacherSettings {
    TeacherSettings { weights, ..TeacherSettings::default() }
}

fn learner(objectives: Objectives, teacher: TeacherSettings, settings: UpdateSettings, temperature: f64) -> Learner {
    let files = model("qwen2");
    let decoder = Arc::new(Decoder::new(files.config(), files.weights().unwrap(), true).unwrap());
    let optimizer = AdamWSettings::default();
    Learner::new(LearnerParts { decoder, objectives, teacher, optimizer, settings, temperature }).unwrap()
}

fn gradients(learner: &Learner) -> BTreeMap<String, Vec<f32>> {
    let of = |gradient: candle_core::Tensor| gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let all = learner.decoder().parameters();
    all.iter()
        .map(|parameter| (parameter.name().to_owned(), parameter.gradient().map(of).unwrap_or_default()))
        .collect()
}

#[test]
fn values_and_gradients_are_torchs() {
    let golden = known();
    let samples = samples(&golden);
    for case in &golden.cases {
        for micro_tokens in [4096, 30] {
            let settings = UpdateSettings { micro_tokens, ..UpdateSettings::default() };
            let objectives = only(&case.term, case.support);
            let learner = learner(objectives, teacher(TeacherWeights::Current), settings, golden.temperature);
            let loss = learner.gradients(&samples).unwrap().value("loss").unwrap();
            assert!((loss - case.loss).abs() < 1e-5, "{}: {loss} and {}", case.name, case.loss);
            let found = gradients(&learner);
            for (name, expected) in &case.gradients {
                let of_all: f64 = found[name].iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
                let furthest = found[name].iter().step_by(expected.step).zip(&expected.some);
                let furthest = furthest.map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
                assert!(
                    (of_all - expected.norm).abs() <= 1e-3 * expected.norm && furthest <= 1e-3 * expected.norm,
                    "{}, {name}: norms {of_all} and {}, furthest {furthest}",
                    case.name,
                    expected.norm
                );
            }
        }
    }
}

/// A lesson that says nothing more than the sample.
fn unhinted(samples: &[Sample]) -> Vec<Sample> {
    let lesson = |sample: &Sample| Lesson {
        tokens: sample.tokens.clone(),
        places: sample.places.clone(),
        mask: vec![true; sample.places.len()],
    };
    samples.iter().map(|sample| Sample { lessons: vec![lesson(sample)], ..sample.clone() }).collect()
}

#[test]
fn with_an_empty_hint_and_the_same_weights_there_is_nothing_to_learn() {
    let samples = unhinted(&samples(&known()));
    let supports = [None, Some(Support { k: 6, side: Side::Teacher }), Some(Support { k: 6, side: Side::Union })];
    for (term, support) in [("distillation", supports[0]), ("divergence", supports[1]), ("divergence", supports[2])] {
        for weights in [TeacherWeights::Current, TeacherWeights::Reference, TeacherWeights::Ema] {
            let mut objectives = only(term, support);
            objectives.hindsight.distillation.scope = TokenScope::Policy;
            objectives.hindsight.divergence.scope = TokenScope::Policy;
            let learner = learner(objectives, teacher(weights), UpdateSettings::default(), 1.0);
            let metrics = learner.gradients(&samples).unwrap();
            assert_eq!(metrics.value("hindsight/gap_mean"), Some(0.0), "{term} {weights:?}");
            assert_eq!(metrics.value("loss"), Some(0.0), "{term} {weights:?}");
            let furthest =
                gradients(&learner).into_values().flatten().fold(0.0f32, |most, value| most.max(value.abs()));
            assert!(furthest < 1e-6, "{term} {weights:?}: {furthest}");
        }
    }
    // The test above fails where rows are off by one.
    let mut shifted = samples;
    for lesson in shifted.iter_mut().flat_map(|sample| &mut sample.lessons) {
        lesson.places.iter_mut().for_each(|place| *place -= 1);
    }
    let learner = learner(only("distillation", None), teacher(TeacherWeights::Current), UpdateSettings::default(), 1.0);
    let gap = learner.gradients(&shifted).unwrap().value("hindsight/gap_mean").unwrap();
    assert!(gap.abs() > 1e-3, "{gap}");
}

#[test]
fn without_a_lesson_nothing_is_learnt_and_no_teacher_reads() {
    let mut samples = samples(&known());
    samples.iter_mut().for_each(|sample| sample.lessons.clear());
    let learner = learner(only("distillation", None), teacher(TeacherWeights::Current), UpdateSettings::default(), 1.0);
    let metrics = learner.gradients(&samples).unwrap();
    assert_eq!(metrics.value("loss"), Some(0.0));
    assert!(gradients(&learner).into_values().flatten().all(|value| value == 0.0));
}

#[test]
fn what_is_not_taught_has_no_part_in_it() {
    let golden = known();
    let plain = samples(&golden);
    let objectives = || only("divergence", Some(Support { k: 5, side: Side::Union }));
    let loss = |samples: &[Sample]| {
        let learner = learner(objectives(), teacher(TeacherWeights::Current), UpdateSettings::default(), 1.0);
        (learner.gradients(samples).unwrap().value("loss").unwrap(), gradients(&learner))
    };
    let expected = loss(&plain);
    // What a lesson holds behind the last taught token is read by no taught one.
    let mut longer = plain.clone();
    longer[0].lessons[0].tokens.extend([7, 8, 9]);
    assert_eq!(loss(&longer), expected);
    // One lesson, or one for each token: each token is compared once.
    let mut apart = plain;
    let whole = apart[1].lessons[0].clone();
    let one =
        |at: usize| Lesson { mask: (0..whole.mask.len()).map(|i| i == at && whole.mask[i]).collect(), ..whole.clone() };
    apart[1].lessons = (0..whole.mask.len()).map(one).collect();
    assert_eq!(loss(&apart), expected);
}

/// Metrics of an update in two parts, and the model behind it.
fn updated(refresh: Refresh, weights: TeacherWeights) -> (BTreeMap<String, f64>, u64) {
    let golden = known();
    let settings = UpdateSettings { batch: 1, ..UpdateSettings::default() };
    let mut objectives = only("surrogate", Some(Support { k: 4, side: Side::Union }));
    objectives.hindsight.distillation.weight = 0.5;
    let settings_of_teacher = TeacherSettings { refresh, ..teacher(weights) };
    let mut learner = learner(objectives, settings_of_teacher, settings, golden.temperature);
    let metrics = learner.update(&samples(&golden), |_| 1e-2).unwrap();
    let metrics = metrics.iter().filter(|(name, _)| !name.starts_with("time/"));
    let metrics = metrics.map(|(name, value)| (name.to_owned(), value)).collect();
    let weights = learner.decoder().parameters().into_iter().flat_map(|parameter| parameter.to_vec().unwrap());
    let bits = weights.fold(0u64, |all, value| all.rotate_left(7) ^ u64::from(value.to_bits()));
    (metrics, bits)
}

#[test]
fn a_teacher_is_asked_before_the_first_update_or_before_each() {
    let step = updated(Refresh::Step, TeacherWeights::Current);
    assert_eq!(updated(Refresh::Step, TeacherWeights::Current), step);
    // The first update has moved the policy: taken then, its weights say something else.
    assert_ne!(updated(Refresh::Batch, TeacherWeights::Current), step);
    // Before the first update both are the same weights, and afterwards the reference's stay so.
    assert_eq!(updated(Refresh::Step, TeacherWeights::Reference), step);
    assert_eq!(updated(Refresh::Batch, TeacherWeights::Reference), step);
}

#[test]
fn a_moving_mean_follows_and_is_part_of_the_state() {
    let golden = known();
    let settings = TeacherSettings { rate: 0.25, ..teacher(TeacherWeights::Ema) };
    let begin = || learner(only("distillation", None), settings.clone(), UpdateSettings::default(), golden.temperature);
    let (mut one, samples) = (begin(), samples(&golden));
    for _ in 0..3 {
        one.update(&samples, |_| 1e-2).unwrap();
    }
    let (tensors, state) = one.state().unwrap();
    let mean = &tensors["teacher/model.norm.weight"].values;
    let now = &tensors["model.norm.weight"].values;
    let begun = model("qwen2").weights().unwrap().into_tensors()["model.norm.weight"].data.clone();
    let (near, far): (f32, f32) = mean
        .iter()
        .zip(begun.iter().zip(now.iter()))
        .fold((0.0, 0.0), |sums, (m, (b, n))| (sums.0 + (m - b).abs(), sums.1 + (n - b).abs()));
    assert!(0.0 < near && near < 0.75 * far, "{near} {far}");
    let mut anew = begin();
    anew.update(&samples, |_| 1e-2).unwrap();
    anew.begin_average().unwrap();
    let (tensors_anew, _) = anew.state().unwrap();
    assert_eq!(tensors_anew["teacher/model.norm.weight"].values, tensors_anew["model.norm.weight"].values);
    let mut other = begin();
    let tensors = tensors.into_iter().map(|(name, data)| {
        let values = data.values.into_owned().into();
        (name, hindsearch_trainer::TensorData { shape: data.shape, values })
    });
    other.restore(tensors.collect(), &state).unwrap();
    let next = |learner: &mut Learner| learner.update(&samples, |_| 1e-2).unwrap().value("loss");
    assert_eq!(next(&mut other), next(&mut one));
}

#[test]
fn a_teacher_needs_what_it_is_made_of() {
    let objectives = only("distillation", None);
    let files = model("qwen2");
    let decoder = Arc::new(Decoder::new(files.config(), files.weights().unwrap(), true).unwrap());
    let parts = |teacher| LearnerParts {
        decoder: decoder.clone(),
        objectives,
        teacher,
        optimizer: AdamWSettings::default(),
        settings: UpdateSettings::default(),
        temperature: 1.0,
    };
    for (settings, expected) in [
        (TeacherSettings { rate: 1.5, ..TeacherSettings::default() }, "hindsight.teacher.rate"),
        (teacher(TeacherWeights::Larger), "hindsight.teacher.model"),
        (TeacherSettings { model: Some("m".into()), ..TeacherSettings::default() }, "hindsight.teacher.model"),
    ] {
        let error = Learner::new(parts(settings)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let greedy = only("divergence", Some(Support { k: 100_000_000, side: Side::Teacher }));
    let parts = LearnerParts { objectives: greedy, ..parts(teacher(TeacherWeights::Current)) };
    let error = Learner::new(parts).err().unwrap().to_string();
    assert!(error.contains("support.k") && error.contains("384"), "{error}");
}

#[test]
fn what_a_leak_in_a_hint_teaches_is_told() {
    let golden = known();
    let current = teacher(TeacherWeights::Current);
    let mut learner = learner(only("distillation", None), current, UpdateSettings::default(), golden.temperature);
    let mut samples = samples(&golden);
    let known = learner.logprobs(&samples).unwrap();
    for (sample, known) in samples.iter_mut().zip(known) {
        sample.logprobs = Some(known);
    }
    assert_eq!(learner.update(&samples, |_| 0.0).unwrap().value("hindsight/gold_weight"), None);
    samples.iter_mut().for_each(|sample| sample.spells_gold = sample.in_query.clone());
    let metrics = learner.update(&samples, |_| 0.0).unwrap();
    let (weight, saturated) =
        (metrics.value("hindsight/gold_weight").unwrap(), metrics.value("hindsight/clamp_saturation").unwrap());
    assert!(saturated <= weight && weight <= 1.0 && weight > 0.0, "{weight} {saturated}");
}

#[test]
fn a_schedule_scales_all_that_a_teacher_says() {
    let golden = known();
    let (samples, current) = (samples(&golden), teacher(TeacherWeights::Current));
    let mut learner = learner(only("distillation", None), current, UpdateSettings::default(), golden.temperature);
    let whole = learner.gradients(&samples).unwrap().value("loss").unwrap();
    learner.set_hindsight(0.5);
    let half = learner.gradients(&samples).unwrap().value("loss").unwrap();
    assert!((whole - 2.0 * half).abs() < 1e-9, "{whole} {half}");
    learner.set_hindsight(0.0);
    let nothing = learner.gradients(&samples).unwrap();
    assert_eq!((nothing.value("loss"), nothing.value("hindsight/gap_mean")), (Some(0.0), None));
}
