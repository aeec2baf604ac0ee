//! What an agent gets that asks over the Model Context Protocol at `/mcp`.
#![cfg(feature = "serve")]

mod mcp_support;

use std::time::Duration;

use hindsearch_indexes::SearchParams;
use hindsearch_retriever::serve::{Limits, Token};
use mcp_support::{Reply, Server, request, text_of};
use serde_json::{Value, json};

fn initialize(version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client })
}

fn searching(query: &str) -> Value {
    request("tools/call", &json!({ "name": "search", "arguments": { "query": query } }))
}

/// A refusal that every kind of client understands: our own keys, and JSON-RPC's.
#[track_caller]
fn assert_refused(reply: &Reply, status: u16, code: &str, number: i64, words: &str) {
    let body = reply.json();
    assert_eq!((reply.status, &body["code"]), (status, &json!(code)), "{reply:?}");
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &Value::Null), "{body}");
    assert_eq!((&body["error"]["code"], &body["error"]["message"]), (&json!(number), &body["message"]), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| message.contains(words)), "no {words:?} in {body}");
    assert_eq!(reply.header("x-request-id"), body["request_id"].as_str(), "{reply:?}");
}

#[test]
fn clients_of_every_version_are_greeted_and_nothing_is_remembered_of_them() {
    let server = Server::start(|_| ());
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let reply = server.post("", &request("initialize", &initialize(version)));
        let result = reply.json()["result"].take();
        assert_eq!((reply.status, &result["protocolVersion"]), (200, &json!(version)), "{reply:?}");
        assert_eq!(result["serverInfo"]["name"], "hindsearch");
        assert!(result["capabilities"]["tools"].is_object(), "{result}");
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("30 passages")), "{result}");
        assert_eq!(reply.header("mcp-session-id"), None);
    }
    let unknown = server.ask("initialize", &initialize("1999-01-01"));
    assert!(unknown["protocolVersion"].as_str().is_some_and(|version| version > "2024"), "{unknown}");
    let told = server.post("", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!((told.status, &*told.body), (202, ""));
    assert_eq!(server.ask("ping", &json!({})), json!({}));
    // The newest has no greeting: each request says all about itself.
    let about = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
    let reply = server.post(headers, &request("tools/list", &about));
    assert_eq!(reply.json()["result"]["tools"].as_array().map(Vec::len), Some(2), "{reply:?}");
}

#[test]
fn the_tools_say_what_they_take_and_give() {
    let server = Server::start(|options| options.top_k = 4);
    let tools = server.ask("tools/list", &json!({}))["tools"].take();
    let names: Vec<&Value> = tools.as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["search", "fetch"]);
    for (tool, required) in tools.as_array().into_iter().flatten().zip(["query", "id"]) {
        let input = &tool["inputSchema"];
        assert_eq!((&input["required"], &input["additionalProperties"]), (&json!([required]), &json!(false)));
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 60), "{tool}");
    }
    let top_k = &tools[0]["inputSchema"]["properties"]["top_k"];
    assert_eq!((&top_k["default"], &top_k["minimum"], &top_k["maximum"]), (&json!(4), &json!(1), &json!(1000)));
}

