//! Bad input gets one clear message and its exit code, and nothing appears under a final name.

mod common;

use std::io::Write;

use common::{Bench, tiny_model};

fn line(id: &str, contents: &str) -> String {
    format!("{}\n", serde_json::json!({ "id": id, "contents": contents }))
}

/// Builds from `bytes` and expects a refusal that names the file and holds `words`.
fn refused_corpus(name: &str, bytes: impl AsRef<[u8]>, code: i32, words: &[&str]) {
    let bench = Bench::new();
    bench.write(name, bytes);
    let words: Vec<&str> = words.iter().copied().chain([name]).collect();
    bench.refused(&["build", name, "--out", "index"], code, &words);
    bench.assert_no_index("index");
}

#[test]
fn an_empty_corpus() {
    refused_corpus("empty.jsonl", "", 2, &["passage"]);
}

#[test]
fn half_a_line() {
    let text = format!("{}{{\"id\": \"1\", \"conte", line("0", "a\nb"));
    refused_corpus("half.jsonl", text, 2, &["line 2", "byte 29"]);
}

#[test]
fn missing_fields() {
    refused_corpus("fields.jsonl", "{\"name\": \"x\"}\n", 2, &["line 1", "`id`"]);
    refused_corpus("nothing.jsonl", "{\"id\": \"x\"}\n", 2, &["line 1", "contents"]);
}

#[test]
fn wrong_utf8() {
    let mut bytes = line("0", "a\nb").into_bytes();
    bytes.extend(b"{\"id\": \"1\", \"contents\": \"a\\nb\xff\"}\n");
    refused_corpus("utf8.jsonl", bytes, 2, &["line 2", "UTF-8"]);
}

#[test]
fn duplicate_ids() {
    let text = [line("7", "a\nb"), line("8", "a\nb"), line("7", "c\nd")].concat();
    refused_corpus("twice.jsonl", text, 2, &["`7`"]);
}

#[test]
fn zero_length_text() {
    refused_corpus("zero.jsonl", [line("0", "a\nb"), line("1", "")].concat(), 2, &["line 2"]);
}

#[test]
fn a_truncated_gz() {
    let whole: String = (0..2000).map(|row| line(&row.to_string(), &format!("title {row}\ntext {row}"))).collect();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(whole.as_bytes()).expect("memory");
    let gz = gz.finish().expect("memory");
    refused_corpus("cut.jsonl.gz", &gz[..gz.len() / 2], 2, &["gzip", "ends early"]);
}

#[test]
fn a_megabyte_in_one_line_is_a_passage_and_its_cut_is_told() {
    let bench = Bench::new();
    bench.write("long.jsonl", [line("0", &format!("long\n{}", "river ".repeat(170_000))), line("1", "a\nb")].concat());
    let outcome = bench.ok(&["build", "long.jsonl", "--out", "index"]);
    assert!(outcome.stdout.contains("1 passages were longer than"), "{outcome:?}");
    bench.ok(&["export", "index", "--out", "back.jsonl"]);
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).expect("a file");
    let contents = |text: String| -> Vec<serde_json::Value> {
        text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["contents"].clone()).collect()
    };
    assert_eq!(contents(read("back.jsonl")), contents(read("long.jsonl")));
}

#[test]
fn a_line_beyond_the_limit() {
    refused_corpus("endless.jsonl", "x".repeat(17 << 20), 2, &["line 1", "16 MiB"]);
}

#[test]
fn a_corpus_that_is_not_there() {
    let bench = Bench::new();
    bench.refused(&["build", "none.jsonl", "--out", "index"], 3, &["none.jsonl"]);
    bench.assert_no_index("index");
}

#[test]
fn a_wrong_model_folder() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 3);
    std::fs::create_dir(bench.path("not-a-model")).expect("a folder");
    bench.refused(
        &["build", "c.jsonl", "--out", "index", "--model", "./not-a-model"],
        2,
        &["not-a-model", "tokenizer.json"],
    );
    bench.refused(&["build", "c.jsonl", "--out", "index", "--model", "./nowhere"], 3, &["nowhere"]);
    bench.assert_no_index("index");
}

