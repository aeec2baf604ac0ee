//! `hindsearch doctor`.

use std::io::Write;
use std::path::Path;

use hindsearch::indexes::ErrorKind;
use hindsearch::retriever::build::{available_disk, available_memory};
use hindsearch::retriever::embed::{Embedder, InputKind, RuntimeSearch};
use serde::Serialize;

use super::Context;
use crate::failure::Failure;
use crate::output::{bytes, harmless};

/// Check this machine: library, model, memory, disk
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  hindsearch doctor\n  hindsearch doctor --set model.source=models/e5-base-v2")]
pub struct Args {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
}

/// Less memory than this, and a small model may not fit.
const LITTLE_MEMORY: u64 = 1 << 30;
/// Less disk than this, and a small index may not fit.
const LITTLE_DISK: u64 = 1 << 30;

/// Runs every check, prints each with what was found, and fails when any failed.
///
/// # Errors
/// [`ErrorKind::Unavailable`] when something that a search needs is missing.
pub fn run(_: Args, context: &Context) -> Result<(), Failure> {
    let checks = [processor(), memory(), disk(), runtime(context), model(context)];
    if context.json {
        context.print_json(&checks)?;
    } else {
        let mut out = context.out();
        for Check { name, state, found } in &checks {
            let state = match state {
                State::Ok => "ok",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            writeln!(out, "{state:4}  {name:13}  {}", harmless(found))?;
        }
        out.flush()?;
    }
    let failed: Vec<_> = checks.iter().filter(|c| c.state == State::Fail).map(|c| c.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(
        ErrorKind::Unavailable,
        format!("this machine cannot search yet: {}; see above", failed.join(", ")),
    ))
}

fn processor() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    #[cfg(target_arch = "x86_64")]
    let wide = [
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("F16C", is_x86_feature_detected!("f16c")),
        ("AVX-512", is_x86_feature_detected!("avx512f")),
        ("VNNI", is_x86_feature_detected!("avx512vnni")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let wide = [(std::env::consts::ARCH, true)];
    let present: Vec<_> = wide.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    let state = if present.is_empty() { State::Warn } else { State::Ok };
    Check { name: "processor", state, found: format!("{cores} cores, {}", present.join(" ")) }
}

fn memory() -> Check {
    let free = available_memory();
    let state = if free.is_some_and(|free| free < LITTLE_MEMORY) { State::Warn } else { State::Ok };
    Check { name: "memory", state, found: free.map_or("unknown".into(), |free| format!("{} free", bytes(free))) }
}

fn disk() -> Check {
    let free = available_disk(Path::new("."));
    let state = if free.is_some_and(|free| free < LITTLE_DISK) { State::Warn } else { State::Ok };
    Check {
        name: "disk",
        state,
        found: free.map_or("unknown".into(), |free| format!("{} free in this folder", bytes(free))),
    }
}

fn runtime(context: &Context) -> Check {
    let needed = context.config.embed.backend == "onnx";
    let (state, found) = match RuntimeSearch::from_env().load() {
        Ok(runtime) => (State::Ok, format!("{} ({})", runtime.library().display(), runtime.build_info())),
        Err(error) => (if needed { State::Fail } else { State::Warn }, error.to_string()),
    };
    Check { name: "ONNX Runtime", state, found }
}

/// Opens the model of the settings and embeds one word with it.
fn model(context: &Context) -> Check {
    let tried = || -> Result<String, Failure> {
        let source = super::model_source(context, &context.config, None)?;
        let embedder = Embedder::open(&source, super::embed_options(&context.config))?;
        embedder.embed(&["radium"], InputKind::Query)?;
        Ok(format!("{source}: {} values, {}", embedder.card().dimensions, embedder.fingerprint().queries.file))
    };
    let (state, found) = tried().map_or_else(|failure| (State::Fail, failure.to_string()), |found| (State::Ok, found));
    Check { name: "model", state, found }
}
