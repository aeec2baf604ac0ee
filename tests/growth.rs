//! An index gets more passages, and fewer, without a new build: what changes, what stays, and what is refused.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_api_support/http.rs"]
mod http;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use common::Bench;
use common::server::Served;
use http::{get, post};
use serde_json::{Value, json};

/// Passages `from..to` of one endless corpus; with another `word` their texts differ.
fn corpus(bench: &Bench, name: &str, rows: std::ops::Range<usize>, word: &str) {
    let words =
        ["river", "king", "element", "planet", "novel", "bridge", "metal", "comet", "castle", "glacier", "poet"];
    let text =
        |row: usize| (0..14).map(|at| words[(row * 7 + at * at * (1 + row % 5)) % 11]).collect::<Vec<_>>().join(" ");
    let line = |row: usize| {
        format!("{}\n", json!({ "id": row.to_string(), "contents": format!("Topic {row}\n{word} {}.", text(row)) }))
    };
    bench.write(name, rows.map(line).collect::<String>());
}

fn manifest(bench: &Bench, index: &str) -> Value {
    bench.ok(&["inspect", index, "--json"]).json()
}

fn generation(bench: &Bench, index: &str) -> PathBuf {
    let current = std::fs::read_to_string(bench.path(index).join("CURRENT")).expect("an index");
    bench.path(index).join(current.trim_end())
}

/// The inodes of the files of the current generation, each read-only, by name.
fn inodes(bench: &Bench, index: &str) -> Vec<(String, u64)> {
    let files = std::fs::read_dir(generation(bench, index)).expect("a generation").flatten();
    let facts = files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.metadata().expect("a file")));
    let mut inodes: Vec<_> = facts
        .map(|(name, facts)| {
            assert_eq!(facts.mode() & 0o222, 0, "{name} is read-only");
            (name, facts.ino())
        })
        .collect();
    inodes.sort();
    inodes
}

/// The whole ranking of each query: ids, contents and scores.
fn rankings(bench: &Bench, index: &str) -> Vec<Vec<(String, String, f64)>> {
    let asked = ["search", index, "-k", "1000", "--json", "river king", "who wrote the poem about the bridge"];
    let answers = bench.ok(&asked).stdout;
    let hit = |hit: &Value| {
        let text = |key: &str| hit[key].as_str().expect("text").to_owned();
        (text("id"), text("contents"), hit["score"].as_f64().expect("a number"))
    };
    let ranking = |line: &str| -> Vec<_> {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        answer["hits"].as_array().expect("hits").iter().map(hit).collect()
    };
    answers.lines().map(ranking).collect()
}

fn ids(bench: &Bench, index: &str) -> BTreeSet<String> {
    rankings(bench, index).swap_remove(0).into_iter().map(|(id, ..)| id).collect()
}

fn numbers(rows: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    rows.into_iter().map(|row| row.to_string()).collect()
}

#[test]
fn an_append_embeds_what_is_new_and_leaves_the_old_files_as_they_are() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..300, "first");
    corpus(&bench, "b.jsonl", 300..400, "second");
    for kind in ["flat", "hnsw"] {
        bench.ok(&["build", "a.jsonl", "--out", kind, "--index", kind, "--element-type", "i8"]);
        let before = inodes(&bench, kind);
        let report = bench.ok(&["append", kind, "b.jsonl", "--json"]).json();
        assert_eq!((&report["embedded"], &report["generation"]), (&100.into(), &2.into()));
        let after = inodes(&bench, kind);
        for (name, inode) in before.iter().filter(|(name, _)| name != "manifest.json") {
            assert!(after.contains(&(name.clone(), *inode)), "{name} was written again");
        }
        let manifest = manifest(&bench, kind);
        assert_eq!((&manifest["rows"], &manifest["shards"]), (&400.into(), &json!([300, 100])));
        assert_eq!(manifest["recall"].is_object(), kind == "hnsw");
        bench.ok(&["verify", kind]);
        assert_eq!(ids(&bench, kind), numbers(0..400));
        assert!(bench.ok(&["inspect", kind]).stdout.contains("400, in 2 shards of 300 + 100 rows"));
    }
    assert_eq!(rankings(&bench, "flat"), rankings(&bench, "hnsw"));
}

