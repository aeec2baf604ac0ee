//! `hindsearch bench` and `hindsearch plan`: what they say is so.

mod common;

use std::fs;

use common::Bench;
use serde_json::Value;

/// Every number that a setting must have, and where it must lie.
fn check_setting(setting: &Value) {
    for (pointer, low, high) in [
        ("/recall_1", 0.0, 1.0),
        ("/recall_3", 0.0, 1.0),
        ("/recall_10", 0.0, 1.0),
        ("/single/p50_ms", 1e-6, 1e5),
        ("/single/p99_ms", 1e-6, 1e5),
        ("/single/cpu_ms", 0.0, 1e5),
        ("/batch/qps", 1e-3, 1e9),
        ("/batch/cpu_ms", 0.0, 1e5),
    ] {
        let value = setting.pointer(pointer).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| (low..=high).contains(&value)), "{pointer}: {setting}");
    }
    let bound = setting.pointer("/batch/bound").and_then(Value::as_str);
    assert!(matches!(bound, Some("memory" | "compute" | "latency")), "{setting}");
}

#[test]
fn an_index_is_measured_at_every_effort_that_it_offers() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 300);
    for (kind, efforts) in [("flat", 1), ("hnsw", 7), ("quantized", 2)] {
        bench.ok(&["build", "c.jsonl", "--out", kind, "--index", kind]);
        let report = bench.ok(&["bench", "index", kind, "--singles", "3", "--rounds", "1", "--json"]).json();
        assert_eq!((&report["kind"], &report["rows"], &report["dimensions"]), (&kind.into(), &300.into(), &32.into()));
        let settings = report["settings"].as_array().expect("settings");
        assert_eq!(settings.len(), efforts, "{kind}");
        settings.iter().for_each(check_setting);
        // So few rows are searched exactly by all.
        assert!(settings.iter().all(|setting| setting["recall_10"] == 1.0), "{report}");
        assert!(report["limits"]["bandwidth"].as_f64() > Some(1e6), "{report}");
        assert!(report["process"]["anonymous"].as_u64() > Some(0), "{report}");
        assert_eq!(report["built"], Value::Null);
    }
    // What is deleted is not missed.
    bench.ok(&["delete", "quantized", "0", "17", "299"]);
    let report = bench.ok(&["bench", "index", "quantized", "--singles", "3", "--rounds", "1", "--json"]).json();
    let settings = report["settings"].as_array().expect("settings");
    assert!(settings.iter().all(|setting| setting["recall_10"] == 1.0), "{report}");
    let shown = bench.ok(&["bench", "index", "flat", "--singles", "1", "--rounds", "1"]).stdout;
    for word in ["300 x 32", "r@10", "bandwidth", "bound by"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[test]
fn a_bench_of_synthetic_vectors_tells_hits_draws_recall_and_keeps_the_index() {
    let bench = Bench::new();
    let arguments = [
        "bench",
        "index",
        "--rows",
        "3000",
        "--dimensions",
        "24",
        "--count",
        "40",
        "--kind",
        "hnsw",
        "--element-type",
        "f16",
        "--work",
        "kept",
        "--effort",
        "64,512",
        "--threads",
        "1",
        "--singles",
        "2",
        "--rounds",
        "1",
        "--svg",
        "recall.svg",
        "--hits",
        "--json",
    ];
    let report = bench.ok(&arguments).json();
    let settings = report["settings"].as_array().expect("settings");
    let efforts: Vec<_> = settings.iter().map(|setting| &setting["effort"]).collect();
    assert_eq!(efforts, ["64", "512"]);
    settings.iter().for_each(check_setting);
    let hits = settings[1]["hits"].as_array().expect("hits");
    assert_eq!((hits.len(), hits[0].as_array().map(Vec::len)), (40, Some(10)));
    let svg = fs::read_to_string(bench.path("recall.svg")).expect("a picture");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.matches("<circle").count() == 2,
        "{svg}"
    );
    // The second time nothing is built, and the same is found.
    let again = bench.ok(&arguments).json();
    assert_eq!((&again["built"], &again["settings"][1]["hits"]), (&report["built"], &settings[1]["hits"]));
}

