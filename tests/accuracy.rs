//! Smaller forms of vectors and of models are offered with what they cost, and refused when they cost too much.

mod common;

use std::collections::HashSet;

use common::{Bench, tiny_model};
use serde_json::Value;

const INT8: [&str; 2] = ["--set", "model.passage_precision=int8"];

fn build<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["build", "c.jsonl", "--out", out], more].concat()
}

fn provenance(bench: &Bench, index: &str) -> Value {
    bench.ok(&["inspect", index, "--json"]).json()["attributes"]["provenance"].clone()
}

#[test]
fn an_int8_graph_passes_the_gate_with_its_figures_on_record() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 1500);
    bench.ok(&build("index", &INT8));
    let provenance = provenance(&bench, "index");
    let (gate, graphs) = (&provenance["gate"], &provenance["model"]["fingerprint"]);
    assert_eq!(graphs["passages"]["precision"], "int8");
    assert_eq!(graphs["queries"]["precision"], gate["query_precision"]);
    let figure = |name: &str| gate[name].as_f64().expect(name);
    let best = figure("mrr_fp32_queries").max(figure("mrr_int8_queries"));
    assert!(best >= figure("mrr_fp32") - 0.02 && figure("overlap") >= 0.8, "{gate}");
    assert!(bench.ok(&["inspect", "index"]).stdout.contains("int8 gate"));
    bench.ok(&["search", "index", "river"]);

    // The wish of the caller is what is judged and used.
    bench.ok(&build("asked", &[&INT8[..], &["--set", "model.query_precision=int8"]].concat()));
    let asked = self::provenance(&bench, "asked");
    assert_eq!(
        (&asked["gate"]["query_precision"], &asked["model"]["fingerprint"]["queries"]["precision"]),
        (&"int8".into(), &"int8".into())
    );
}

#[test]
fn an_int8_graph_that_loses_its_way_is_refused() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 1500);
    let model = bench.path("spoilt");
    std::fs::create_dir_all(model.join("onnx")).expect("a folder");
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"] {
        std::fs::copy(tiny_model().join(file), model.join(file)).expect("the fixture");
    }
    // Words get each other's vectors: a graph that runs, and means nothing beside the fp32 one.
    let weights = std::fs::read(tiny_model().join("model.safetensors")).expect("the fixture");
    let header = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize;
    let tensors: Value = serde_json::from_slice(&weights[8..8 + header]).expect("a header");
    let offsets = &tensors["embeddings.word_embeddings.weight"]["data_offsets"];
    let [from, to] = [0, 1].map(|at| 8 + header + offsets[at].as_u64().expect("an offset") as usize);
    let words = &weights[from..to];
    let mut graph = std::fs::read(tiny_model().join("onnx/model_int8_static.onnx")).expect("the fixture");
    let at = graph.windows(words.len()).position(|window| window == words).expect("the words' vectors in the graph");
    let row = 32 * 4;
    let mixed: Vec<u8> = words.chunks(row).rev().flatten().copied().collect();
    graph[at..at + words.len()].copy_from_slice(&mixed);
    std::fs::write(model.join("onnx/model_int8_static.onnx"), graph).expect("a file");

    let more = [&INT8[..], &["--model", "./spoilt", "--set", "model.query_precision=fp32"]].concat();
    bench.refused(&build("index", &more), 5, &["int8 graph", "mean reciprocal rank", "passage_precision=fp32"]);
    bench.assert_no_index("index");
}

#[test]
fn half_precision_and_bytes_find_what_single_precision_finds() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 3000);
    bench.write("q.txt", "river city king\nopera violin\nglacier valley\nmosaic temple library\nengine railway\n");
    let found = |element: &str| -> Vec<HashSet<u64>> {
        bench.ok(&build(element, &["--element-type", element]));
        let lines = bench.ok(&["search", element, "--queries", "q.txt", "--json", "-k", "10"]).stdout;
        let rows = |line: &str| {
            let hits: Value = serde_json::from_str(line).expect("JSON");
            hits["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["row"].as_u64()).collect()
        };
        lines.lines().map(rows).collect()
    };
    let exact = found("f32");
    for (element, least) in [("f16", 46), ("i8", 35)] {
        let shared: usize = found(element).iter().zip(&exact).map(|(a, b)| a.intersection(b).count()).sum();
        assert!(shared >= least, "{element} finds {shared} of 50");
    }
}

#[test]
fn a_corpus_that_cannot_fit_is_refused_before_any_work() {
    let bench = Bench::new();
    let corpus = bench.corpus("c.jsonl", 6000);
    // Four terabytes, of which the first passages are real and the rest takes no space.
    let file = std::fs::OpenOptions::new().append(true).open(corpus).expect("the corpus");
    if file.set_len(4 << 40).is_err() {
        eprintln!("this file system has no files of 4 TB: nothing to test here");
        return;
    }
    let plan = bench.run(&["build", "c.jsonl", "--out", "index", "--dry-run", "--json"]);
    assert!(plan.json()["passages"].as_u64() > Some(1_000_000_000), "{plan:?}");
    assert_eq!(plan.code, Some(9), "{plan:?}");
    bench.refused(&["build", "c.jsonl", "--out", "index"], 9, &["disk of `index`", "bytes", "--out"]);
    bench.assert_no_index("index");
}