#[test]
fn ids_that_the_index_has_are_refused_or_replaced() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..50, "old");
    corpus(&bench, "b.jsonl", 45..60, "new");
    bench.ok(&["build", "a.jsonl", "--out", "index"]);
    let before = rankings(&bench, "index");
    bench.refused(&["append", "index", "b.jsonl"], 2, &["`45`", "passage 1 of `b.jsonl`", "--replace"]);
    assert_eq!(rankings(&bench, "index"), before);

    let report = bench.ok(&["append", "index", "b.jsonl", "--replace", "--json"]).json();
    assert_eq!((&report["embedded"], &report["deleted"]), (&15.into(), &5.into()));
    let ranking = rankings(&bench, "index").swap_remove(0);
    assert_eq!(ids(&bench, "index"), numbers(0..60));
    for (id, contents, _) in ranking {
        let word = if id.parse::<usize>().expect("a number") < 45 { "old" } else { "new" };
        assert!(contents.contains(word), "{id}: {contents}");
    }
    bench.refused(&["append", "index", "a.jsonl"], 2, &["`0`"]);
    // Two of one id among the new ones are refused as in a build.
    bench.write("twice.jsonl", "{\"id\": \"x\", \"contents\": \"t\\na\"}\n".repeat(2));
    bench.refused(&["append", "index", "twice.jsonl", "--replace"], 2, &["`x`", "passage 2 of `twice.jsonl`"]);
    bench.refused(&["append", "nowhere", "b.jsonl"], 3, &["nowhere"]);
    assert!(!bench.path("nowhere").exists());
}

#[test]
fn deleted_passages_are_gone_and_unknown_ids_change_nothing() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..60, "a");
    corpus(&bench, "b.jsonl", 60..80, "b");
    for kind in ["flat", "hnsw"] {
        bench.ok(&["build", "a.jsonl", "--out", kind, "--index", kind]);
        bench.ok(&["append", kind, "b.jsonl"]);
        bench.refused(&["delete", kind, "3", "unknown", "other"], 3, &["`unknown`", "nothing was deleted"]);
        assert_eq!(ids(&bench, kind), numbers(0..80));
        bench.write("gone.txt", "7\n70\n\n7\n");
        let report = bench.ok(&["delete", kind, "3", "--ids", "gone.txt", "--json"]).json();
        assert_eq!((&report["deleted"], &report["manifest"]["deleted"]), (&3.into(), &3.into()));
        let left = numbers((0..80).filter(|row| ![3, 7, 70].contains(row)));
        assert_eq!(ids(&bench, kind), left);
        bench.refused(&["delete", kind, "7"], 3, &["`7`"]);
        assert!(bench.ok(&["verify", kind]).stdout.contains("77 passages"));
        bench.ok(&["export", kind, "--out", "left.jsonl"]);
        let exported = std::fs::read_to_string(bench.path("left.jsonl")).expect("an export");
        let id = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_str().map(str::to_owned);
        assert_eq!(exported.lines().filter_map(id).collect::<BTreeSet<_>>(), left);
        // An id that is free again may come again.
        corpus(&bench, "again.jsonl", 7..8, "again");
        bench.ok(&["append", kind, "again.jsonl"]);
        assert_eq!(ids(&bench, kind).len(), 78);
    }
}

#[test]
fn a_compacted_index_is_that_of_a_new_build() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..120, "a");
    corpus(&bench, "b.jsonl", 100..150, "b");
    for (kind, element_type) in [("flat", "f16"), ("flat", "i8"), ("hnsw", "f32")] {
        let index = format!("{kind}-{element_type}");
        bench.ok(&["build", "a.jsonl", "--out", &index, "--index", kind, "--element-type", element_type]);
        bench.ok(&["append", &index, "b.jsonl", "--replace"]);
        bench.ok(&["delete", &index, "0", "5", "6", "149"]);
        let before = rankings(&bench, &index);
        bench.ok(&["export", &index, "--out", "left.jsonl"]);
        let report = bench.ok(&["compact", &index, "--json"]).json();
        assert_eq!((&report["embedded"], &report["generation"]), (&0.into(), &4.into()));
        assert_eq!(rankings(&bench, &index), before, "the same passages with the same scores");
        bench.ok(&["verify", &index]);

        let compacted = manifest(&bench, &index);
        assert!(compacted.get("shards").is_none() && compacted.get("deleted").is_none(), "{compacted}");
        bench.ok(&["build", "left.jsonl", "--out", "anew", "--index", kind, "--element-type", element_type]);
        let corpus = |manifest: &Value| manifest["attributes"]["provenance"]["corpus"].clone();
        assert_eq!(corpus(&compacted), corpus(&manifest(&bench, "anew")));
        // There is nothing more to do.
        assert!(bench.ok(&["compact", &index]).stdout.contains("generation 4"));
        assert!(!bench.path(&index).join("gen-000005.tmp").exists());
    }
    bench.ok(&[&["delete", "flat-f16"][..], &numbers_of(&bench, "flat-f16")].concat());
    assert!(ids(&bench, "flat-f16").is_empty());
    bench.refused(&["compact", "flat-f16"], 2, &["all are deleted"]);
    bench.ok(&["append", "flat-f16", "a.jsonl"]);
    assert_eq!(ids(&bench, "flat-f16"), numbers(0..120));
}

