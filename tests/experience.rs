//! Experience at the command line: built of a run, by rules and by a model, shown, and put to use on any policy.

mod common;
#[path = "../env/tests/support/server.rs"]
#[allow(dead_code, reason = "tests of the environment use all of it")]
mod model;

use std::process::Stdio;
use std::time::Duration;

use common::{Bench, Outcome, root};
use model::ModelServer;
use serde_json::{Value, json};

/// An index of the sample corpus by the small model, and a run with several plays of some tasks.
fn played() -> Bench {
    let bench = Bench::new();
    let corpus = root().join("examples/data/corpus.jsonl");
    bench.ok(&["build", &corpus.to_string_lossy(), "--out", "index"]);
    bench.ok(&["env", "rollout", "index", "--policy", "guesser", "--limit", "40", "--samples", "3", "--out", "run"]);
    bench
}

fn said(text: &str) -> (u16, String) {
    (200, json!({ "choices": [{ "message": { "content": text }, "finish_reason": "stop" }] }).to_string())
}

/// A lesson of its own for each request.
fn writer() -> ModelServer {
    ModelServer::start(|number, _| {
        let lesson = json!({
            "type": "t", "title": format!("situation number {number}"), "tags": ["x"],
            "description": format!("Do thing number {number}."), "thinking": "why",
        });
        said(&lesson.to_string())
    })
}

#[test]
fn experience_is_built_by_rules_shown_and_used() {
    let bench = played();
    let told = bench.ok(&["experience", "build", "run", "--rules", "--out", "e.jsonl", "--json"]).json();
    assert_eq!((&told["plays"], &told["tasks"], &told["reflector"]), (&json!(120), &json!(40), &json!("rules")));
    let cases = told["entries"][0].as_u64().expect("cases");
    assert!(cases + told["dropped"].as_u64().expect("a count") == 40 && cases > 0, "{told}");
    assert_eq!(told["levels"][0]["level"], 2);
    let shown = bench.ok(&["experience", "show", "e.jsonl"]).stdout;
    assert!(shown.contains("E2 ") && shown.contains("calibrated") && shown.contains("a cosine of"), "{shown}");
    let all = bench.ok(&["experience", "show", "e.jsonl", "--level", "1", "--json"]).json();
    assert_eq!(all["entries"].as_array().map(Vec::len), Some(cases as usize));

    let arguments = ["eval", "qa", "index", "--policy", "oracle", "--limit", "12", "--json", "--out", "guided"];
    let guided = ["--experience", "e.jsonl", "--threshold", "-1", "--k", "2"];
    let report = bench.ok(&[&arguments[..], &guided].concat()).json();
    let sample = &report["report"]["sources"]["sample"];
    assert_eq!((&sample["n"], &sample["em"]["mean"], &report["failed"]), (&json!(12), &json!(1.0), &json!(0)));
    let lines = std::fs::read_to_string(bench.path("guided/trajectories.jsonl")).expect("plays");
    for line in lines.lines() {
        let play: Value = serde_json::from_str(line).expect("JSON");
        let rules = play["experience"].as_array().expect("experience").len();
        assert!(rules > 0 && play["spans"][0]["role"] == "system", "{play}");
        let step = play["turns"][0]["experience"].as_array().expect("experience");
        // Two at most; what both say is said once.
        assert!((1..=2).contains(&step.len()) && (step.len() == 1 || step[0]["text"] != step[1]["text"]), "{step:?}");
        let own = all["entries"].as_array().expect("entries").iter().filter(|entry| entry["tasks"][0] == play["task"]);
        assert!(own.into_iter().all(|entry| step.iter().all(|shown| shown["entry"] != entry["id"])), "its own");
    }
    // A kept run goes on in the same way only, and is played again without the file.
    bench.refused(&arguments, 2, &["run.json", "`experience`"]);
    bench.ok(&["env", "replay", "guided", "--index", "index"]);
}

#[test]
fn answers_are_evaluated_without_experience_too() {
    let bench = played();
    let arguments = ["eval", "qa", "index", "--policy", "oracle", "--limit", "5", "--per-question", "scores.jsonl"];
    let told = bench.ok(&arguments).stdout;
    assert!(told.contains("1.000 [1.000, 1.000]") && told.contains("5 questions"), "{told}");
    let scores = std::fs::read_to_string(bench.path("scores.jsonl")).expect("scores");
    assert_eq!(scores.lines().count(), 5);
    let first: Value = serde_json::from_str(scores.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["em"], &first["searches"], &first["advice"]), (&json!(1.0), &json!(1), &json!(0)));
    let quiet = bench.ok(&["eval", "qa", "index", "--policy", "oracle", "--limit", "5", "--json"]).json();
    assert!(quiet["report"]["all"]["em"]["low"].is_number() && quiet["mean_of_sources"]["em"] == 1.0, "{quiet}");
}

