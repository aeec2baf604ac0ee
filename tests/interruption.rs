//! A build can be stopped at any time: nothing half done is visible, and the next call goes on.

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Bench, Outcome};

const ROWS: usize = 6000;

/// The hash of the vectors file in the published manifest.
fn vectors(bench: &Bench, index: &str) -> String {
    let manifest = bench.ok(&["inspect", index, "--json"]).json();
    let files = manifest["files"].as_array().expect("files");
    let vectors = files.iter().find(|file| file["name"] == "vectors").expect("vectors");
    assert_eq!(manifest["rows"], ROWS);
    vectors["blake3"].as_str().expect("a hash").to_owned()
}

/// Starts a build and sends it `signal` after `delay`; `None` when the build was done before.
fn stop_after(bench: &Bench, delay: Duration, signal: &str) -> Option<Outcome> {
    let mut command = bench.command(&["build", "c.jsonl", "--out", "index", "--threads", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    // Before that, the signal could come before the program listens for it.
    while !bench.path("index").join("LOCK").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(delay);
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    (sent.success() && outcome.code != Some(0)).then_some(outcome)
}

fn stopped_builds_end_like_undisturbed_ones(signal: &str, check: fn(&Outcome)) {
    let bench = Bench::new();
    bench.corpus("c.jsonl", ROWS);
    bench.ok(&["build", "c.jsonl", "--out", "undisturbed", "--threads", "1"]);
    let mut stopped = 0;
    for step in 1..=12 {
        if let Some(outcome) = stop_after(&bench, Duration::from_millis(step * 60), signal) {
            check(&outcome);
            bench.assert_no_index("index");
            stopped += 1;
        } else {
            break;
        }
    }
    assert!(stopped > 0, "every build was done before the signal came");
    bench.ok(&["build", "c.jsonl", "--out", "index", "--threads", "1"]);
    assert_eq!(vectors(&bench, "index"), vectors(&bench, "undisturbed"));
    let left: Vec<_> =
        std::fs::read_dir(bench.path("index")).expect("the index").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "left behind: {left:?}");
}

#[test]
fn ctrl_c_stops_cleanly_at_any_time() {
    stopped_builds_end_like_undisturbed_ones("-INT", |outcome| {
        assert_eq!(outcome.code, Some(130), "{outcome:?}");
        if !outcome.stderr.is_empty() {
            assert!(outcome.stderr.contains("run the same command again"), "{outcome:?}");
        }
    });
}

#[test]
fn kill_loses_at_most_a_shard() {
    stopped_builds_end_like_undisturbed_ones("-KILL", |outcome| assert_eq!(outcome.code, None, "{outcome:?}"));
}

/// Rows of the unfinished build that are durable, as its state file says.
fn durable(bench: &Bench) -> u64 {
    let state = std::fs::read(bench.path("index/gen-000001.tmp/build.json")).unwrap_or_default();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap_or_default();
    state.pointer("/state/rows").and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// Starts a build and kills it as soon as some rows are durable; gives their number.
fn kill_at_the_first_checkpoint(bench: &Bench) -> u64 {
    kill_with(bench, &[])
}

fn kill_with(bench: &Bench, more: &[&str]) -> u64 {
    let mut command = bench.command(&[&["build", "c.jsonl", "--out", "index", "--threads", "1"], more].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    while durable(bench) == 0 {
        assert_eq!(child.try_wait().expect("a child"), None, "the build ended before it left a checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("a child");
    child.wait().expect("an end");
    durable(bench)
}

#[test]
fn a_finished_shard_is_never_embedded_again() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", ROWS);
    let durable = kill_at_the_first_checkpoint(&bench);
    assert!((1024..ROWS as u64).contains(&durable), "{durable}");
    let report = bench.ok(&["build", "c.jsonl", "--out", "index", "--threads", "1", "--json"]).json();
    assert_eq!(report["embedded"], ROWS as u64 - durable);
}

#[test]
fn an_unfinished_build_of_something_else_is_only_discarded_on_request() {
    let bench = Bench::new();
    let corpus = bench.corpus("c.jsonl", ROWS);
    kill_at_the_first_checkpoint(&bench);
    let other = ["build", "c.jsonl", "--out", "index", "--set", "model.passage_prefix=passage: "];
    bench.refused(&other, 5, &["unfinished build", "passage: ", "--restart"]);
    bench.refused(&["build", "c.jsonl", "--out", "index", "--element-type", "f32"], 5, &["f16", "f32"]);

    // The same corpus by another name is the same corpus.
    std::fs::rename(&corpus, bench.path("renamed.jsonl")).expect("a rename");
    let report = bench.ok(&["build", "./renamed.jsonl", "--out", "index", "--json"]).json();
    assert!(report["embedded"].as_u64() < Some(ROWS as u64), "{report}");

    std::fs::rename(bench.path("renamed.jsonl"), &corpus).expect("a rename");
    bench.ok(&[&other[..], &["--restart"]].concat());
    let prefix =
        bench.ok(&["inspect", "index", "--json"]).json()["attributes"]["provenance"]["model"]["card"]["passage_prefix"]
            .clone();
    assert_eq!(prefix, "passage: ");
}

#[test]
fn rows_of_bytes_keep_their_centre_across_a_kill() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", ROWS);
    let bytes = ["--element-type", "i8"];
    assert!(kill_with(&bench, &bytes) < ROWS as u64);
    for out in ["index", "undisturbed"] {
        bench.ok(&[&["build", "c.jsonl", "--out", out, "--threads", "1"][..], &bytes].concat());
    }
    assert_eq!(vectors(&bench, "index"), vectors(&bench, "undisturbed"));
}

#[test]
fn an_unfinished_build_of_another_corpus_is_only_discarded_on_request() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", ROWS);
    bench.corpus("other.jsonl", 50);
    let durable = kill_at_the_first_checkpoint(&bench);
    let passages = || std::fs::read(bench.path("index/gen-000001.tmp/passages")).expect("the staged text");
    let staged = passages();
    bench.refused(&["build", "other.jsonl", "--out", "index"], 5, &["unfinished build", "--restart"]);
    assert_eq!(passages(), staged);

    // One passage more is another corpus too; without it, everything is as it was.
    bench.corpus("c.jsonl", ROWS + 1);
    bench.refused(&["build", "c.jsonl", "--out", "index"], 5, &["unfinished build", "--restart"]);
    bench.corpus("c.jsonl", ROWS);
    let report = bench.ok(&["build", "c.jsonl", "--out", "index", "--json"]).json();
    assert_eq!(report["embedded"], ROWS as u64 - durable);

    std::fs::remove_dir_all(bench.path("index")).expect("removable");
    kill_at_the_first_checkpoint(&bench);
    bench.corpus("c.jsonl", ROWS + 1);
    let report = bench.ok(&["build", "c.jsonl", "--out", "index", "--json", "--restart"]).json();
    assert_eq!((&report["embedded"], &report["manifest"]["rows"]), (&(ROWS + 1).into(), &(ROWS + 1).into()));
}

#[test]
fn two_builds_of_one_index_do_not_meet() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 20);
    let lock = hindsearch::indexes::FolderLock::acquire(bench.path("index")).expect("a free lock");
    bench.refused(&["build", "c.jsonl", "--out", "index"], 6, &["locked", "index"]);
    bench.assert_no_index("index");
    drop(lock);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
}
