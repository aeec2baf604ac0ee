//! Times a model's learning and writing, for comparisons with PyTorch (`benches/trainer_peers.py`).
//!
//! `model_speed MODEL learn|recompute|prefill|decode|agree ROWS [ROUNDS]` · `model_speed MODEL numbers FILE`
//!
//! Prints one JSON object: tokens, wall and CPU seconds of the best round, and the peak of memory above the weights in bytes. `agree`
//! tells how far log-probabilities of written tokens are from those of the training pass; `numbers` writes loss, logits and gradients
//! to FILE. MODEL is a folder or a GGUF file; RAYON_NUM_THREADS sets the threads.

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use hindsearch_trainer::ops::Logprobs;
use hindsearch_trainer::{
    Decoder, Engine, EngineOptions, Generated, ModelFiles, Packed, Request, Sampling, StoredType, Weight, write_tensors,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Tokens of a sequence that is learnt or read, and of one from which writing goes on.
const LONG: usize = 512;
const SHORT: usize = 128;
/// Tokens that are written.
const WRITTEN: usize = 64;
/// Gradients that are compared.
const COMPARED: [&str; 7] = [
    "model.embed_tokens.weight",
    "model.norm.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.15.self_attn.k_proj.weight",
    "model.layers.15.mlp.down_proj.weight",
    "model.layers.29.self_attn.v_proj.weight",
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, mode, last) = match &arguments[..] {
        [model, mode, last] => (model, mode.as_str(), (last, 1)),
        [model, mode, last, rounds] => (model, mode.as_str(), (last, rounds.parse()?)),
        _ => return Err("model_speed MODEL learn|recompute|prefill|decode|agree|numbers ROWS|FILE [ROUNDS]".into()),
    };
    let decoder = Arc::new(open(model.as_ref(), matches!(mode, "learn" | "recompute" | "numbers"))?);
    if mode == "numbers" {
        return numbers(&decoder, last.0.as_ref());
    }
    let (rows, rounds): (usize, usize) = (last.0.parse()?, last.1);
    let weights = memory("VmRSS")?;
    // From here on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let mut found = match mode {
        "learn" | "recompute" => best(rounds, || learn(&decoder, rows, mode == "recompute"))?,
        "prefill" => best(rounds, || prefill(&decoder, rows))?,
        "decode" => best(rounds, || decode(&decoder, rows))?,
        "agree" => agree(&decoder, rows)?,
        other => return Err(format!("no mode `{other}`").into()),
    };
    found["peak_bytes"] = json!(memory("VmHWM")?.saturating_sub(weights));
    println!("{found}");
    Ok(())
}

fn open(path: &Path, learns: bool) -> Outcome<Decoder> {
    let model = ModelFiles::open(path)?;
    Ok(Decoder::new(model.config(), model.weights()?, learns)?)
}

/// Tokens that belong to a row alone; `trainer_peers.py` makes the same.
fn tokens(row: usize, count: usize) -> Vec<u32> {
    (0..count).map(|at| ((at * at * 7919 + at * 104_729 + row * 15_485_863 + 17) % 49_152) as u32).collect()
}

/// The round that took the least CPU time.
fn best(rounds: usize, mut work: impl FnMut() -> Outcome<Value>) -> Outcome<Value> {
    let mut all = (0..rounds.max(1)).map(|_| work()).collect::<Outcome<Vec<Value>>>()?;
    let seconds = |found: &Value| found["cpu_seconds"].as_f64().unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    all.into_iter().next().ok_or_else(|| "no round".into())
}

fn timed<T>(tokens: usize, work: impl FnOnce() -> Outcome<T>) -> Outcome<(Value, T)> {
    let (start, cpu) = (Instant::now(), cpu_time());
    let result = work()?;
    Ok((took(tokens, start.elapsed(), cpu_time() - cpu), result))
}

fn took(tokens: usize, wall: Duration, cpu: Duration) -> Value {
    json!({ "tokens": tokens, "wall_seconds": wall.as_secs_f64(), "cpu_seconds": cpu.as_secs_f64() })
}

/// The mean of the log-probabilities of all tokens but the first ones, negated, and its gradients.
fn pass(decoder: &Decoder, packed: &Packed, recompute: bool) -> Outcome<f64> {
    let rows: Vec<u32> =
        packed.segments.iter().flat_map(|segment| segment.start as u32..segment.end as u32 - 1).collect();
    let targets: Vec<u32> = rows.iter().map(|row| packed.tokens[*row as usize + 1]).collect();
    let pass = decoder.forward(packed, &rows, recompute)?;
    let found = Logprobs::new(pass.hidden(), decoder.head(), &targets, 1.0)?;
    let count = targets.len();
    pass.backward(found.backward(&vec![-1.0 / count as f32; count], None)?)?;
    Ok(-found.logprobs.iter().map(|logprob| f64::from(*logprob)).sum::<f64>() / count as f64)
}

fn learn(decoder: &Decoder, rows: usize, recompute: bool) -> Outcome<Value> {
    let mut packed = Packed::default();
    (0..rows).for_each(|row| packed.push(&tokens(row, LONG)));
    let (mut found, loss) = timed(packed.tokens.len(), || pass(decoder, &packed, recompute))?;
    found["loss"] = json!(loss);
    Ok(found)
}

/// When a token came: the row, wall time and CPU time.
type Came = (usize, Instant, Duration);