/// The ids of an index, as arguments.
fn numbers_of(bench: &Bench, index: &str) -> Vec<&'static str> {
    ids(bench, index).into_iter().map(|id| &*id.leak()).collect()
}

#[test]
fn merged_indexes_hold_the_passages_of_all() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..40, "a");
    corpus(&bench, "b.jsonl", 40..70, "b");
    for (index, kind) in [("a", "hnsw"), ("b", "flat")] {
        bench.ok(&["build", &format!("{index}.jsonl"), "--out", index, "--index", kind]);
    }
    bench.ok(&["delete", "a", "5"]);
    let report = bench.ok(&["merge", "a", "b", "--out", "both", "--json"]).json();
    assert_eq!((&report["embedded"], &report["manifest"]["rows"]), (&0.into(), &69.into()));
    assert_eq!(manifest(&bench, "both")["kind"], "hnsw");
    bench.ok(&["verify", "both"]);
    assert_eq!(ids(&bench, "both"), numbers((0..70).filter(|row| *row != 5)));
    // As if all had been built at once.
    bench.ok(&["export", "both", "--out", "both.jsonl"]);
    bench.ok(&["build", "both.jsonl", "--out", "anew"]);
    assert_eq!(rankings(&bench, "both"), rankings(&bench, "anew"));

    bench.refused(&["merge", "a", "both", "--out", "no"], 2, &["id `", "index `a`", "index `both`"]);
    bench.assert_no_index("no");
    bench.ok(&["build", "b.jsonl", "--out", "other", "--set", "model.passage_prefix=passage: "]);
    bench.refused(&["merge", "a", "other", "--out", "no"], 5, &["`other`", "passage: "]);
    bench.ok(&["build", "b.jsonl", "--out", "finer", "--element-type", "f32"]);
    bench.refused(&["merge", "a", "finer", "--out", "no"], 5, &["f16", "f32"]);
    bench.refused(&["merge", "a", "nowhere", "--out", "no"], 3, &["nowhere"]);
    bench.refused(&["merge", "a", "--out", "no"], 2, &["INDEXES"]);
}

#[test]
fn another_model_is_refused_before_anything_is_embedded() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..20, "a");
    corpus(&bench, "b.jsonl", 20..30, "b");
    bench.ok(&["build", "a.jsonl", "--out", "index", "--set", "model.passage_prefix=passage: "]);
    // The settings speak of builds; the index knows its own.
    bench.ok(&["append", "index", "b.jsonl"]);
    let card = &manifest(&bench, "index")["attributes"]["provenance"]["model"]["card"];
    assert_eq!(card["passage_prefix"], "passage: ");

    corpus(&bench, "c.jsonl", 30..40, "c");
    let copy = std::process::Command::new("cp").arg("-r").arg(common::tiny_model()).arg(bench.path("other")).status();
    assert!(copy.expect("cp").success());
    let tokenizer = std::fs::read_to_string(bench.path("other/tokenizer.json")).expect("a tokenizer");
    bench.write("other/tokenizer.json", tokenizer + "\n");
    let asked = ["append", "index", "c.jsonl", "--model", "./other"];
    bench.refused(&asked, 5, &["tokenizer", "index", "--model"]);
    assert_eq!(ids(&bench, "index"), numbers(0..30));
    assert!(!bench.path("index/gen-000003.tmp").exists());
}

