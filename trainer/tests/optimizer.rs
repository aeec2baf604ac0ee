//! An update is that of `torch.optim.AdamW`, whatever the threads do, and what is not finite never reaches the weights.

use std::collections::BTreeMap;

use hindsearch_trainer::{AdamW, AdamWSettings, Decay, Error, Schedule, TensorData, Trainable, Updated, gradient_norm};
use serde::Deserialize;

type Values = BTreeMap<String, Vec<f32>>;

#[derive(Deserialize)]
struct Golden {
    shapes: BTreeMap<String, Vec<usize>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    settings: BTreeMap<String, f64>,
    start: Values,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    rate: f64,
    norm: f64,
    gradients: Values,
    after: Values,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/adamw.json")).expect("the golden file")
}

fn settings(case: &Case) -> AdamWSettings {
    let get = |name: &str| case.settings[name];
    AdamWSettings {
        beta1: get("beta1"),
        beta2: get("beta2"),
        epsilon: get("epsilon"),
        weight_decay: get("weight_decay"),
        max_norm: get("max_norm"),
    }
}

fn update(
    optimizer: &mut AdamW,
    shapes: &BTreeMap<String, Vec<usize>>,
    values: &mut Values,
    gradients: &Values,
    rate: f64,
) -> Result<Updated, Error> {
    let mut parameters: Vec<_> = values
        .iter_mut()
        .map(|(name, value)| Trainable { name, shape: &shapes[name], value, gradient: &gradients[name] })
        .collect();
    optimizer.update(&mut parameters, rate, 0.5)
}

fn assert_close(found: &Values, expected: &Values, step: usize) {
    for (name, expected) in expected {
        for (found, expected) in found[name].iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
                "step {step}, {name}: {found} {expected}"
            );
        }
    }
}

#[test]
fn twenty_updates_are_those_of_torch_with_its_clipping() {
    let golden = golden();
    let (mut clipped, mut whole) = (0, 0);
    for case in &golden.cases {
        let mut optimizer = AdamW::new(settings(case)).expect("settings");
        let mut values = case.start.clone();
        for (number, step) in case.steps.iter().enumerate() {
            let made =
                update(&mut optimizer, &golden.shapes, &mut values, &step.gradients, step.rate).expect("an update");
            assert!((made.norm - step.norm).abs() <= 1e-6 * step.norm, "{} {}", made.norm, step.norm);
            if made.scale < 1.0 {
                clipped += 1
            } else {
                whole += 1
            }
            assert_close(&values, &step.after, number);
        }
        assert_eq!((optimizer.updates(), optimizer.skipped()), (20, 0));
    }
    assert!(clipped > 3 && whole > 23, "{clipped} {whole}: both ways are tried");
}

#[test]
fn an_optimizer_that_was_saved_goes_on_to_the_same_bits() {
    let golden = golden();
    let case = &golden.cases[0];
    let mut optimizer = AdamW::new(settings(case)).expect("settings");
    let mut values = case.start.clone();
    for step in &case.steps[..10] {
        update(&mut optimizer, &golden.shapes, &mut values, &step.gradients, step.rate).expect("an update");
    }
    let own = |(name, data): (String, TensorData<'_>)| {
        (name, TensorData { shape: data.shape, values: data.values.into_owned().into() })
    };
    let mut saved: BTreeMap<String, TensorData<'static>> = optimizer.tensors().map(own).collect();
    assert_eq!(saved.len(), 4);
    let weight = TensorData { shape: vec![1], values: vec![1.0].into() };
    saved.insert("proj.weight".into(), weight);
    let mut again = AdamW::restore(settings(case), &mut saved, &optimizer.state()).expect("restored");
    assert_eq!(again, optimizer);
    assert_eq!(saved.keys().collect::<Vec<_>>(), ["proj.weight"], "what is not the optimizer's stays");

    let mut others = values.clone();
    for step in &case.steps[10..] {
        update(&mut optimizer, &golden.shapes, &mut values, &step.gradients, step.rate).expect("an update");
        update(&mut again, &golden.shapes, &mut others, &step.gradients, step.rate).expect("an update");
    }
    assert_eq!(bits(&values), bits(&others));
}

