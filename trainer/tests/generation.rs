//! What is written depends on the request alone: not on who else writes, on chunks, on threads, or on what is kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod common;

use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{config, tokens, weights};
use hindsearch_trainer::ops::Logprobs;
use hindsearch_trainer::{
    Decoder, Engine, EngineOptions, Generated, ModelConfig, Packed, Reason, Request, Result, Sampling,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Large enough for a second thread to be asked.
fn shape() -> ModelConfig {
    ModelConfig { hidden: 64, head_dim: 16, intermediate: 160, vocabulary: 300, ..config("llama") }
}

fn decoder() -> Arc<Decoder> {
    Arc::new(Decoder::new(&shape(), weights(&shape()), false).unwrap())
}

fn engine(options: EngineOptions) -> Engine {
    Engine::new(decoder(), options).unwrap()
}

fn sampling() -> Sampling {
    Sampling { temperature: 0.8, ..Sampling::default() }
}

fn request(tokens: &[u32], limit: usize, seed: u64) -> Request {
    Request { tokens: tokens.to_vec(), limit, sampling: sampling(), seed, stops: Box::new(|_| false) }
}

/// The prompt of a row: some begin alike, one is another's beginning, and one is longer than any chunk.
fn prompt(row: usize) -> Vec<u32> {
    match row {
        0..3 => [tokens("shared", 70), tokens(&format!("own {row}"), row)].concat(),
        3 => tokens("shared", 40),
        4 => tokens("long", 600),
        5 => vec![7],
        _ => tokens(&format!("prompt {row}"), 3 + 17 * row),
    }
}

fn ask(row: usize) -> Request {
    request(&prompt(row), 12 + row, row as u64)
}

/// All rows at a time, each asked for by a thread of its own.
fn together(engine: &Engine, rows: usize) -> Vec<Result<Generated>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rows).map(|row| scope.spawn(move || engine.generate(ask(row)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Each row in an engine of its own.
fn alone(rows: usize) -> Vec<Generated> {
    (0..rows).map(|row| engine(EngineOptions::default()).generate(ask(row)).unwrap()).collect()
}

fn same(found: Vec<Result<Generated>>, expected: &[Generated], what: &str) {
    for (row, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        assert_eq!(&found.unwrap(), expected, "{what}, row {row}");
    }
}

#[test]
fn a_row_is_the_same_whoever_writes_beside_it_and_whatever_is_kept() {
    let expected = alone(8);
    let default = EngineOptions::default();
    for options in [
        default,
        EngineOptions { chunk: 7, ..default },
        EngineOptions { chunk: 1, rows: 3, ..default },
        EngineOptions { rows: 1, ..default },
        EngineOptions { kept: 0, ..default },
        EngineOptions { kept: 90, rows: 2, chunk: 64 },
    ] {
        let engine = engine(options);
        // The second time prompts are there already, as far as they are kept.
        for time in ["first", "second"] {
            same(together(&engine, 8), &expected, &format!("{options:?}, the {time} time"));
        }
    }
}

#[test]
fn many_threads_at_once_are_all_answered() {
    let expected = alone(10);
    let engine = engine(EngineOptions { rows: 4, ..EngineOptions::default() });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| same(together(&engine, 10), &expected, "one of three callers of ten"));
        }
    });
}

#[test]
fn threads_change_no_bit() {
    const CHILD: &str = "HINDSEARCH_TEST_PRINTS";
    if std::env::var_os(CHILD).is_some() {
        let found: Vec<_> = together(&engine(EngineOptions::default()), 8).into_iter().map(Result::unwrap).collect();
        println!("found: {found:?}");
        return;
    }
    let of = |threads: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "threads_change_no_bit", "--nocapture"]);
        let output = command.env(CHILD, "1").env("RAYON_NUM_THREADS", threads).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found = text.lines().find_map(|line| Some(line.split_once("found: ")?.1.to_owned()));
        found.unwrap_or_else(|| panic!("{threads} threads: {text}"))
    };
    let expected = format!("{:?}", alone(8));
    assert_eq!(of("1"), expected);
    assert_eq!(of("2"), expected);
    assert_eq!(of("5"), expected);
}