#[test]
fn search_ranks_as_the_index_does_and_fetch_reads_what_it_found() {
    let server = Server::start(|_| ());
    let query = "Who discovered radium?";
    for (arguments, wanted) in [
        (json!({ "query": query }), 3),
        (json!({ "query": query, "top_k": 30 }), 30),
        (json!({ "query": query, "top_k": null }), 3),
    ] {
        let result = server.ask("tools/call", &json!({ "name": "search", "arguments": arguments }));
        let (text, failed) = text_of(&result);
        assert!(!failed, "{result}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), result["structuredContent"]);
        let found = result["structuredContent"]["results"].as_array().expect("results");
        let ranked = &server.local.retrieve_texts(&[query], &SearchParams::top(wanted)).expect("a ranking")[0];
        assert_eq!(found.len(), wanted);
        for (found, ranked) in found.iter().zip(ranked) {
            let id = &ranked.passage.id;
            assert_eq!((&found["id"], &found["text"]), (&json!(id), &json!(ranked.passage.text)));
            let title = if ranked.passage.title.is_some() { ranked.passage.display_title() } else { id };
            assert_eq!(found["title"], title);
            assert_eq!(found["url"], format!("urn:hindsearch:passage:{id}"));
            assert!((found["score"].as_f64().expect("a score") - f64::from(ranked.score)).abs() < 1e-4, "{found}");
            let (text, failed) = server.call("fetch", json!({ "id": id }));
            let mut whole = found.clone();
            whole.as_object_mut().expect("an object").remove("score");
            assert_eq!((serde_json::from_str::<Value>(&text).expect("JSON"), failed), (whole, false));
        }
    }
}

#[test]
fn titles_have_addresses_where_the_server_derives_them() {
    let server = Server::start(|options| options.derive_urls = true);
    let url = |id: &str| {
        let (text, _) = server.call("fetch", json!({ "id": id }));
        serde_json::from_str::<Value>(&text).expect("JSON")["url"].take()
    };
    assert_eq!(url("radium"), "https://en.wikipedia.org/wiki/Marie_Curie");
    assert_eq!(url("ünï/çödé 😀"), "urn:hindsearch:passage:ünï/çödé 😀");
}

#[test]
fn a_model_is_told_in_the_result_what_was_wrong_with_its_call() {
    let server = Server::start(|_| ());
    let long = "x".repeat((64 << 10) + 1);
    for (tool, arguments, words) in [
        ("search", json!({}), "missing field `query`"),
        ("search", json!({ "query": " \n" }), "query: expected words"),
        ("search", json!({ "query": 7 }), "query: invalid type"),
        ("search", json!({ "query": "river", "limit": 3 }), "unknown field `limit`, expected `query` or `top_k`"),
        ("search", json!({ "query": "river", "top_k": 0 }), "top_k: expected 1 to 1000, found 0"),
        ("search", json!({ "query": "river", "top_k": 1001 }), "top_k: expected 1 to 1000, found 1001"),
        ("search", json!({ "query": "river", "top_k": "3" }), "top_k: invalid type"),
        ("search", json!({ "query": long }), "expected at most 65536 bytes"),
        ("fetch", json!({ "id": "nobody" }), "no passage has the id \"nobody\"; `search` tells the ids"),
        ("fetch", json!({ "id": 3 }), "id: invalid type"),
        ("search", json!({ "query": "panic" }), "a defect"),
    ] {
        let (text, failed) = server.call(tool, arguments);
        assert!(failed && text.contains(words), "no {words:?} in {text:?}");
    }
    let unknown = server.ask("tools/call", &json!({ "name": "serach", "arguments": {} }));
    assert_eq!(unknown["code"], -32602);
    assert!(unknown["message"].as_str().is_some_and(|text| text.contains("expected `search` or `fetch`")), "{unknown}");
    assert_eq!(server.ask("prompts/list", &json!({}))["code"], -32601);
    assert!(!server.call("search", json!({ "query": "river" })).1, "the server lives on");
}

#[test]
fn hosts_origins_and_tokens_are_checked_as_on_every_route() {
    let server = Server::start(|options| {
        options.hosts.push("search.example".into());
        options.origins.push("https://app.example".into());
        options.tokens.push(Token::new("sesame").expect("a token"));
    });
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    let send = |headers: &str| server.post(headers, &request("ping", &json!({})));
    let known = "Authorization: Bearer sesame\r\n";
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "169.254.169.254", ""] {
        assert_refused(&send(&format!("Host: {host}\r\n{known}")), 403, "forbidden", -32000, "Host");
    }
    for origin in ["https://evil.example", "http://app.example", "null", "http://localhost:1"] {
        assert_refused(&send(&format!("Origin: {origin}\r\n{known}")), 403, "forbidden", -32000, "--allow-origin");
    }
    for headers in ["", "Authorization: Bearer sesam\r\n", "Authorization: Basic sesame\r\n"] {
        let reply = send(headers);
        assert_refused(&reply, 401, "unauthorized", -32000, "token");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    for headers in [
        String::new(),
        format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"),
        "Host: search.example\r\nOrigin: https://app.example\r\n".into(),
        "Host: SEARCH.example:8000\r\n".into(),
    ] {
        assert_eq!(send(&format!("{headers}{known}")).status, 200, "{headers}");
    }
}

#[test]
fn what_is_no_message_is_refused_in_words() {
    let server = Server::start(|options| options.limits = Limits { body: 100_000, ..Limits::default() });
    let send = |body: &str| server.send("POST", "", body.as_bytes());
    assert_refused(&send(""), 400, "malformed", -32700, "empty");
    assert_refused(&send("{\"jsonrpc\""), 400, "malformed", -32700, "not JSON");
    assert_refused(&send(&"[".repeat(65)), 400, "malformed", -32700, "deeply");
    for body in ["{}", "[]", "7", "\"x\"", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"] {
        assert_refused(&send(body), 422, "invalid_input", -32600, "not one message");
    }
    let large = searching(&"x".repeat(100_000)).to_string();
    assert_refused(&send(&large), 413, "payload_too_large", -32600, "larger");
    for method in ["GET", "DELETE", "PUT"] {
        assert_refused(&server.send(method, "", b""), 405, "method_not_allowed", -32600, method);
    }
    let reply = server.post("MCP-Protocol-Version: 1999-01-01\r\n", &request("tools/list", &json!({})));
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[test]
fn a_client_need_not_say_what_it_sends_and_takes() {
    let server = Server::start(|_| ());
    let reply = server.post("Content-Type: text/plain\r\nAccept: */*\r\n", &request("ping", &json!({})));
    assert_eq!((reply.status, reply.json()["result"].take()), (200, json!({})));
}

#[test]
fn too_much_work_is_refused_in_words() {
    let mut server = Server::start(|options| options.engine.queued_texts = 1);
    server.gate.shut();
    let first = server.begin("POST", "", searching("one").to_string().as_bytes());
    eventually(|| server.gate.seen.lock().expect("texts").len() == 1);
    let second = server.begin("POST", "", searching("two").to_string().as_bytes());
    eventually(|| scraped(&server, "hindsearch_queue_texts") == 1.0);
    let (text, failed) = server.call("search", json!({ "query": "three" }));
    assert!(failed && text.contains("texts are waiting") && text.contains("try again in "), "{text}");
    server.gate.open();
    for stream in [first, second] {
        let result = Reply::read(stream).json()["result"].take();
        assert!(!text_of(&result).1, "{result}");
    }
    server.stop();
    server.wait();
}

#[test]
fn a_client_that_will_not_wait_is_told_that_its_time_is_over() {
    let server = Server::start(|_| ());
    server.gate.shut();
    let reply = server.post("X-Request-Timeout-Ms: 50\r\n", &searching("one"));
    let (text, failed) = text_of(&reply.json()["result"]);
    assert!(failed && text.contains("deadline"), "{text}");
}

#[test]
fn too_many_requests_are_refused_before_they_are_begun() {
    let server = Server::start(|options| options.limits.in_flight = 1);
    server.gate.shut();
    let first = server.begin("POST", "", searching("one").to_string().as_bytes());
    eventually(|| server.gate.seen.lock().expect("texts").len() == 1);
    let reply = server.post("", &request("ping", &json!({})));
    assert_refused(&reply, 503, "overloaded", -32000, "1 requests are being worked on");
    assert!(reply.header("retry-after").is_some_and(|wait| (1..=30).contains(&wait.parse().unwrap_or(0))), "{reply:?}");
    server.gate.open();
    assert_eq!(Reply::read(first).status, 200);
}

#[test]
fn what_nobody_waits_for_is_not_done() {
    let server = Server::start(|_| ());
    server.gate.shut();
    let first = server.begin("POST", "", searching("one").to_string().as_bytes());
    eventually(|| server.gate.seen.lock().expect("texts").len() == 1);
    let second = server.begin("POST", "", searching("two").to_string().as_bytes());
    eventually(|| scraped(&server, "hindsearch_queue_texts") == 1.0);
    drop(second);
    eventually(|| scraped(&server, "hindsearch_queue_texts") == 0.0);
    server.gate.open();
    assert_eq!(Reply::read(first).status, 200);
    server.call("search", json!({ "query": "three" }));
    assert_eq!(*server.gate.seen.lock().expect("texts"), ["one", "three"]);
}

#[test]
fn a_server_that_stops_answers_what_it_has_begun() {
    let mut server = Server::start(|_| ());
    server.gate.shut();
    let first = server.begin("POST", "", searching("one").to_string().as_bytes());
    eventually(|| server.gate.seen.lock().expect("texts").len() == 1);
    server.stop();
    eventually(|| server.post("", &request("ping", &json!({}))).status == 503);
    assert_refused(&server.post("", &searching("two")), 503, "unavailable", -32000, "being stopped");
    server.gate.open();
    assert_eq!(Reply::read(first).status, 200);
    server.wait();
}

/// Waits for what must come.
#[track_caller]
fn eventually(mut come: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if come() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came");
}

/// A figure of `/metrics`.
fn scraped(server: &Server, name: &str) -> f64 {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(&server.address).expect("a connection");
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).expect("a sent request");
    let page = Reply::read(stream).body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
}