#[test]
fn vectors_from_files_are_measured_as_those_that_they_were_drawn_from() {
    let bench = Bench::new();
    let told =
        bench.ok(&["bench", "vectors", "set", "--rows", "2000", "--dimensions", "16", "--queries", "30", "--json"]);
    assert_eq!(told.json()["rows"], 2000);
    let common = ["--kind", "flat", "--element-type", "f32", "--singles", "1", "--rounds", "1", "--hits", "--json"];
    let of_files = ["bench", "index", "--vectors", "set/vectors.npy", "--queries", "set/queries.npy"];
    let of_rows = ["bench", "index", "--rows", "2000", "--dimensions", "16", "--count", "30"];
    let [files, rows] = [&of_files[..], &of_rows].map(|source| bench.ok(&[source, &common].concat()).json());
    assert_eq!(files["settings"][0]["hits"], rows["settings"][0]["hits"]);
    assert_eq!(files["settings"][0]["recall_10"], 1.0);
    assert_eq!(files["built"]["fingerprint"], rows["built"]["fingerprint"]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let bench = Bench::new();
    bench.refused(&["bench", "index", "nowhere"], 3, &["nowhere"]);
    bench.refused(&["bench", "index"], 2, &["--rows"]);
    bench.refused(&["bench", "index", "--rows", "10", "--dimensions", "4"], 2, &["8"]);
    bench.refused(&["bench", "index", "--vectors", "a.npy"], 2, &["--queries"]);
    bench.write("a.npy", b"no array");
    bench.refused(&["bench", "index", "--vectors", "a.npy", "--queries", "a.npy"], 5, &["a.npy"]);
    bench.ok(&["bench", "vectors", "set", "--rows", "20", "--dimensions", "8", "--queries", "2"]);
    bench.ok(&["bench", "vectors", "other", "--rows", "20", "--dimensions", "9", "--queries", "2"]);
    let mixed = ["bench", "index", "--vectors", "set/vectors.npy", "--queries", "other/queries.npy"];
    bench.refused(&mixed, 2, &["8 values", "9 values"]);
}

#[test]
fn a_plan_tells_the_bytes_that_a_built_index_has() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 2000);
    for (kind, element_type) in [("flat", "f16"), ("flat", "i8"), ("hnsw", "f16")] {
        let name = format!("{kind}-{element_type}");
        let build = ["build", "c.jsonl", "--out", &name, "--index", kind, "--element-type", element_type, "--json"];
        let manifest = bench.ok(&build).json()["manifest"].clone();
        let plan = ["plan", "2000", "32", "--kind", kind, "--element-type", element_type, "--json"];
        let plan = bench.ok(&plan).json();
        let planned = &plan["plans"][0];
        for file in planned["forecast"]["footprint"]["files"].as_array().expect("files") {
            let real = manifest["files"].as_array().expect("files").iter().find(|real| real["name"] == file["name"]);
            let real = real.and_then(|real| real["length"].as_f64()).expect("a file of this name");
            let bytes = file["bytes"].as_f64().expect("bytes");
            // Headers of ids; of a graph its last pages, and chance in its layers.
            let tolerance = if file["name"] == "vectors" { 0.0 } else { 0.02 * real + 4.0 * 4096.0 };
            assert!((bytes - real).abs() <= tolerance, "{name}: {file}, is {real}");
        }
        let gears = planned["forecast"]["gears"].as_array().expect("gears");
        assert!(!gears.is_empty() && gears.iter().all(|gear| gear["single_ms"].as_f64() > Some(0.0)), "{plan}");
    }
}

#[test]
fn a_plan_of_all_kinds_needs_no_index() {
    let bench = Bench::new();
    let shown = bench.ok(&["plan", "21015324", "768"]).stdout;
    for word in ["quantized", "hnsw", "flat", "memory", "page cache", "disk", "build", "exhaustive", "queries/s"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    bench.refused(&["plan", "10", "768", "--kind", "ivf"], 2, &["ivf"]);
    bench.refused(&["plan", "0", "768"], 2, &["0"]);
}