#[test]
fn log_probabilities_are_those_of_the_training_pass_to_the_last_bit() {
    let decoder = decoder();
    let engine = Engine::new(decoder.clone(), EngineOptions { chunk: 50, ..EngineOptions::default() }).unwrap();
    let (mut packed, mut rows, mut targets, mut sampled) = (Packed::default(), vec![], vec![], vec![]);
    for (row, written) in together(&engine, 8).into_iter().enumerate() {
        let written = written.unwrap();
        let first = packed.tokens.len() + prompt(row).len() - 1;
        packed.push(&[prompt(row), written.tokens.clone()].concat());
        rows.extend((first..first + written.tokens.len()).map(|row| row as u32));
        targets.extend(written.tokens);
        sampled.extend(written.logprobs);
    }
    // The weights are laid out for writing first, then as they are.
    for recompute in [false, true] {
        let pass = decoder.forward(&packed, &rows, recompute).unwrap();
        let trained = Logprobs::new(pass.hidden(), decoder.head(), &targets, 0.8).unwrap();
        assert_eq!(trained.logprobs, sampled);
    }
    drop(engine);
    let pass = decoder.forward(&packed, &rows, true).unwrap();
    assert_eq!(Logprobs::new(pass.hidden(), decoder.head(), &targets, 0.8).unwrap().logprobs, sampled);
}

#[test]
fn going_on_turn_by_turn_is_reading_all_anew() {
    let kept = engine(EngineOptions::default());
    let mut so_far = tokens("question", 60);
    for turn in 0..4 {
        let ask = || request(&so_far, 15, turn);
        let written = kept.generate(ask()).unwrap();
        assert_eq!(written, engine(EngineOptions::default()).generate(ask()).unwrap(), "turn {turn}");
        so_far.extend(written.tokens);
        so_far.extend(tokens(&format!("observation {turn}"), 30));
    }
    // A sibling that leaves the way in the middle of a turn.
    let other = [&so_far[..100], &tokens("elsewhere", 9)].concat();
    let ask = || request(&other, 15, 9);
    assert_eq!(kept.generate(ask()).unwrap(), engine(EngineOptions::default()).generate(ask()).unwrap());
}

#[test]
fn the_seed_and_nothing_else_chooses() {
    let engine = engine(EngineOptions::default());
    let of = |seed| engine.generate(request(&prompt(0), 20, seed)).unwrap();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1).tokens, of(2).tokens);
}

#[test]
fn a_message_ends_where_it_is_told_to_or_at_its_limit() {
    let engine = engine(EngineOptions::default());
    let all = engine.generate(request(&prompt(0), 9, 1)).unwrap();
    assert_eq!((all.tokens.len(), all.logprobs.len(), all.reason), (9, 9, Reason::Limit));
    for end in 0..9 {
        let told = Arc::new(Mutex::new(Vec::new()));
        let stops = {
            let told = told.clone();
            move |token| {
                let mut told = told.lock().unwrap();
                told.push(token);
                told.len() == end + 1
            }
        };
        let found = engine.generate(Request { stops: Box::new(stops), ..request(&prompt(0), 9, 1) }).unwrap();
        assert_eq!(found.reason, Reason::Stop, "a stop at the limit is a stop");
        assert_eq!(found.tokens, all.tokens[..=end]);
        assert_eq!(found.logprobs, all.logprobs[..=end]);
        assert_eq!(*told.lock().unwrap(), found.tokens, "each token is told once, in order");
    }
    let none = engine.generate(request(&prompt(0), 0, 1)).unwrap();
    assert_eq!((none.tokens.len(), none.reason), (0, Reason::Limit));
}

#[test]
fn what_means_nothing_is_refused() {
    let engine = engine(EngineOptions::default());
    assert!(engine.generate(request(&[], 3, 0)).unwrap_err().to_string().contains("token"));
    let error = engine.generate(request(&[299, 300], 3, 0)).unwrap_err().to_string();
    assert!(error.contains("300"), "{error}");
    for (sampling, named) in [
        (Sampling { temperature: f64::NAN, ..Sampling::default() }, "temperature"),
        (Sampling { temperature: -1.0, ..Sampling::default() }, "temperature"),
        (Sampling { top_p: 0.0, ..Sampling::default() }, "top_p"),
        (Sampling { min_p: 1.5, ..Sampling::default() }, "min_p"),
    ] {
        let error = engine.generate(Request { sampling, ..request(&[1], 3, 0) }).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    // Nobody else notices.
    engine.generate(request(&[1], 3, 0)).unwrap();
}

#[test]
fn a_request_with_a_token_that_is_not_there_does_not_end_those_beside_it() {
    let expected = alone(6);
    let engine = engine(EngineOptions::default());
    std::thread::scope(|scope| {
        let wrong = scope.spawn(|| (0..20).map(|_| engine.generate(request(&[1, 5000], 3, 0))).collect::<Vec<_>>());
        same(together(&engine, 6), &expected, "beside a wrong request");
        assert!(wrong.join().unwrap().iter().all(Result::is_err));
    });
}

/// How long an answer may take before it counts as never coming.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `work` gives, on a thread of its own that may hang.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).expect("an answer, not a hang")
}

