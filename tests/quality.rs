//! The default model on the sample corpus finds what is asked for, by every kind of index, and `eval` says so.

mod common;

use common::{Bench, root};
use serde_json::Value;

fn sample() -> (Bench, String, String) {
    let bench = Bench::new();
    let data = |name: &str| root().join("examples/data").join(name).display().to_string();
    (bench, data("corpus.jsonl"), data("questions.jsonl"))
}

fn measure(report: &Value, name: &str) -> f64 {
    let estimate = &report["report"]["measures"][name];
    let (mean, low, high) = (estimate["mean"].as_f64(), estimate["low"].as_f64(), estimate["high"].as_f64());
    let (Some(mean), Some(low), Some(high)) = (mean, low, high) else { panic!("no {name} in {report}") };
    assert!((0.0..=1.0).contains(&low) && low <= mean && mean <= high && high <= 1.0, "{name}: {estimate}");
    mean
}

#[test]
fn the_sample_questions_are_answered_from_the_sample_corpus() {
    let (bench, corpus, questions) = sample();
    let built = bench.ok(&["build", &corpus, "--out", "flat", "--json", "--set", "model.source=default"]).json();
    let rows = built["manifest"]["rows"].as_u64().expect("rows");
    assert_eq!(rows as usize, std::fs::read_to_string(&corpus).expect("the corpus").lines().count());

    let run = bench.path("run.trec").display().to_string();
    let scores = bench.path("scores.jsonl").display().to_string();
    let report = bench
        .ok(&[
            "eval",
            "retrieval",
            "flat",
            "--questions",
            &questions,
            "--json",
            "--run",
            &run,
            "--per-question",
            &scores,
        ])
        .json();
    // Two-hop questions have two gold passages, one of which the question does not name.
    assert!(measure(&report, "success@5") > 0.9, "{report}");
    assert!(measure(&report, "recall@20") > 0.75, "{report}");
    assert!(measure(&report, "recall@1") <= measure(&report, "recall@5"), "{report}");
    assert!(measure(&report, "mrr@20") > 0.8, "{report}");
    let asked = report["report"]["questions"].as_u64().expect("a count") as usize;
    assert_eq!(std::fs::read_to_string(&run).expect("the run").lines().count(), asked * 20);
    assert_eq!(std::fs::read_to_string(&scores).expect("the scores").lines().count(), asked);

    let by_answer =
        bench.ok(&["eval", "retrieval", "flat", "--questions", &questions, "--json", "--gold", "answer"]).json();
    assert_eq!(by_answer["report"]["gold"], "answer");
    assert!(measure(&by_answer, "success@20") >= measure(&by_answer, "success@1"));

    let hnsw = bench
        .ok(&["build", &corpus, "--out", "hnsw", "--index", "hnsw", "--json", "--set", "model.source=default"])
        .json();
    let recall = &hnsw["manifest"]["recall"];
    assert!(recall["value"].as_f64() >= Some(0.95) && recall["queries"].as_u64() > Some(100), "{recall}");
    let report = bench.ok(&["eval", "retrieval", "hnsw", "--questions", &questions, "--json"]).json();
    assert!(measure(&report, "success@5") > 0.88, "{report}");
}

#[test]
fn a_graph_that_loses_rows_fails_the_build_and_says_what_to_raise() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 3000);
    let few = ["--set", "index.connectivity=2", "--set", "index.expansion_add=1"];
    let build = [&["build", "c.jsonl", "--out", "index", "--index", "hnsw"][..], &few].concat();
    bench.refused(&build, 2, &["connectivity", "expansion_add", "raise"]);
    bench.assert_no_index("index");
    // What was embedded is kept: the same corpus as a flat index embeds nothing again.
    assert_eq!(bench.ok(&["build", "c.jsonl", "--out", "index", "--json"]).json()["embedded"], 0);
}