#[test]
fn a_server_goes_over_to_the_index_as_it_is_now() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..30, "a");
    corpus(&bench, "b.jsonl", 30..40, "b");
    bench.ok(&["build", "a.jsonl", "--out", "index"]);
    let served = Served::start(bench.command(&["serve", "index", "--port", "0", "--json"]));
    bench.ok(&["append", "index", "b.jsonl"]);
    bench.ok(&["delete", "index", "3"]);
    let search = || post("/v1/search", &json!({ "query": "river king", "top_k": 100 })).ask(served.address).expect(200);
    let answer = until(|| Some(search()).filter(|answer| answer["index"]["generation"] == 3));
    assert_eq!(answer["index"]["rows"], 39);
    let hits = answer["results"][0]["hits"].as_array().expect("hits").clone();
    let found: BTreeSet<String> = hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect();
    assert_eq!(found, numbers((0..40).filter(|row| *row != 3)));
    get("/v1/passages/35").ask(served.address).expect(200);
    get("/v1/passages/3").ask(served.address).refuses(404, "not_found", &["3"]);
    let among =
        |ids: &[&str]| post("/v1/search", &json!({ "query": "x", "filter": { "ids": ids } })).ask(served.address);
    among(&["35", "2"]).expect(200);
    among(&["35", "3"]).refuses(422, "invalid_input", &["3"]);
}

/// Asks again until there is an answer.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no answer within twenty seconds");
}

/// Starts a command and kills it as soon as its unfinished work holds some rows; gives their number.
fn kill_at_the_first_checkpoint(bench: &Bench, arguments: &[&str], staging: &str) -> u64 {
    let durable = || {
        let state = std::fs::read(bench.path(staging).join("build.json")).unwrap_or_default();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        state.pointer("/state/rows").and_then(Value::as_u64).unwrap_or(0)
    };
    let mut command = bench.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    while durable() == 0 {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended before it left a checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("a child");
    child.wait().expect("an end");
    durable()
}

#[test]
fn a_killed_append_leaves_the_old_generation_and_goes_on() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..30, "a");
    corpus(&bench, "b.jsonl", 30..6030, "b");
    bench.ok(&["build", "a.jsonl", "--out", "index"]);
    let (before, files) = (rankings(&bench, "index"), inodes(&bench, "index"));
    let append = ["append", "index", "b.jsonl", "--threads", "1", "--json"];
    let durable = kill_at_the_first_checkpoint(&bench, &append, "index/gen-000002.tmp");
    assert!((1024..6000).contains(&durable), "{durable}");
    assert_eq!((rankings(&bench, "index"), inodes(&bench, "index")), (before, files));

    // Work that may have cost days is only discarded on request.
    bench.refused(&["delete", "index", "3"], 5, &["unfinished", "--restart"]);
    bench.refused(&["build", "a.jsonl", "--out", "index"], 5, &["unfinished", "append", "--restart"]);
    let report = bench.ok(&append).json();
    assert_eq!(report["embedded"], 6000 - durable);
    bench.ok(&["verify", "index"]);

    bench.ok(&["build", "a.jsonl", "--out", "undisturbed"]);
    bench.ok(&["append", "undisturbed", "b.jsonl", "--threads", "1"]);
    let hash = |index: &str| {
        let manifest = manifest(&bench, index);
        let files = manifest["files"].as_array().expect("files").clone();
        files.into_iter().find(|file| file["name"] == "vectors.2").expect("a second shard")["blake3"].clone()
    };
    assert_eq!(hash("index"), hash("undisturbed"));
}

#[test]
fn a_damaged_list_of_deletions_or_a_missing_shard_is_refused_by_every_reader() {
    let bench = Bench::new();
    corpus(&bench, "a.jsonl", 0..30, "a");
    corpus(&bench, "b.jsonl", 30..40, "b");
    bench.ok(&["build", "a.jsonl", "--out", "index"]);
    bench.ok(&["append", "index", "b.jsonl"]);
    bench.ok(&["delete", "index", "3"]);
    let folder = generation(&bench, "index");
    for name in ["deleted", "ids.2", "vectors.2", "passages.2"] {
        let (file, aside) = (folder.join(name), folder.join("aside"));
        std::fs::rename(&file, &aside).expect("a folder of ours");
        for command in
            [&["search", "index", "x"][..], &["verify", "index"], &["compact", "index"], &["delete", "index", "4"]]
        {
            bench.refused(command, 5, &[name, "damaged"]);
        }
        std::fs::rename(&aside, &file).expect("a folder of ours");
    }
    let file = folder.join("deleted");
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes[4096] ^= 2;
    std::fs::remove_file(&file).expect("a folder of ours");
    std::fs::write(&file, bytes).expect("a folder of ours");
    for command in
        [&["search", "index", "x"][..], &["verify", "index", "--quick"], &["export", "index", "--out", "x.jsonl"]]
    {
        bench.refused(command, 5, &["deleted", "damaged"]);
    }
}
