//! What `hindsearch serve` promises to trainers: which tasks and recipes they play, and what is refused before it serves.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_api_support/http.rs"]
mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A model that always says the same, and counts how often it was asked.
fn model(says: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let (asked, counted) = (Arc::new(AtomicUsize::new(0)), json!({ "choices": [{ "message": { "content": says } }] }));
    let (count, body) = (Arc::clone(&asked), counted.to_string());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) && !line.trim().is_empty() {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).expect("a body");
            count.fetch_add(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).expect("a reader");
        }
    });
    (address, asked)
}

#[test]
fn a_judge_writes_critiques_within_its_budget_and_is_asked_nothing_twice() {
    let bench = indexed();
    let (address, asked) = model("Ask for the river by name.");
    let judge = ["--judge", &address, "--judge-model", "m", "--judge-cache", "said.jsonl", "--judge-budget", "1"];
    let server = Served::start(bench.command(&[&SERVE[..], &judge].concat()));
    let failed = |question: &str| {
        let task = json!({ "question": question, "answer": "secret-7" });
        let send = |route: &str, item: &Value| {
            post(route, &json!({ "items": [item] })).ask(server.address).expect(200)["items"][0].clone()
        };
        let begun = send("/env/v1/reset", &json!({ "task": task, "record": true }));
        let action = "<answer>Paris</answer>";
        let over = send("/env/v1/transition", &json!({ "trajectory": begun["trajectory"], "action": action }));
        let item = json!({ "trajectory": over["trajectory"], "critic": "judge", "ground_truth": "secret-7" });
        send("/hindsight/v1/critique", &item)
    };
    for _ in 0..2 {
        assert_eq!(failed("which river")["critique"]["text"], "Ask for the river by name.");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(failed("which bridge")["error"]["message"].as_str().is_some_and(|text| text.contains("budget")));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    bench.refused(&[&SERVE[..], &["--judge", &address]].concat(), 2, &["--judge-model"]);
    bench.refused(&[&SERVE[..], &["--judge", "m", "--judge-model", "m"]].concat(), 2, &["http://"]);
}