#[test]
fn half_a_saved_optimizer_is_refused() {
    let golden = golden();
    let case = &golden.cases[0];
    let mut optimizer = AdamW::new(settings(case)).expect("settings");
    let mut values = case.start.clone();
    update(&mut optimizer, &golden.shapes, &mut values, &case.steps[0].gradients, 0.1).expect("an update");
    let saved: BTreeMap<_, _> = optimizer.tensors().collect();
    for missing in saved.keys() {
        let mut rest = saved.clone();
        rest.remove(missing);
        let refused = AdamW::restore(settings(case), &mut rest, &optimizer.state());
        assert!(matches!(refused, Err(Error::InvalidInput { .. })), "without {missing}");
    }
    let mut none = BTreeMap::new();
    let mut without = AdamW::restore(settings(case), &mut none, &optimizer.state()).expect("restored");
    let refused = update(&mut without, &golden.shapes, &mut values, &case.steps[0].gradients, 0.1);
    assert!(matches!(refused, Err(Error::InvalidInput { .. })), "moments of updates before are missing");
}

#[test]
fn the_numbers_do_not_depend_on_the_threads_nor_on_the_order_of_the_tensors() {
    // Several chunks, the last of them not full.
    let wave = |length: usize, pace: f32| (0..length).map(|at| (at as f32 * pace).sin()).collect::<Vec<f32>>();
    let shapes = BTreeMap::from([("a".to_owned(), vec![50_001, 2]), ("b".to_owned(), vec![40_000])]);
    let start = Values::from([("a".into(), wave(100_002, 0.1)), ("b".into(), wave(40_000, 0.2))]);
    let gradients = Values::from([("a".into(), wave(100_002, 0.7)), ("b".into(), wave(40_000, 1.1))]);
    let run = |threads: usize, backwards: bool| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let mut optimizer = AdamW::new(AdamWSettings::default()).expect("settings");
            let mut values = start.clone();
            let mut norms = Vec::new();
            for _ in 0..3 {
                let mut parameters: Vec<_> = values
                    .iter_mut()
                    .map(|(name, value)| Trainable { name, shape: &shapes[name], value, gradient: &gradients[name] })
                    .collect();
                if backwards {
                    parameters.reverse();
                }
                norms.push(optimizer.update(&mut parameters, 0.01, 0.0).expect("an update").norm.to_bits());
            }
            (bits(&values), norms)
        })
    };
    let one = run(1, false);
    assert_eq!(one, run(4, false));
    assert_eq!(one, run(3, true));
}

#[test]
fn what_is_not_finite_changes_nothing_and_the_third_time_in_a_row_ends_the_run() {
    let golden = golden();
    let case = &golden.cases[0];
    for strange in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut optimizer = AdamW::new(settings(case)).expect("settings");
        let mut values = case.start.clone();
        let sound = &case.steps[0].gradients;
        let mut spoilt = sound.clone();
        spoilt.get_mut("proj.weight").expect("a tensor")[3] = strange;
        update(&mut optimizer, &golden.shapes, &mut values, sound, 0.1).expect("an update");
        let (before, moments) = (bits(&values), optimizer.clone());

        for _ in 0..2 {
            let skipped = update(&mut optimizer, &golden.shapes, &mut values, &spoilt, 0.1).expect("skipped");
            assert!(skipped.skipped && !skipped.norm.is_finite());
        }
        assert_eq!(bits(&values), before);
        assert!(optimizer.tensors().eq(moments.tensors()));
        assert_eq!((optimizer.updates(), optimizer.skipped()), (1, 2));

        // Saved and restored, the count goes on.
        let mut saved = optimizer.tensors().collect();
        let mut again = AdamW::restore(settings(case), &mut saved, &optimizer.state()).expect("restored");
        let ended = update(&mut again, &golden.shapes, &mut values, &spoilt, 0.1);
        assert!(matches!(ended, Err(Error::Diverged { .. })), "{ended:?}");
        assert_eq!(bits(&values), before);

        // A sound one between begins the count anew.
        assert!(!update(&mut optimizer, &golden.shapes, &mut values, sound, 0.1).expect("an update").skipped);
        assert!(update(&mut optimizer, &golden.shapes, &mut values, &spoilt, 0.1).expect("skipped").skipped);
    }
    let mut optimizer = AdamW::new(settings(case)).expect("settings");
    let mut value = [1.0];
    let mut one = [Trainable { name: "w", shape: &[1], value: &mut value, gradient: &[1.0] }];
    assert!(optimizer.update(&mut one, 0.1, f64::NAN).expect("skipped").skipped, "a loss counts as well");
    assert_eq!(value, [1.0]);
}

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    let mut optimizer = AdamW::new(AdamWSettings::default()).expect("settings");
    let (mut a, mut b) = ([1.0, 2.0], [1.0, 2.0]);
    let mut refuse = |mut parameters: Vec<Trainable<'_>>, word: &str| {
        let error = optimizer.update(&mut parameters, 0.1, 0.0).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    };
    refuse(vec![Trainable { name: "w", shape: &[3], value: &mut a, gradient: &[0.0; 2] }], "`w`");
    refuse(vec![Trainable { name: "w", shape: &[2], value: &mut a, gradient: &[0.0; 1] }], "1 of its gradient");
    let twice = vec![
        Trainable { name: "w", shape: &[2], value: &mut a, gradient: &[0.0; 2] },
        Trainable { name: "w", shape: &[2], value: &mut b, gradient: &[0.0; 2] },
    ];
    refuse(twice, "twice");
    assert_eq!(optimizer.updates(), 0);
    for settings in [
        AdamWSettings { beta1: 1.0, ..AdamWSettings::default() },
        AdamWSettings { beta2: -0.1, ..AdamWSettings::default() },
        AdamWSettings { epsilon: f64::NAN, ..AdamWSettings::default() },
        AdamWSettings { max_norm: f64::INFINITY, ..AdamWSettings::default() },
    ] {
        assert!(matches!(AdamW::new(settings), Err(Error::InvalidInput { .. })), "{settings:?}");
    }
}