#[test]
fn a_tokenizer_without_a_graph_and_a_graph_without_a_tokenizer() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 3);
    for folder in ["only-tokenizer", "only-graph/onnx"] {
        std::fs::create_dir_all(bench.path(folder)).expect("a folder");
    }
    let copy = |from: &str, to: &str| std::fs::copy(tiny_model().join(from), bench.path(to)).expect("the fixture");
    copy("tokenizer.json", "only-tokenizer/tokenizer.json");
    copy("onnx/model.onnx", "only-graph/onnx/model.onnx");
    bench.refused(
        &["build", "c.jsonl", "--out", "index", "--model", "./only-tokenizer"],
        2,
        &["only-tokenizer", ".onnx"],
    );
    bench.refused(
        &["build", "c.jsonl", "--out", "index", "--model", "./only-graph"],
        2,
        &["only-graph", "tokenizer.json"],
    );
    bench.assert_no_index("index");
}

#[test]
fn an_index_of_another_model() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 20);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    // The same weights, pooled in another way.
    let other = bench.path("other");
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"] {
        std::fs::create_dir_all(other.join(file).parent().expect("a folder")).expect("a folder");
        std::fs::copy(tiny_model().join(file), other.join(file)).expect("the fixture");
    }
    std::fs::create_dir(other.join("1_Pooling")).expect("a folder");
    std::fs::write(other.join("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).expect("a file");
    // An index carries its own pooling, so the graph or its texts must differ to be refused.
    bench.ok(&["search", "index", "river", "--model", "./other"]);
    std::fs::copy(tiny_model().join("onnx/model_fp16.onnx"), other.join("onnx/model.onnx")).expect("the fixture");
    bench.refused(
        &["search", "index", "river", "--model", "./other", "--set", "model.query_precision=fp16"],
        3,
        &["fp32"],
    );
    bench.refused(&["search", "index", "river", "--model", "default"], 3, &["fp32"]);

    let eight = ["--set", "model.query_precision=int8", "--set", "model.passage_precision=int8"];
    bench.ok(&[&["build", "c.jsonl", "--out", "eight"], &eight[..]].concat());
    bench.refused(&["search", "eight", "river", "--model", "default"], 5, &["dimensions", "32", "384", "--model"]);
}

#[test]
fn settings_for_building_do_not_change_how_an_index_is_searched() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 20);
    bench.ok(&["build", "c.jsonl", "--out", "index", "--set", "model.query_prefix=find: "]);
    let hits = |outcome: common::Outcome| outcome.json()["hits"].clone();
    let plain = hits(bench.ok(&["search", "index", "river", "--json"]));
    bench.write("hindsearch.toml", "[model]\nquery_prefix = \"query: \"\npooling = \"cls\"\n");
    assert_eq!(hits(bench.ok(&["search", "index", "river", "--json"])), plain);
    assert!(bench.ok(&["inspect", "index"]).stdout.contains("\"find: \""));
}

#[test]
fn an_index_that_is_not_there_or_not_one() {
    let bench = Bench::new();
    bench.refused(&["search", "nowhere", "river"], 3, &["nowhere", "hindsearch build"]);
    std::fs::create_dir(bench.path("folder")).expect("a folder");
    bench.refused(&["inspect", "folder"], 3, &["folder"]);
    bench.write("file", "x");
    bench.corpus("c.jsonl", 3);
    let outcome = bench.run(&["build", "c.jsonl", "--out", "file"]);
    assert_eq!(
        (outcome.code, std::fs::read(bench.path("file")).expect("still there")),
        (Some(2), b"x".to_vec()),
        "{outcome:?}"
    );
}

#[test]
fn an_output_that_cannot_be_written() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 3);
    // Nobody, not even root, makes folders there.
    let outcome = bench.run(&["build", "c.jsonl", "--out", "/proc/hindsearch"]);
    assert!(matches!(outcome.code, Some(3 | 9)), "{outcome:?}");
    assert!(outcome.stderr.contains("/proc/hindsearch"), "{outcome:?}");
}

#[test]
fn settings_that_cannot_be_used() {
    let bench = Bench::new();
    bench.refused(&["config", "check", "--set", "index.knd=flat"], 2, &["index.knd", "did you mean `index.kind`"]);
    bench.refused(&["config", "check", "--set", "index.kind=tree"], 2, &["index.kind", "flat", "tree", "--set"]);
    bench.refused(&["config", "check", "--set", "search.top_k=0"], 2, &["search.top_k", "1 to 1000"]);
    bench.refused(&["config", "check", "--set", "search.top_k=many"], 2, &["search.top_k", "a whole number"]);
    bench.refused(&["config", "check", "--set", "nonsense"], 2, &["KEY=VALUE"]);
    bench.write("bad.toml", "[index]\nkind = 3\n");
    bench.refused(&["config", "check", "--config", "bad.toml"], 2, &["bad.toml", "index.kind", "text"]);
    bench.write("broken.toml", "[index\n");
    bench.refused(&["config", "check", "--config", "broken.toml"], 2, &["broken.toml", "TOML"]);
    bench.refused(&["config", "check", "--config", "none.toml"], 3, &["none.toml"]);
    let outcome = bench.command(&["config", "check"]).env("HINDSEARCH_INDEX_KNID", "flat").output().expect("it starts");
    assert_eq!(outcome.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("HINDSEARCH_INDEX_KNID"));
}

