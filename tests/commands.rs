//! What every command promises: help with examples, data on stdout, JSON on wish, exit codes.

mod common;

use std::io::Write;
use std::process::Stdio;

use common::{Bench, Outcome};
use serde_json::Value;

const COMMANDS: [&[&str]; 26] = [
    &["build"],
    &["search"],
    &["mcp"],
    &["embed"],
    &["inspect"],
    &["verify"],
    &["export"],
    &["eval", "retrieval"],
    &["eval", "qa"],
    &["bench", "index"],
    &["bench", "vectors"],
    &["plan"],
    &["experience", "build"],
    &["experience", "show"],
    &["env", "play"],
    &["env", "rollout"],
    &["env", "replay"],
    &["env", "score"],
    &["env", "judge"],
    &["env", "presets"],
    &["env", "tasks"],
    &["view"],
    &["doctor"],
    &["config", "show"],
    &["config", "check"],
    &["completions"],
];

fn indexed() -> Bench {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 60);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench
}

#[test]
fn every_command_has_help_with_an_example() {
    let bench = Bench::new();
    for command in COMMANDS {
        let help = bench.ok(&[command, &["--help"]].concat()).stdout;
        assert!(help.contains("Example"), "{command:?}: {help}");
    }
    let listed = bench.ok(&["--help"]).stdout;
    assert!(COMMANDS.iter().all(|command| listed.contains(command[0])), "{listed}");
    assert_eq!(bench.run(&["serach"]).code, Some(2));
}

#[test]
fn build_reports_and_inspect_agrees() {
    let bench = indexed();
    let report = bench.ok(&["build", "c.jsonl", "--out", "other", "--json", "--element-type", "f32"]).json();
    assert_eq!((&report["embedded"], &report["manifest"]["rows"]), (&Value::from(60), &Value::from(60)));
    let manifest = bench.ok(&["inspect", "other", "--json"]).json();
    assert_eq!(manifest, report["manifest"]);
    assert_eq!(manifest["element_type"], "f32");
    assert_eq!(manifest["attributes"]["provenance"]["settings"]["index"]["element_type"], "f32");
    let shown = bench.ok(&["inspect", "index"]).stdout;
    for word in ["60", "f16", "flat, exact", "tiny-bert"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[test]
fn a_dry_run_plans_and_writes_nothing() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 500);
    let plan = bench.ok(&["build", "c.jsonl", "--out", "index", "--dry-run", "--json", "--index", "hnsw"]).json();
    assert_eq!(plan["passages"], 500);
    assert_eq!(plan["vector_bytes"], 4096 + 500 * 32 * 2);
    assert!(plan["graph_bytes"].as_u64() > Some(0) && plan["seconds"].as_f64() > Some(0.0), "{plan}");
    assert!(!bench.path("index").exists());
}

#[test]
fn the_plan_is_near_what_the_build_takes() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 4000);
    let plan = bench.ok(&["build", "c.jsonl", "--out", "index", "--dry-run", "--json"]).json();
    let manifest = bench.ok(&["build", "c.jsonl", "--out", "index", "--json"]).json()["manifest"].clone();
    let files = manifest["files"].as_array().expect("files").iter();
    let size: u64 = files.filter_map(|file| file["length"].as_u64()).sum();
    let needed = plan["disk_needed"].as_u64().expect("bytes");
    assert!(needed >= size * 9 / 10 && needed <= size * 2, "planned {needed}, took {size}");
}