fn engine(decoder: &Arc<Decoder>) -> Outcome<Engine> {
    Ok(Engine::new(decoder.clone(), EngineOptions::default())?)
}

/// Writes all rows at a time; tells when each token came.
fn write(engine: &Engine, rows: usize, read: usize, sampling: Sampling) -> Outcome<(Vec<Generated>, Vec<Came>)> {
    let came: Arc<Mutex<Vec<Came>>> = Arc::default();
    let ask = |row: usize| {
        let came = came.clone();
        let stops = move |_| {
            came.lock().unwrap_or_else(PoisonError::into_inner).push((row, Instant::now(), cpu_time()));
            false
        };
        let (tokens, limit) = (tokens(row, read), if read == LONG { 1 } else { WRITTEN });
        engine.generate(Request { tokens, limit, sampling, seed: row as u64, stops: Box::new(stops) })
    };
    let written = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rows).map(|row| scope.spawn(move || ask(row))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread ended by a defect"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let came = came.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((written.into_iter().collect::<Result<_, _>>()?, came))
}

fn prefill(decoder: &Arc<Decoder>, rows: usize) -> Outcome<Value> {
    let engine = engine(decoder)?;
    let (start, cpu) = (Instant::now(), cpu_time());
    let (_, came) = write(&engine, rows, LONG, Sampling::greedy())?;
    let (_, end, cpu_end) = came.into_iter().max_by_key(|came| came.1).ok_or("nothing written")?;
    Ok(took(rows * LONG, end - start, cpu_end - cpu))
}

/// From when all rows write until the first one ends.
fn decode(decoder: &Arc<Decoder>, rows: usize) -> Outcome<Value> {
    let (_, came) = write(&engine(decoder)?, rows, SHORT, Sampling::greedy())?;
    let of = |row: usize| came.iter().filter(move |came| came.0 == row);
    let start = (0..rows).filter_map(|row| of(row).next()).max_by_key(|came| came.1).ok_or("nothing written")?;
    let end = (0..rows).filter_map(|row| of(row).next_back()).min_by_key(|came| came.1).ok_or("nothing written")?;
    let tokens = came.iter().filter(|came| came.1 > start.1 && came.1 <= end.1).count();
    Ok(took(tokens, end.1 - start.1, end.2 - start.2))
}

fn agree(decoder: &Arc<Decoder>, rows: usize) -> Outcome<Value> {
    let (written, _) = write(&engine(decoder)?, rows, SHORT, Sampling::default())?;
    let (mut packed, mut asked, mut targets, mut sampled) = (Packed::default(), Vec::new(), Vec::new(), Vec::new());
    for (row, written) in written.into_iter().enumerate() {
        let first = packed.tokens.len() + SHORT - 1;
        packed.push(&[tokens(row, SHORT), written.tokens.clone()].concat());
        asked.extend((first..first + written.tokens.len()).map(|row| row as u32));
        targets.extend(written.tokens);
        sampled.extend(written.logprobs);
    }
    let pass = decoder.forward(&packed, &asked, true)?;
    let trained = Logprobs::new(pass.hidden(), decoder.head(), &targets, 1.0)?.logprobs;
    if trained.len() != sampled.len() || trained.iter().chain(&sampled).any(|logprob| !logprob.is_finite()) {
        return Err("expected a finite log-probability of each token on both sides".into());
    }
    let largest = trained.iter().zip(&sampled).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let mean = |of: &[f32]| of.iter().sum::<f32>() / of.len() as f32;
    let (trained, sampled) = (mean(&trained), mean(&sampled));
    Ok(
        json!({ "tokens": targets.len(), "largest_difference": largest, "trained_mean": trained, "sampled_mean": sampled }),
    )
}

/// Loss, logits and some gradients of one sequence.
fn numbers(decoder: &Decoder, path: &Path) -> Outcome<()> {
    let mut packed = Packed::default();
    packed.push(&tokens(0, LONG));
    let loss = pass(decoder, &packed, false)?;
    let all: Vec<u32> = (0..LONG as u32).collect();
    let logits = decoder.logits(decoder.forward(&packed, &all, true)?.hidden())?;
    let mut found = vec![("loss".to_owned(), Tensor::new(loss as f32, &Device::Cpu)?), ("logits".to_owned(), logits)];
    for parameter in decoder.parameters().into_iter().filter(|parameter| COMPARED.contains(&parameter.name())) {
        let gradient = parameter.gradient().ok_or_else(|| format!("no gradient of `{}`", parameter.name()))?;
        found.push((parameter.name().to_owned(), gradient));
    }
    let weight = |tensor: &Tensor| -> candle_core::Result<Weight> {
        Ok(Weight { shape: tensor.dims().to_vec(), data: tensor.flatten_all()?.to_vec1()? })
    };
    let found: Vec<(String, Weight)> =
        found.iter().map(|(name, tensor)| Ok((name.clone(), weight(tensor)?))).collect::<candle_core::Result<_>>()?;
    let found: Vec<(&str, &Weight)> = found.iter().map(|(name, weight)| (name.as_str(), weight)).collect();
    Ok(write_tensors(path, &found, StoredType::F32)?)
}

/// CPU time of the whole process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A line of `/proc/self/status`, in bytes.
fn memory(line: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')?.split_whitespace().next());
    Ok(value.ok_or_else(|| format!("no `{line}` in /proc/self/status"))?.parse::<u64>()? * 1024)
}