#[test]
fn questions_that_cannot_be_used() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 5);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    let refused = |text: &str, words: &[&str]| {
        bench.write("q.jsonl", text);
        bench.refused(&["eval", "retrieval", "index", "--questions", "q.jsonl"], 2, words);
    };
    refused("", &["q.jsonl", "questions"]);
    refused("{\"id\": 1}\n", &["line 1", "question"]);
    refused("{\"id\": \"1\", \"question\": \"x\"}\n", &["gold"]);
    refused("{\"id\": \"1\", \"question\": \"x\", \"golden_answers\": [{}]}\n", &["line 1", "golden_answers"]);
}

#[test]
fn outputs_never_replace_devices_and_never_touch_what_lies_beside() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 5);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench.write("out.jsonl.tmp", "precious");
    bench.ok(&["export", "index", "--out", "out.jsonl"]);
    assert_eq!(std::fs::read_to_string(bench.path("out.jsonl.tmp")).expect("still there"), "precious");
    bench.refused(&["embed", "river", "--out", "/dev/null"], 2, &["/dev/null", "regular file"]);
    bench.refused(&["embed", "river", "--out", "missing/x.npy"], 3, &["missing/x.npy"]);
    std::fs::create_dir(bench.path("folder.jsonl")).expect("a folder");
    bench.refused(&["export", "index", "--out", "folder.jsonl"], 2, &["folder.jsonl"]);
}

#[test]
fn damaged_text_is_neither_exported_nor_called_sound() {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 50);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    let path = bench.path("index/gen-000001/passages");
    let mut bytes = std::fs::read(&path).expect("passages");
    let at = bytes.windows(6).position(|window| window == b"planet").expect("a word");
    bytes[at] = b'P';
    std::fs::remove_file(&path).expect("removable");
    std::fs::write(&path, bytes).expect("writable");
    for out in ["x.jsonl", "x.parquet"] {
        bench.refused(&["export", "index", "--out", out], 5, &["passages", "damaged"]);
        assert!(!bench.path(out).exists());
    }
    bench.refused(&["verify", "index"], 5, &["passages"]);
}

#[test]
fn an_index_inside_its_own_corpus_folder() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("corpus")).expect("a folder");
    bench.corpus("corpus/c.jsonl", 5);
    bench.refused(&["build", "corpus", "--out", "corpus/index"], 2, &["corpus/index", "outside"]);
    assert!(!bench.path("corpus/index").exists());
    bench.ok(&["build", "corpus", "--out", "index"]);
}

#[test]
fn a_table_with_an_unknown_header() {
    refused_corpus("a.tsv", "PID\tPassage\n1\thello\n", 2, &["header", "columns"]);
    let bench = Bench::new();
    bench.write("b.tsv", "ID\tText\tTitle\n1\thello\tT\n");
    bench.ok(&["build", "b.tsv", "--out", "index"]);
    assert_eq!(bench.ok(&["search", "index", "hello", "--json"]).json()["hits"][0]["contents"], "\"T\"\nhello");
}

#[test]
fn texts_that_are_no_text() {
    let bench = Bench::new();
    bench.write("t.txt", b"fine\nbr\xffken\n");
    bench.refused(&["embed", "--file", "t.txt", "--out", "x.npy"], 2, &["t.txt", "line 2", "UTF-8"]);
    bench.corpus("c.jsonl", 5);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    assert!(bench.run(&["search", "index", "--queries", "t.txt"]).stderr.contains("line 2"));
    bench.refused(&["search", "index", "--queries", "/dev/zero"], 2, &["/dev/zero", "16 MiB"]);
    let output = bench
        .command(&["config", "show"])
        .env("ODD", {
            use std::os::unix::ffi::OsStrExt;
            std::ffi::OsStr::from_bytes(b"\xff")
        })
        .output();
    assert_eq!(output.expect("it starts").status.code(), Some(0));
}
