//! What `hindsearch serve` promises as a program: whom it refuses to serve, and what it never prints.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_api_support/http.rs"]
mod http;

use common::server::Served;
use common::{Bench, Outcome};
use http::{Request, get, post};
use serde_json::{Value, json};

const TOKEN: &str = "s3cret-Token_of.48-characters/with+signs=0123456";

fn indexed() -> Bench {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 60);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench
}

const SERVE: [&str; 5] = ["serve", "index", "--port", "0", "--json"];

#[test]
fn other_machines_are_served_only_where_that_was_decided() {
    let bench = indexed();
    for host in ["0.0.0.0", "::"] {
        let arguments = [&SERVE[..], &["--host", host]].concat();
        bench.refused(&arguments, 2, &[host, "--token-file", "HINDSEARCH_TOKEN", "--insecure-no-auth"]);
    }
    bench.refused(&[&SERVE[..], &["--allow-origin", "*"]].concat(), 2, &["--allow-origin"]);
    bench.refused(&[&SERVE[..], &["--listen", "0=klingon"]].concat(), 2, &["klingon", "search_r1"]);
    let everybody = ["--host", "0.0.0.0"];
    let open = Served::start(bench.command(&[&SERVE[..], &everybody, &["--insecure-no-auth"]].concat()));
    let local = |server: &Served| ([127, 0, 0, 1], server.address.port()).into();
    post("/v1/search", &json!({"query": "x"})).ask(local(&open)).expect(200);
    bench.write("tokens", format!("\n  {TOKEN}\n\nother\n"));
    let closed = Served::start(bench.command(&[&SERVE[..], &everybody, &["--token-file", "tokens"]].concat()));
    get("/v1/models").ask(local(&closed)).refuses(401, "unauthorized", &[]);
    for token in [TOKEN, "other"] {
        let asked = get("/v1/models").header("Authorization", &format!("Bearer {token}"));
        asked.ask(local(&closed)).expect(200);
    }
}

#[test]
fn a_token_that_is_none_is_not_taken_for_no_token() {
    let bench = indexed();
    for (name, content) in [("empty", ""), ("blank", " \n\t\n"), ("two-words", "se cret\n"), ("umlaut", "gehüm\n")] {
        bench.write(name, content);
        let refused = bench.refused(&[&SERVE[..], &["--token-file", name]].concat(), 2, &[name, "token"]);
        assert!(!refused.stderr.contains("cret") && !refused.stderr.contains("geh"), "{}", refused.stderr);
    }
    bench.refused(&[&SERVE[..], &["--token-file", "nowhere"]].concat(), 3, &["nowhere"]);
    for bad in ["", " ", "se cret", "a\nb"] {
        let mut command = bench.command(&SERVE);
        let outcome = Outcome::of(command.env("HINDSEARCH_TOKEN", bad).output().expect("the program starts"));
        assert_eq!(outcome.code, Some(2), "{bad:?}: {outcome:?}");
        assert!(outcome.stderr.contains("HINDSEARCH_TOKEN") && !outcome.stderr.contains("cret"), "{outcome:?}");
    }
}

