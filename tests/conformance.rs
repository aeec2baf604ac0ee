//! The recorded exchanges of other servers' clients, replayed against the program; and every route, asked.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_api_support/http.rs"]
mod http;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::server::Served;
use common::template::Corpus;
use common::{Bench, root};
use hindsearch::retriever::serve::{DIALECTS, Verb};
use http::{Answer, Request, get};
use serde_json::Value;

const CORPUS: &str = "examples/data/corpus.jsonl";

/// A server of everything, with a port for each dialect.
fn serve(bench: &Bench, configure: impl Fn(&mut std::process::Command)) -> Served {
    let mut arguments =
        vec!["serve", "index", "--port", "0", "--json", "--derive-urls", "--top-k", "3", "--no-access-log"];
    let ports: Vec<String> = DIALECTS.iter().map(|dialect| format!("0={}", dialect.name)).collect();
    arguments.extend(ports.iter().flat_map(|port| ["--listen", port.as_str()]));
    let mut command = bench.command(&arguments);
    configure(&mut command);
    Served::start(command)
}

/// The sample corpus with the model of `make setup`.
fn sample() -> (Bench, Served) {
    let bench = Bench::new();
    let mut build = bench.command(&["build", &root().join(CORPUS).display().to_string(), "--out", "index"]);
    let built = build.env_remove("HINDSEARCH_MODEL_SOURCE").output().expect("the program starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let server = serve(&bench, |command| {
        command.env_remove("HINDSEARCH_MODEL_SOURCE");
    });
    (bench, server)
}

/// A small index, where only the routes matter.
fn small() -> (Bench, Served) {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 60);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    let server = serve(&bench, |_| ());
    (bench, server)
}

/// What a client sends and what must come back.
struct Exchange {
    name: String,
    dialect: Option<String>,
    request: Value,
    status: u16,
    content_type: String,
    response: Value,
}

/// All that are recorded, by file.
fn exchanges() -> BTreeMap<String, Vec<Exchange>> {
    let entries = std::fs::read_dir(root().join("tests/dialects")).expect("the folder").flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let list: Vec<Value> = serde_json::from_str(&text).expect("JSON");
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let exchange = |entry: Value| Exchange {
                name: format!("{file}: {}", entry["name"].as_str().expect("a name")),
                dialect: entry["dialect"].as_str().map(str::to_owned),
                status: entry["status"].as_u64().expect("a status") as u16,
                content_type: entry["content_type"].as_str().unwrap_or("application/json").into(),
                request: entry["request"].clone(),
                response: entry["response"].clone(),
            };
            (file.clone(), list.into_iter().map(exchange).collect())
        })
        .collect()
}

impl Exchange {
    fn path(&self) -> &str {
        self.request["path"].as_str().expect("a path")
    }

    fn request(&self, path: &str) -> Request {
        let request = &self.request;
        let body = match (&request["body"], &request["body_text"], &request["body_msgpack_base64"]) {
            (Value::Null, Value::Null, Value::Null)
                if !self.request.as_object().expect("a map").contains_key("body") =>
            {
                Vec::new()
            }
            (body, Value::Null, Value::Null) => body.to_string().into_bytes(),
            (Value::Null, Value::String(text), Value::Null) => text.clone().into_bytes(),
            (Value::Null, Value::Null, Value::String(text)) => BASE64_STANDARD.decode(text).expect("Base64"),
            other => panic!("{}: more than one body: {other:?}", self.name),
        };
        let method = request["method"].as_str().expect("a method");
        let headers = request["headers"].as_object().expect("headers").iter();
        // The connection is the test's own.
        let headers = headers.filter(|(name, _)| !name.eq_ignore_ascii_case("connection"));
        let headers: Vec<(&str, &str)> =
            headers.map(|(name, value)| (name.as_str(), value.as_str().expect("text"))).collect();
        Request::new(method, path).headers(&headers).body(body)
    }