#[test]
fn a_panic_in_stops_is_an_error_to_its_caller_alone() {
    let engine = Arc::new(engine(EngineOptions::default()));
    let found = in_time({
        let engine = engine.clone();
        move || {
            let stops = Box::new(|_| panic!("a defect of the caller's"));
            let failing = || engine.generate(Request { stops, ..request(&prompt(6), 12, 0) });
            std::thread::scope(|scope| {
                let failing = scope.spawn(failing);
                let beside = together(&engine, 8);
                (failing.join().unwrap(), beside)
            })
        }
    });
    assert!(found.0.is_err());
    let expected = alone(8);
    same(found.1, &expected, "beside the panic");
    same(in_time(move || together(&engine, 8)), &expected, "after the panic");
}

#[test]
fn an_engine_that_is_let_go_while_others_wait_answers_them_first() {
    let expected = alone(6);
    let found = in_time(|| {
        let engine = Arc::new(engine(EngineOptions { rows: 1, ..EngineOptions::default() }));
        let threads: Vec<_> = (0..6)
            .map(|row| {
                let engine = engine.clone();
                std::thread::spawn(move || engine.generate(ask(row)))
            })
            .collect();
        drop(engine);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    same(found, &expected, "let go");
}

#[test]
fn a_long_prompt_does_not_hold_up_those_that_write() {
    // The long one comes while the short one writes, which ends before the long prompt is read: 125 steps.
    let engine = engine(EngineOptions { chunk: 16, ..EngineOptions::default() });
    let order = Arc::new(Mutex::new(Vec::new()));
    let ((begun, begins), (sent, is_sent)) = (channel(), channel());
    let (of_short, of_long) = (order.clone(), order.clone());
    let mut written = 0;
    let short = Request {
        stops: Box::new(move |_| {
            written += 1;
            if written == 1 {
                begun.send(()).unwrap();
                is_sent.recv().unwrap();
                // Time for the request to arrive.
                std::thread::sleep(Duration::from_millis(20));
            }
            of_short.lock().unwrap().push("short");
            false
        }),
        ..request(&[1, 2, 3], 10, 0)
    };
    let long = Request {
        stops: Box::new(move |_| {
            of_long.lock().unwrap().push("long");
            false
        }),
        ..request(&tokens("long", 2000), 1, 0)
    };
    std::thread::scope(|scope| {
        let engine = &engine;
        scope.spawn(move || engine.generate(short).unwrap());
        begins.recv().unwrap();
        scope.spawn(move || {
            sent.send(()).unwrap();
            engine.generate(long).unwrap()
        });
    });
    assert_eq!(*order.lock().unwrap(), [["short"; 10].as_slice(), &["long"]].concat());
}

#[test]
fn weights_that_ran_away_give_an_error_or_nan_and_no_hang() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for name in ["model.embed_tokens.weight", "model.norm.weight", "model.layers.1.self_attn.k_proj.weight"] {
            let found = in_time(move || {
                let decoder = Arc::new(Decoder::new(&shape(), weights(&shape()), true).unwrap());
                let parameter = decoder.parameters().into_iter().find(|parameter| parameter.name() == name).unwrap();
                let mut values = parameter.value().flatten_all().unwrap().to_vec1::<f32>().unwrap();
                values[0] = bad;
                parameter.swap(&mut values).unwrap();
                let engine = Engine::new(decoder.clone(), EngineOptions::default()).unwrap();
                let samplings = [
                    Sampling::default(),
                    Sampling::greedy(),
                    Sampling { top_p: 0.9, top_k: 7, min_p: 0.01, ..Sampling::default() },
                ];
                for sampling in samplings {
                    let request = Request { sampling, ..request(&[0, 1, 0, 2], 5, 3) };
                    if let Ok(found) = engine.generate(request) {
                        assert!(found.tokens.iter().all(|token| *token < 300));
                        assert!(found.logprobs.iter().all(|logprob| logprob.is_nan()), "{:?}", found.logprobs);
                    }
                }
                let mut packed = Packed::default();
                packed.push(&[0, 1, 0, 2]);
                let pass = decoder.forward(&packed, &[0, 2], true).unwrap();
                let found = Logprobs::new(pass.hidden(), decoder.head(), &[1, 2], 1.0).unwrap();
                pass.backward(found.backward(&[1.0, 1.0], None).unwrap()).unwrap();
                found.logprobs
            });
            assert!(found.iter().all(|logprob| logprob.is_nan()), "{bad} in {name}: {found:?}");
        }
    }
}