#[test]
fn the_token_is_in_nothing_that_is_printed() {
    let bench = indexed();
    bench.write("token", TOKEN);
    let with_token = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.env("HINDSEARCH_TOKEN", TOKEN);
        command
    };
    let mut printed = Vec::new();
    let by_file = Served::start(bench.command(&[&SERVE[..], &["--token-file", "token"]].concat()));
    let by_environment = Served::start(with_token(&SERVE));
    for server in [by_file, by_environment] {
        let bearer = format!("Bearer {TOKEN}");
        for request in [
            post("/v1/search", &json!({"query": "x"})),
            post("/v1/search", &json!({"query": 7})),
            Request::new("POST", "/v1/search").body("{"),
            get("/metrics"),
            get("/info"),
            get("/openapi.json"),
            get("/none"),
            get("/"),
        ] {
            for headers in
                [vec![], vec![("Authorization", &*bearer)], vec![("Authorization", TOKEN)], vec![("X-Api-Key", TOKEN)]]
            {
                let answer = request.clone().headers(&headers).ask(server.address);
                printed.push(format!("{:?} {}", answer.headers, answer.text()));
            }
        }
        let (stdout, stderr) = server.stop();
        assert!(stderr.contains("/v1/search"), "no log to look at: {stderr}");
        printed.extend([stdout, stderr]);
    }
    for arguments in
        [&["--help"][..], &["serve", "--help"], &["config", "show"], &["config", "show", "--json"], &["doctor"]]
    {
        let outcome = Outcome::of(with_token(arguments).output().expect("the program starts"));
        printed.extend([outcome.stdout, outcome.stderr]);
    }
    // A missing index, and a port that is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for arguments in [&["serve", "nowhere"][..], &["serve", "index", "--port", &port]] {
        let outcome = Outcome::of(with_token(arguments).output().expect("the program starts"));
        assert_ne!(outcome.code, Some(0));
        printed.extend([outcome.stdout, outcome.stderr]);
    }
    for part in [TOKEN, &TOKEN[..12], &TOKEN[TOKEN.len() - 12..]] {
        let shown = printed.iter().find(|text| text.contains(part));
        assert!(shown.is_none(), "{part} is in {shown:?}");
    }
}

#[test]
fn what_strangers_send_cannot_write_into_the_log() {
    let bench = indexed();
    let server = Served::start(bench.command(&SERVE));
    let nasty = [
        "\u{1b}[31mred",
        "\u{202e}right to left",
        "\u{9b}31m",
        "\u{2028}line",
        "\r\n{\"event\":\"forged\"}",
        "\u{7}bell",
        "\u{7f}",
    ];
    let mut asked = 0;
    for text in nasty {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let body = json!({"query": text, "queries": text, text: text});
        for request in [
            get(&format!("/{encoded}")),
            get(&format!("/v1/passages/{encoded}")),
            get(&format!("/v1/{encoded}/search?query={encoded}&hits={encoded}")),
            get(&format!("/livez?{encoded}")),
            post("/v1/search", &body),
            post("/retrieve", &body),
            post("/v1/search", &json!({"query": text})),
        ] {
            request.ask(server.address);
            asked += 1;
        }
        // As a header's value may have them: no line breaks.
        let raw: String = text.chars().filter(|c| !c.is_ascii_control()).collect();
        for name in [
            "X-Request-Id",
            "Traceparent",
            "Host",
            "Origin",
            "User-Agent",
            "X-Retrieval-Dialect",
            "X-Request-Timeout-Ms",
        ] {
            get(&format!("/livez/{raw}")).header(name, &raw).ask(server.address);
            post("/retrieve", &body).header(name, &raw).ask(server.address);
        }
    }
    let (_, log) = server.stop();
    let steers = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    assert!(!log.contains(steers), "{:?}", log.chars().find(|c| steers(*c)));
    let events: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(events.len() >= asked, "{} lines for {asked} requests", events.len());
    assert!(events.iter().all(|event| event["event"] != "forged"));
    let lines = log.lines().filter(|line| line.starts_with('{')).count();
    assert_eq!(lines, events.len(), "every line that looks like an event is one");
}

/// Where a server's token could leak with the log: the log has neither headers nor queries.
#[test]
fn the_log_has_no_queries() {
    let bench = indexed();
    let server = Served::start(bench.command(&SERVE));
    post("/v1/search", &json!({"query": "a private matter"})).ask(server.address).expect(200);
    get("/v1/x/search?query=a%20private%20matter").ask(server.address).expect(200);
    let (_, log) = server.stop();
    assert!(log.contains("/v1/search") && !log.contains("private"), "{log}");
}

#[test]
fn a_certificate_that_is_none_is_refused_without_its_key() {
    let bench = indexed();
    let pem = |kind: &str, body: &str| format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
    bench.write("cert.pem", pem("CERTIFICATE", "AAAA"));
    bench.write("key.pem", pem("PRIVATE KEY", "c2VjcmV0"));
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let refused = bench.refused(&[&SERVE[..], &tls].concat(), 2, &["key.pem", "PEM"]);
    assert!(!refused.stderr.contains("c2VjcmV0"));
    bench.refused(&[&SERVE[..], &["--tls-cert", "cert.pem"]].concat(), 2, &["--tls-key"]);
}