    /// What is wrong with the answer.
    fn judge(&self, answer: &Answer, corpus: &Corpus) -> Result<(), String> {
        if answer.status != self.status {
            return Err(format!("expected status {}, found {}: {}", self.status, answer.status, answer.text()));
        }
        let kind = answer.header("content-type").unwrap_or_default();
        if kind.split(';').next() != Some(&self.content_type) {
            return Err(format!("expected {}, found {kind}", self.content_type));
        }
        let body = if self.content_type == "application/msgpack" {
            let value = rmpv::decode::read_value(&mut answer.body.as_slice()).map_err(|error| error.to_string())?;
            plain(&value)
        } else {
            serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?
        };
        corpus.check(&self.response, &body)
    }
}

#[test]
fn every_recorded_exchange_is_answered_as_its_client_needs() {
    let (_bench, server) = sample();
    let corpus = Corpus::read(&root().join(CORPUS));
    let (mut replayed, mut wrong) = (0, Vec::new());
    for (file, exchange) in exchanges().iter().flat_map(|(file, list)| list.iter().map(move |e| (file, e))) {
        let path = exchange.path();
        // Whoever knows the dialect may name it though the body tells it.
        let named = exchange.dialect.as_ref().or_else(|| DIALECTS.iter().any(|d| d.name == file).then_some(file));
        let mut ways = Vec::new();
        if exchange.dialect.is_none() {
            ways.push(("default", exchange.request(path), server.address));
        }
        if let Some(name) = named {
            ways.push(("prefix", exchange.request(&format!("/dialect/{name}{path}")), server.address));
            ways.push(("port", exchange.request(path), server.dialects[name]));
        }
        if let Some(name) = &exchange.dialect {
            ways.push(("header", exchange.request(path).header("X-Retrieval-Dialect", name), server.address));
        }
        for (way, request, address) in ways {
            replayed += 1;
            if let Err(fault) = exchange.judge(&request.ask(address), &corpus) {
                wrong.push(format!("{} ({way}): {fault}", exchange.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {replayed} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(replayed >= 400, "only {replayed} exchanges were found");
}

#[test]
fn every_dialect_has_a_recorded_exchange() {
    let exchanges = exchanges();
    for dialect in DIALECTS {
        let recorded = exchanges.get(dialect.name).map_or(0, |list| list.iter().filter(|e| e.status == 200).count());
        assert!(recorded > 0, "nothing is recorded in tests/dialects/{}.json", dialect.name);
        for operation in dialect.operations {
            let path = operation.path.split_once("/{").map_or(operation.path, |(path, _)| path);
            let asked = exchanges[dialect.name].iter().any(|exchange| exchange.path().starts_with(path));
            assert!(asked, "{}: no exchange for {path}", dialect.name);
        }
    }
}

/// MessagePack as JSON.
fn plain(value: &rmpv::Value) -> Value {
    match value {
        rmpv::Value::Map(entries) => {
            entries.iter().map(|(key, value)| (key.as_str().expect("text").to_owned(), plain(value))).collect()
        }
        rmpv::Value::Array(items) => items.iter().map(plain).collect(),
        other => serde_json::to_value(other).expect("a plain value"),
    }
}

/// The routes of our own that clients are told of.
const OWN: [(&str, &str); 16] = [
    ("post", "/v1/search"),
    ("get", "/v1/passages/{id}"),
    ("post", "/v1/embeddings"),
    ("get", "/v1/models"),
    ("post", "/embed"),
    ("get", "/info"),
    ("get", "/health"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/livez"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/docs"),
    ("get", "/"),
    ("get", "/pages/{file}"),
    ("post", "/retrieve"),
];

/// The routes of episodes, each with what it answers to nothing: GET without parameters, POST with `{}`.
const EPISODES: [(&str, &str, u16); 32] = [
    ("get", "/env/v1", 200),
    ("post", "/env/v1/reset", 422),
    ("post", "/env/v1/step", 422),
    ("post", "/env/v1/transition", 422),
    ("post", "/env/v1/score", 422),
    ("post", "/env/v1/close", 422),
    ("get", "/env/v1/presets", 200),
    ("get", "/env/v1/tasks", 200),
    ("post", "/hindsight/v1/critique", 422),
    ("post", "/hindsight/v1/block", 422),
    ("post", "/hindsight/v1/align", 422),
    ("post", "/openenv/reset", 200),
    ("post", "/openenv/step", 422),
    ("get", "/openenv/state", 200),
    ("get", "/openenv/schema", 200),
    ("get", "/openenv/metadata", 200),
    ("get", "/openenv/health", 200),
    // It wants an upgrade.
    ("get", "/openenv/ws", 422),
    ("post", "/seed_session", 200),
    ("post", "/search_passages", 422),
    ("post", "/verify", 422),
    ("post", "/reset", 200),
    ("post", "/step", 422),
    ("post", "/aggregate_metrics", 422),
    ("post", "/nemo-gym/seed_session", 200),
    ("post", "/nemo-gym/search_passages", 422),
    ("post", "/nemo-gym/search", 422),
    ("post", "/nemo-gym/verify", 422),
    ("post", "/nemo-gym/reset", 200),
    ("post", "/nemo-gym/step", 422),
    ("post", "/nemo-gym/aggregate_metrics", 422),
    ("post", "/get_observation", 422),
];

#[test]
fn every_route_is_described_and_answers() {
    let (_bench, server) = small();
    let description = get("/openapi.json").ask(server.address).expect(200);
    let paths = description["paths"].as_object().expect("paths");
    let mut expected: Vec<(String, String)> = OWN.map(|(verb, path)| (verb.into(), path.into())).to_vec();
    for dialect in DIALECTS {
        for operation in dialect.operations {
            let verb = if operation.verb == Verb::Get { "get" } else { "post" };
            // OpenAPI knows no rest of a path.
            let paths = match operation.path {
                "/v1/{*rest}" => vec!["/v1/{index}/search", "/v1/{index}/doc/{docid}"],
                path => vec![path],
            };
            for path in paths {
                expected.push((verb.into(), format!("/dialect/{}{path}", dialect.name)));
                if operation.on_default {
                    expected.push((verb.into(), path.into()));
                }
            }
        }
        expected.push(("get".into(), format!("/dialect/{}/health", dialect.name)));
    }
    let episodes = EPISODES.iter().map(|(verb, path, _)| ((*verb).to_owned(), (*path).to_owned()));
    expected.extend(episodes);
    for (verb, path) in &expected {
        assert!(paths.get(path).is_some_and(|path| path.get(verb).is_some()), "{verb} {path} is not described");
    }
    for (path, operations) in paths {
        for (verb, operation) in operations.as_object().expect("operations") {
            assert!(expected.contains(&(verb.clone(), path.clone())), "{verb} {path} is not expected");
            let target = path.replace("{id}", "0").replace("{docid}", "0").replace("{file}", "search.js");
            let target = target.replace("{index}/search", "x/search?query=x").replace("{index}", "x");
            let request = Request::new(&verb.to_uppercase(), &target);
            let request = if verb == "post" { request.body("{}") } else { request };
            let answer = request.ask(server.address);
            let status = answer.status.to_string();
            assert!(operation["responses"].get(&status).is_some(), "{verb} {path}: {status} is not described");
            let episodes = EPISODES.iter().find(|(known, route, _)| verb == known && path == route);
            let expected = episodes.map_or(if verb == "get" { 200 } else { 422 }, |(.., status)| *status);
            // Its server tells with status 200 that no query is given.
            let told = path == "/dialect/rllm_documents/retrieve" && answer.status == 200;
            assert!(answer.status == expected || told, "{verb} {path}: {status} {}", answer.text());
        }
    }
}

#[test]
fn a_port_of_a_dialect_speaks_that_dialect_alone() {
    let (_bench, server) = small();
    for dialect in DIALECTS {
        let address = server.dialects[dialect.name];
        assert_eq!(get("/health").ask(address).status, 200);
        get("/v1/models/none").ask(address).refuses(404, "not_found", &[]);
        let other = if dialect.name == "research" { "/queries" } else { "/batch_search" };
        http::post(other, &serde_json::json!({"query": ["x"]})).ask(address).refuses(404, "not_found", &[other]);
    }
}
