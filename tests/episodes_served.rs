//! What `hindsearch serve` promises to trainers: which tasks and recipes they play, and what is refused before it serves.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_api_support/http.rs"]
mod http;

use common::Bench;
use common::server::Served;
use http::{get, post};
use serde_json::{Value, json};

fn indexed() -> Bench {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 60);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench
}

const SERVE: [&str; 6] = ["serve", "index", "--port", "0", "--json", "--no-access-log"];

fn played(server: &Served, reset: &Value) -> Value {
    let item = |route: &str, item: Value| {
        post(route, &json!({ "items": [item] })).ask(server.address).expect(200)["items"][0].clone()
    };
    let begun = item("/env/v1/reset", reset.clone());
    let episode = &begun["episode_id"];
    let seen = item("/env/v1/step", json!({ "episode_id": episode, "action": "<search>the river</search>" }));
    assert_eq!(seen["info"]["searches"], 1, "{seen}");
    item("/env/v1/step", json!({ "episode_id": episode, "action": "<answer>Paris</answer>" }))
}

#[test]
fn the_sample_is_played_where_nothing_else_is_named() {
    let bench = indexed();
    let server = Served::start(bench.command(&SERVE));
    let tasks = get("/env/v1/tasks").ask(server.address).expect(200);
    assert!(tasks["total"].as_u64() > Some(0), "{tasks}");
    assert_eq!(get("/env/v1/presets").ask(server.address).expect(200)["default"], "hindsearch");
    assert_eq!(played(&server, &json!({ "seed": 1 }))["terminated"], true);
}

#[test]
fn files_of_tasks_and_a_recipe_are_served() {
    let bench = indexed();
    bench.write("a.jsonl", "{\"question\": \"Capital of France\", \"answer\": \"Paris\"}\n");
    bench.write("b.jsonl", "{\"question\": \"Capital of Peru\", \"answer\": \"Lima\"}\n");
    let own = ["--tasks", "a.jsonl", "--tasks", "b.jsonl", "--preset", "search-r1"];
    let server = Served::start(bench.command(&[&SERVE[..], &own].concat()));
    let tasks = get("/env/v1/tasks").ask(server.address).expect(200);
    assert_eq!(tasks["total"], 2);
    assert_eq!(get("/env/v1/presets").ask(server.address).expect(200)["default"], "search-r1");
    let last = played(&server, &json!({ "task_id": tasks["tasks"][0]["task_id"] }));
    assert_eq!(last["reward"], 1.0, "{last}");
}

#[test]
fn tasks_and_recipes_that_cannot_be_read_are_refused_before_it_serves() {
    let bench = indexed();
    bench.write(
        "bad.jsonl",
        "{\"question\": \"x\", \"answer\": \"secret-7\"}\n{\"question\": [], \"answer\": \"secret-7\"}\n",
    );
    let refused = bench.refused(&[&SERVE[..], &["--tasks", "bad.jsonl"]].concat(), 2, &["bad.jsonl", "line 2"]);
    assert!(!refused.stderr.contains("secret-7"), "{}", refused.stderr);
    bench.refused(&[&SERVE[..], &["--tasks", "none.jsonl"]].concat(), 3, &["none.jsonl"]);
    bench.refused(&[&SERVE[..], &["--preset", "none"]].concat(), 3, &["none", "hindsearch"]);
}
