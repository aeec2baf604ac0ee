//! What an agent gets that starts `hindsearch mcp` as its own process.
#![cfg(feature = "serve")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use common::Bench;
use serde_json::{Value, json};

/// A running program that is spoken to.
struct Agent {
    program: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Agent {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let mut command = bench.command(&[&["mcp"], arguments].concat());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = command.spawn().expect("the program starts");
        let (input, output) = (program.stdin.take(), program.stdout.take().expect("an output"));
        Self { program, input, output: BufReader::new(output) }
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("a program that listens");
    }

    /// The next line of the answer, which must be a message of the protocol.
    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("UTF-8");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }).to_string());
        let message = self.hear();
        assert_eq!(message["id"], method, "{message}");
        message
    }

    fn greet(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let greeting = self.ask("initialize", &params);
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        greeting
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].take()
    }

    /// Closes the input: exit code, what else came on stdout, and all of stderr.
    fn leave(mut self) -> (Option<i32>, String, String) {
        drop(self.input.take());
        let limit = Instant::now() + Duration::from_secs(20);
        let code = loop {
            match self.program.try_wait().expect("a child") {
                Some(status) => break status.code(),
                None if Instant::now() > limit => panic!("the program did not end with its input"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let (mut rest, mut told) = (String::new(), String::new());
        self.output.read_to_string(&mut rest).expect("UTF-8");
        self.program.stderr.take().expect("stderr").read_to_string(&mut told).expect("UTF-8");
        (code, rest, told)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn indexed() -> Bench {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 40);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench
}

#[test]
fn an_agent_searches_and_reads_until_it_leaves() {
    let bench = indexed();
    let expected = bench.ok(&["search", "index", "--json", "--top-k", "2", "an old river"]).json();
    let mut agent = Agent::start(&bench, &["index", "--top-k", "2"]);
    let greeting = agent.greet();
    assert_eq!(greeting["result"]["protocolVersion"], "2025-06-18", "{greeting}");
    let tools = agent.ask("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"][0]["inputSchema"]["properties"]["top_k"]["default"], 2);
    let found = agent.call("search", &json!({ "query": "an old river" }));
    let results = found["structuredContent"]["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    for (result, hit) in results.iter().zip(expected["hits"].as_array().expect("hits")) {
        assert_eq!((&result["id"], &result["title"], &result["text"]), (&hit["id"], &hit["title"], &hit["text"]));
    }
    let read = agent.call("fetch", &json!({ "id": results[0]["id"] }));
    assert_eq!(read["structuredContent"]["text"], results[0]["text"]);
    let refused = agent.call("fetch", &json!({ "id": "nobody" }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(agent.ask("tools/call", &json!({ "name": "serach" }))["error"]["code"], -32602);
    let (code, rest, told) = agent.leave();
    assert_eq!((code, &*rest), (Some(0), ""), "{told}");
    assert!(told.contains("40 passages"), "{told}");
}

#[test]
fn what_is_asked_before_the_input_ends_is_answered() {
    let bench = indexed();
    let mut agent = Agent::start(&bench, &["index", "--quiet"]);
    agent.greet();
    for id in 0..20 {
        let params = json!({ "name": "search", "arguments": { "query": format!("river {id}") } });
        agent.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
    }
    let (code, rest, told) = agent.leave();
    let mut ids: Vec<u64> = Vec::new();
    for line in rest.lines() {
        let message: Value = serde_json::from_str(line).expect("nothing but the protocol");
        assert_eq!(message["result"]["isError"], false, "{message}");
        ids.extend(message["id"].as_u64());
    }
    ids.sort_unstable();
    assert_eq!((code, ids, &*told), (Some(0), (0..20).collect(), ""));
}

#[test]
fn noise_on_the_input_does_no_harm() {
    let bench = indexed();
    let mut agent = Agent::start(&bench, &["index"]);
    agent.greet();
    agent.say("not JSON at all \u{1b}[31m");
    agent.say("");
    agent.say(r#"{"jsonrpc":"2.0","id":5}"#);
    let refused = agent.hear();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(agent.ask("ping", &json!({}))["result"], json!({}));
    assert_eq!(agent.leave().0, Some(0));
}

#[test]
fn a_client_that_says_nothing_ends_it_in_order() {
    let bench = indexed();
    let (code, rest, _) = Agent::start(&bench, &["index"]).leave();
    assert_eq!((code, &*rest), (Some(0), ""));
}

#[test]
fn without_an_index_it_ends_and_says_why() {
    let bench = Bench::new();
    bench.refused(&["mcp", "nowhere"], 3, &["nowhere"]);
    bench.refused(&["mcp", "nowhere", "--top-k", "0"], 2, &["top-k"]);
}