#[test]
fn the_norm_is_exact_where_f32_would_overflow_or_lose_the_small_ones() {
    assert_eq!(gradient_norm([&[3.0_f32][..], &[4.0]]), 5.0);
    assert_eq!(gradient_norm([&[3e30_f32, 4e30][..]]), f64::from(3e30_f32).hypot(f64::from(4e30_f32)));
    let ones = vec![1.0_f32; 1 << 24];
    let norm = gradient_norm([&[4096.0_f32][..], &ones]);
    assert!((norm * norm / 2.0_f64.powi(25) - 1.0).abs() < 1e-14, "{norm}");
    assert_eq!(gradient_norm([]), 0.0);
}

#[test]
fn rates_rise_to_their_peak_and_then_decay() {
    let schedule = Schedule { peak: 2.0, warmup: 4, decay: Decay::Constant, total: 12, floor: 0.0 };
    let rates = |schedule: Schedule, updates: &[u64]| updates.iter().map(|&u| schedule.rate(u)).collect::<Vec<_>>();
    assert_eq!(rates(schedule, &[1, 2, 4, 5, 12, 99]), [0.5, 1.0, 2.0, 2.0, 2.0, 2.0]);
    let linear = Schedule { decay: Decay::Linear, ..schedule };
    assert_eq!(rates(linear, &[3, 4, 8, 10, 12, 99]), [1.5, 2.0, 1.0, 0.5, 0.0, 0.0]);
    let floored = Schedule { floor: 0.5, ..linear };
    assert_eq!(rates(floored, &[4, 8, 12]), [2.0, 1.5, 1.0]);
    let cosine = rates(Schedule { decay: Decay::Cosine, ..schedule }, &[4, 6, 8, 10, 12, 13]);
    let expected = [2.0, 1.0 + 0.5_f64.sqrt(), 1.0, 1.0 - 0.5_f64.sqrt(), 0.0, 0.0];
    assert!(cosine.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{cosine:?}");
    let at_once = Schedule { warmup: 0, ..schedule };
    assert_eq!(rates(at_once, &[1, 2]), [2.0, 2.0]);
    let too_short = Schedule { warmup: 20, decay: Decay::Linear, ..schedule };
    assert_eq!(rates(too_short, &[10, 20, 21]), [1.0, 2.0, 0.0]);
}

/// The bits, since -0 equals 0 and NaN does not equal itself.
fn bits(values: &Values) -> BTreeMap<String, Vec<u32>> {
    let of = |values: &Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
    values.iter().map(|(name, values)| (name.clone(), of(values))).collect()
}