#[test]
fn search_takes_arguments_files_and_standard_input() {
    let bench = indexed();
    let lines = |outcome: &Outcome| -> Vec<Value> {
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
    };
    let by_arguments = lines(&bench.ok(&["search", "index", "--json", "-k", "3", "river city", "opera"]));
    assert_eq!(by_arguments.len(), 2);
    let hits = by_arguments[0]["hits"].as_array().expect("hits");
    assert_eq!(hits.len(), 3);
    let scores: Vec<f64> = hits.iter().filter_map(|hit| hit["score"].as_f64()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b) && scores.iter().all(|s| s.abs() <= 1.0001), "{scores:?}");
    let contents = hits[0]["contents"].as_str().expect("contents");
    assert!(contents.starts_with("\"Topic ") && contents.contains('\n'), "{contents}");

    bench.write("q.txt", "river city\r\n\nopera\n");
    let by_file = lines(&bench.ok(&["search", "index", "--json", "-k", "3", "--queries", "q.txt"]));
    let mut child = bench
        .command(&["search", "index", "--json", "-k", "3", "--queries", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(b"river city\nopera").expect("a reader");
    let by_input = lines(&Outcome::of(child.wait_with_output().expect("an end")));
    for other in [by_file, by_input] {
        assert_eq!(other.len(), 2);
        for (a, b) in by_arguments.iter().zip(&other) {
            assert_eq!((&a["query"], &a["hits"]), (&b["query"], &b["hits"]));
        }
    }
    let table = bench.ok(&["search", "index", "-k", "2", "river city"]).stdout;
    assert!(table.contains("river city") && table.contains("  1  "), "{table}");
}

#[test]
fn hostile_text_does_not_steer_the_terminal() {
    let bench = Bench::new();
    let contents = "\"\u{1b}]0;owned\u{7}\u{202e}title\"\nriver \u{1b}[2J city";
    bench.write("c.jsonl", format!("{}\n", serde_json::json!({ "id": "\u{1b}[31m", "contents": contents })));
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    let shown = bench.ok(&["search", "index", "river", "--full"]).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
    let exact = bench.ok(&["search", "index", "river", "--json"]).json();
    assert_eq!(exact["hits"][0]["contents"], contents);
}

#[test]
fn embed_prints_unit_vectors_or_writes_numpy() {
    let bench = Bench::new();
    let line = bench.ok(&["embed", "river"]).json();
    let vector: Vec<f64> = line["vector"].as_array().expect("numbers").iter().filter_map(Value::as_f64).collect();
    let norm: f64 = vector.iter().map(|x| x * x).sum();
    assert!(vector.len() == 32 && (norm - 1.0).abs() < 1e-5, "{norm}");
    bench.write("t.txt", "river\nopera\nbridge\n");
    let report = bench.ok(&["embed", "--file", "t.txt", "--out", "v.npy", "--json", "--kind", "passage"]).json();
    assert_eq!((&report["texts"], &report["dimensions"]), (&Value::from(3), &Value::from(32)));
    assert!(report["tokens"].as_u64() >= Some(9) && report["cpu_seconds"].as_f64() > Some(0.0), "{report}");
    let bytes = std::fs::read(bench.path("v.npy")).expect("the file");
    assert!(bytes.starts_with(b"\x93NUMPY") && bytes.len() == 128 + 3 * 32 * 4, "{}", bytes.len());
}

#[test]
fn vectors_leave_and_come_back() {
    let bench = indexed();
    bench.ok(&["build", "c.jsonl", "--out", "exact", "--element-type", "f32"]);
    let told = bench.ok(&["export", "exact", "--vectors", "v.faiss", "--out", "back.jsonl", "--json"]).json();
    assert_eq!(
        (&told["passages"], &told["vectors"], &told["out"]),
        (&60.into(), &"v.faiss".into(), &"back.jsonl".into())
    );
    assert!(bench.ok(&["export", "exact", "--vectors", "v.npy"]).stdout.contains("60 vectors in v.npy"));
    bench.refused(&["export", "exact", "--vectors", "v.csv"], 2, &["v.csv", ".npy", ".faiss"]);

    let whole = std::fs::read(bench.path("v.faiss")).expect("the file");
    bench.write("part_aa", &whole[..1000]);
    bench.write("part_ab", &whole[1000..]);
    let from_parts =
        ["build", "c.jsonl", "--vectors", "part_aa", "part_ab", "--out", "imported", "--element-type", "f32"];
    let plan = bench.ok(&[&from_parts[..], &["--dry-run", "--json"]].concat()).json();
    assert_eq!(plan["passages"], 60);
    let report = bench.ok(&[&from_parts[..], &["--json"]].concat()).json();
    assert_eq!((&report["embedded"], &report["imported"]), (&0.into(), &60.into()));
    let shown = bench.ok(&["inspect", "imported"]).stdout;
    for words in ["part_aa, part_ab: faiss flat (IxFI)", "cosine at least", "64 passages", "% of values exact in f16"] {
        assert!(shown.contains(&words.replace("64", "60")), "{words}: {shown}");
    }
    let search = |index: &str| {
        let found = bench.ok(&["search", index, "river city", "--json"]).json();
        found["hits"].clone()
    };
    assert_eq!(search("imported"), search("exact"));

    bench.write("part_ab", &whole[1000..whole.len() - 5]);
    bench.refused(&from_parts, 5, &["part_aa", "5 are missing", "2 parts"]);
    bench.write("v.pkl", b"\x80\x04pickled");
    bench.refused(&["build", "c.jsonl", "--vectors", "v.pkl", "--out", "none"], 5, &["pickle", "numpy.save"]);
    bench.assert_no_index("none");
}

#[test]
fn verify_finds_a_changed_byte() {
    let bench = indexed();
    assert!(bench.ok(&["verify", "index"]).stdout.contains("sound"));
    assert_eq!(bench.ok(&["verify", "index", "--json", "--quick"]).json()["sound"], true);
    let vectors = bench.path("index").join("gen-000001/vectors");
    let mut bytes = std::fs::read(&vectors).expect("vectors");
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    std::fs::remove_file(&vectors).expect("removable");
    std::fs::write(&vectors, bytes).expect("writable");
    bench.refused(&["verify", "index"], 5, &["vectors", "damaged"]);
}

#[test]
fn a_rebuild_is_a_new_generation() {
    let bench = indexed();
    bench.corpus("c.jsonl", 90);
    let report = bench.ok(&["build", "c.jsonl", "--out", "index", "--json"]).json();
    assert_eq!((&report["generation"], &report["manifest"]["rows"]), (&Value::from(2), &Value::from(90)));
    assert_eq!(bench.ok(&["inspect", "index", "--json"]).json()["rows"], 90);
}

#[test]
fn settings_come_from_file_then_environment_then_flags() {
    let bench = Bench::new();
    bench.write("hindsearch.toml", "[search]\ntop_k = 7\n[index]\nkind = \"hnsw\"\nconnectivity = 24\n");
    let show = |environment: &[(&str, &str)], set: &[&str]| -> Value {
        let arguments: Vec<&str> =
            ["config", "show", "--json"].into_iter().chain(set.iter().flat_map(|s| ["--set", *s])).collect();
        let output = bench.command(&arguments).envs(environment.iter().copied()).output().expect("it starts");
        Outcome::of(output).json()
    };
    let file = show(&[], &[]);
    assert_eq!((&file["search"]["top_k"], &file["index"]["kind"]), (&Value::from(7), &Value::from("hnsw")));
    let environment = [("HINDSEARCH_SEARCH_TOP_K", "8"), ("HINDSEARCH_INDEX_RECALL_FLOOR", "0.9")];
    assert_eq!(show(&environment, &[])["search"]["top_k"], 8);
    assert_eq!(show(&environment, &[])["index"]["recall_floor"], 0.9);
    assert_eq!(show(&environment, &["search.top_k=9"])["search"]["top_k"], 9);
    let toml = bench.ok(&["config", "show"]).stdout;
    bench.write("again.toml", &toml);
    assert_eq!(bench.ok(&["config", "show", "--config", "again.toml"]).stdout, toml);
}

#[test]
fn doctor_names_what_is_missing() {
    let bench = Bench::new();
    let sound = bench.ok(&["doctor"]).stdout;
    assert!(sound.contains("ONNX Runtime") && !sound.contains("FAIL"), "{sound}");
    let output = bench
        .command(&["doctor", "--json"])
        .env("ORT_DYLIB_PATH", "/nowhere/libonnxruntime.so")
        .output()
        .expect("it starts");
    let outcome = Outcome::of(output);
    // A library that was named and is not there is a fault, not a reason to take another one.
    assert_eq!(outcome.code, Some(9), "{outcome:?}");
    assert!(outcome.stdout.contains("/nowhere/libonnxruntime.so"), "{outcome:?}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(bench.ok(&["completions", shell]).stdout.contains("hindsearch"));
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let bench = indexed();
    let queries: String = (0..3000).map(|row| format!("river {row}\n")).collect();
    bench.write("q.txt", queries);
    let mut command = bench.command(&["search", "index", "--queries", "q.txt", "--full"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
}

#[test]
fn nothing_is_left_in_the_users_home() {
    let bench = Bench::new();
    let home = bench.path("home");
    std::fs::create_dir(&home).expect("a folder");
    let mut command = bench.command(&["embed", "river"]);
    command.env("HOME", &home).env_remove("XDG_CACHE_HOME").env_remove("ORT_DISABLE_TELEMETRY");
    assert!(command.status().expect("it starts").success());
    assert_eq!(std::fs::read_dir(&home).expect("the home").count(), 0);
}

#[test]
fn a_run_that_cannot_be_shown_is_told_and_other_machines_are_not_served() {
    let bench = Bench::new();
    bench.write("bad.jsonl", "text\n");
    bench.write("run.jsonl", "");
    bench.refused(&["view", "nowhere"], 3, &["nowhere"]);
    bench.refused(&["view", "."], 3, &["trajectories.jsonl"]);
    bench.refused(&["view", "bad.jsonl", "--port", "0"], 2, &["bad.jsonl", "line 1"]);
    bench.refused(&["view", "run.jsonl", "--host", "0.0.0.0"], 2, &["0.0.0.0", "127.0.0.1", "ssh -L"]);
}