#[test]
fn greedy_takes_the_first_of_equals() {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut of = |logits: &[f32]| Sampling::greedy().sample(logits, &mut random).0;
    assert_eq!(of(&[0.0, 3.0, 1.0, 3.0, 3.0]), 1);
    assert_eq!(of(&[-5.0; 40]), 0);
    assert_eq!(of(&[&[f32::NEG_INFINITY; 30][..], &[-1e30, -1e30]].concat()), 30);
    let (_, logprob) = Sampling::greedy().sample(&[0.0, 0.0, 0.0, 0.0], &mut random);
    assert!((logprob - 0.25f32.ln()).abs() < 1e-6, "at temperature 1: {logprob}");
}

/// Exact probabilities of what is left, by the definitions.
fn distribution(logits: &[f32], sampling: Sampling) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|logit| (f64::from(*logit) / sampling.temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    let all: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let greatest = all.iter().copied().fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].total_cmp(&all[*a]));
    order.retain(|token| all[*token] >= sampling.min_p * greatest);
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k);
    }
    let mut reached = 0.0;
    let nucleus: Vec<usize> = order
        .into_iter()
        .take_while(|token| {
            let more = reached < sampling.top_p;
            reached += all[*token];
            more
        })
        .collect();
    let total: f64 = nucleus.iter().map(|token| all[*token]).sum();
    (0..all.len()).map(|token| if nucleus.contains(&token) { all[token] / total } else { 0.0 }).collect()
}

#[test]
fn tokens_come_as_often_as_they_are_likely() {
    const DRAWS: usize = 40_000;
    let logits: Vec<f32> = (0..12).map(|token| ((token * 7) % 12) as f32 * 0.31 - 1.0).collect();
    let plain = Sampling::default();
    let samplings = [
        plain,
        Sampling { temperature: 0.5, ..plain },
        Sampling { temperature: 3.0, ..plain },
        Sampling { top_k: 3, ..plain },
        Sampling { top_k: 1, ..plain },
        Sampling { top_p: 0.6, ..plain },
        Sampling { top_p: 0.01, ..plain },
        Sampling { min_p: 0.25, ..plain },
        Sampling { temperature: 0.7, top_p: 0.85, top_k: 6, min_p: 0.05 },
    ];
    for (seed, sampling) in samplings.into_iter().enumerate() {
        let expected = distribution(&logits, sampling);
        let whole = distribution(&logits, Sampling { temperature: sampling.temperature, ..plain });
        let mut random = ChaCha8Rng::seed_from_u64(seed as u64);
        let mut counts = [0usize; 12];
        for _ in 0..DRAWS {
            let (token, logprob) = sampling.sample(&logits, &mut random);
            counts[token as usize] += 1;
            let off = f64::from(logprob) - whole[token as usize].ln();
            assert!(off.abs() < 1e-5, "{sampling:?}: the log-probability among all tokens is off by {off}");
        }
        let mut squares = 0.0;
        for (token, (count, expected)) in counts.into_iter().zip(&expected).enumerate() {
            assert!(*expected > 0.0 || count == 0, "{sampling:?}: token {token} is left out, but came {count} times");
            if *expected > 0.0 {
                let expected = expected * DRAWS as f64;
                squares += (count as f64 - expected).powi(2) / expected;
            }
        }
        // One in ten thousand true samples of 11 degrees of freedom exceeds 37.4.
        assert!(squares < 37.4, "{sampling:?}: chi-square {squares}, {counts:?}");
    }
}

#[test]
fn sampling_takes_any_logits() {
    let nan = [f32::NAN; 5];
    let hostile = [&nan[..], &[f32::NEG_INFINITY; 5], &[f32::INFINITY; 5], &[1.0, f32::NAN, 2.0, -1.0], &[0.0]];
    let started = Instant::now();
    for logits in hostile {
        for sampling in [
            Sampling::default(),
            Sampling::greedy(),
            Sampling { top_p: 0.5, ..Sampling::default() },
            Sampling { top_k: 2, min_p: 0.1, ..Sampling::default() },
        ] {
            let (token, _) = sampling.sample(logits, &mut ChaCha8Rng::seed_from_u64(1));
            assert!((token as usize) < logits.len(), "{sampling:?} of {logits:?}");
        }
    }
    assert!(started.elapsed() < PATIENCE);
}