#[test]
fn a_model_on_a_server_plays_greedily() {
    let bench = played();
    let server = ModelServer::start(|_, _| said("<think>I know.</think><answer>radium</answer>"));
    let arguments =
        ["eval", "qa", "index", "--policy", &server.address, "--model", "m", "--limit", "3", "--plain", "--json"];
    let report = bench.ok(&arguments).json();
    assert_eq!(report["report"]["all"]["n"], 3);
    assert!(server.asked().iter().all(|(_, _, body)| body["temperature"] == 0.0), "{:?}", server.asked());
}

#[test]
fn a_build_by_a_model_that_is_stopped_asks_for_nothing_twice() {
    let bench = played();
    let slow = ModelServer::start(|number, _| {
        std::thread::sleep(Duration::from_millis(100));
        said(&json!({ "type": "t", "title": format!("early {number}"), "tags": [], "description": format!("Do {number}."), "thinking": "w" }).to_string())
    });
    let arguments = |address: &str| {
        let fixed =
            ["experience", "build", "run", "--writer-model", "m", "--parallel", "2", "--out", "e.jsonl", "--writer"];
        fixed.iter().map(|&part| part.to_owned()).chain([address.to_owned()]).collect::<Vec<_>>()
    };
    let mut command = bench.command(&arguments(&slow.address));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let answers = bench.path("e.jsonl.answers.jsonl");
    while !answers.metadata().is_ok_and(|facts| facts.len() > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    assert!(sent.success() && outcome.code == Some(130) && outcome.stderr.contains("go on"), "{outcome:?}");
    assert!(!bench.path("e.jsonl").exists(), "no partial file");
    let kept = std::fs::read_to_string(&answers).expect("answers").lines().count();
    let asked = slow.asked().len();
    assert!(kept > 0 && kept == asked, "{kept} of {asked}");

    let server = writer();
    let again = arguments(&server.address);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let told = bench.ok(&[&again[..], &["--json"]].concat()).json();
    assert_eq!((&told["entries"][0], &told["dropped"], &told["reflector"]), (&json!(40), &json!(0), &json!("m")));
    let reflected = server.asked().len()
        - told["levels"]
            .as_array()
            .expect("levels")
            .iter()
            .map(|level| level["clusters"].as_u64().expect("clusters") as usize)
            .sum::<usize>();
    assert_eq!(reflected, 40 - kept);
    // All answers are there: another threshold asks for its clusters alone.
    let before = server.asked().len();
    let told = bench.ok(&[&again[..], &["--json", "--pattern-threshold", "0"]].concat()).json();
    assert_eq!((&told["entries"], server.asked().len()), (&json!([40, 0, 0]), before));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let bench = played();
    bench.ok(&["experience", "build", "run", "--rules", "--out", "e.jsonl"]);
    let build = ["experience", "build", "run", "--out", "x.jsonl"];
    let usage = |arguments: &[&str]| assert_eq!(bench.run(arguments).code, Some(2), "{arguments:?}");
    usage(&build);
    usage(&[&build[..], &["--rules", "--writer", "http://127.0.0.1:1/v1", "--writer-model", "m"]].concat());
    usage(&[&build[..], &["--writer", "http://127.0.0.1:1/v1"]].concat());
    bench.refused(&["experience", "show", "run/run.json"], 2, &["run.json", "line 1", "experience file"]);
    bench.refused(&["experience", "show", "missing.jsonl"], 3, &["missing.jsonl"]);
    let qa = ["eval", "qa", "index", "--policy", "guesser", "--limit", "1"];
    usage(&[&qa[..], &["--planning", "e2"]].concat());
    usage(&[&qa[..], &["--experience", "e.jsonl", "--planning", "e4"]].concat());
    let told = std::fs::read_to_string(bench.path("e.jsonl")).expect("a file");
    bench.write("other.jsonl", told.replacen("\"embedder\":\"", "\"embedder\":\"other ", 1));
    bench.refused(&[&qa[..], &["--experience", "other.jsonl"]].concat(), 2, &["other.jsonl", "embedder"]);
    let gone = ["--policy", "http://127.0.0.1:1/v1", "--model", "m", "--limit", "1"];
    bench.refused(&[&["eval", "qa", "index"][..], &gone].concat(), 9, &["none of 1 questions"]);
}
