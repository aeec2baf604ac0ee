//! Who may ask, from where, and what hostile requests come to.
#![cfg(feature = "serve")]

mod serve_api_support;

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{ServeOptions, TlsFiles};
use rcgen::CertifiedKey;
use serde_json::{Value, json};
use serve_api_support::http::{Request, exchange, get, post, talk};
use serve_api_support::{HARD_IDS, Server, Shelf, TOKEN, tokens};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

/// Routes that want a token, with a request that they answer with 200.
fn protected() -> Vec<Request> {
    let search = json!({"query": "radium"});
    let mut requests = vec![
        post("/v1/search", &search),
        post("/v1/embeddings", &json!({"input": "x"})),
        post("/embed", &json!({"inputs": "x"})),
        post("/retrieve", &json!({"queries": ["x"]})),
        post("/search", &search),
        post("/dialect/search_r1/retrieve", &json!({"queries": ["x"]})),
    ];
    let paths = ["/v1/passages/plain", "/v1/models", "/v1/x/doc/plain", "/info", "/metrics", "/openapi.json"];
    requests.extend(paths.map(get));
    requests
}

#[test]
fn a_token_opens_the_door_and_nothing_else_does() {
    let shelf = Shelf::new();
    let second = "another-token";
    let server = shelf.serve(|options| {
        options.tokens = tokens();
        options.tokens.push(hindsearch_retriever::serve::Token::new(second).expect("a token"));
    });
    let bearer = |token: &str| format!("Bearer {token}");
    let (good, longer, prefix) = (bearer(TOKEN), bearer(&format!("{TOKEN}x")), bearer(&TOKEN[..TOKEN.len() - 1]));
    let (upper, doubled, listed) =
        (bearer(&TOKEN.to_uppercase()), bearer(&format!("{TOKEN}{TOKEN}")), bearer(&format!("{TOKEN},{second}")));
    let basic = "Basic czNjcmV0";
    let refused: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![("Authorization", "")],
        vec![("Authorization", "Bearer")],
        vec![("Authorization", "Bearer ")],
        vec![("Authorization", "Bearer x")],
        vec![("Authorization", &longer)],
        vec![("Authorization", &prefix)],
        vec![("Authorization", &upper)],
        vec![("Authorization", &doubled)],
        vec![("Authorization", &listed)],
        vec![("Authorization", TOKEN)],
        vec![("Authorization", basic)],
        vec![("Authorization", "Bearer \u{ff}\u{fe}")],
        vec![("Authorization", &good), ("Authorization", &good)],
        vec![("Authorization", "Bearer x"), ("Authorization", &good)],
        vec![("Authorization", &good), ("Authorization", "Bearer x")],
        vec![("Authorization", &good), ("X-Api-Key", TOKEN)],
        vec![("Authorization", basic), ("X-Api-Key", TOKEN)],
        vec![("X-Api-Key", "")],
        vec![("X-Api-Key", &good)],
        vec![("X-Api-Key", &TOKEN[1..])],
        vec![("Proxy-Authorization", &good)],
        vec![("Cookie", &good)],
    ];
    for request in protected() {
        for headers in &refused {
            let answer = request.clone().headers(headers).ask(server.address);
            answer.refuses(401, "unauthorized", &["token"]);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{headers:?}");
            assert!(!answer.text().contains(&TOKEN[..12]), "{}", answer.text());
        }
        for (name, value) in [
            ("Authorization", &*good),
            ("authorization", &good.replace("Bearer", "bearer")),
            ("AUTHORIZATION", &good.replace("Bearer", "BEARER")),
            ("Authorization", &bearer(second)),
            ("X-Api-Key", TOKEN),
        ] {
            assert_eq!(request.clone().header(name, value).ask(server.address).status, 200, "{request:?} {name}");
        }
    }
    for path in
        ["/", "/docs", "/pages/search.js", "/livez", "/readyz", "/health", "/healthz", "/dialect/research/health"]
    {
        assert_eq!(get(path).ask(server.address).status, 200, "{path} holds no data");
    }
    get("/none").ask(server.address).refuses(401, "unauthorized", &[]);
}

#[test]
fn a_token_is_never_shown() {
    let options = ServeOptions { tokens: tokens(), ..ServeOptions::default() };
    assert!(!format!("{options:?} {options:#?}").contains(&TOKEN[..6]));
    for bad in ["", "a b", "a\n", "ü", "a\u{7f}"] {
        let error = hindsearch_retriever::serve::Token::new(bad).expect_err("a refusal");
        assert!(bad.is_empty() || !format!("{error} {error:?}").contains(bad), "{error:?}");
    }
}

#[test]
fn no_way_of_writing_a_path_goes_around_the_token() {
    let shelf = Shelf::new();
    let server = shelf.serve(|options| options.tokens = tokens());
    let paths = [
        "/metrics",
        "//metrics",
        "/metrics/",
        "/./metrics",
        "/../metrics",
        "/livez/../metrics",
        "/livez/..%2fmetrics",
        "/livez%2f..%2fmetrics",
        "/livez/%2e%2e/metrics",
        "/livez/..;/metrics",
        "/livez;/../metrics",
        "/metrics;x",
        "/metrics;/livez",
        "/METRICS",
        "/Metrics",
        "/%6detrics",
        "/m%65trics",
        "/%256detrics",
        "/metrics%00",
        "/metrics%00/livez",
        "/metrics%20",
        "/metrics%0a",
        "/metrics%0d%0a",
        "/%2fmetrics",
        "/%2e/metrics",
        "/\\metrics",
        "/livez/..\\metrics",
        "/livez/..%5cmetrics",
        "/metrics?/livez",
        "/metrics?x=/health",
        "/metrics#/livez",
        "/metrics%23/livez",
        "/metrics%3f/livez",
        "/pages/../metrics",
        "/pages/..%2fmetrics",
        "/pages/%2e%2e%2fmetrics",
        "/pages/..%252fmetrics",
        "/pages/%2e%2e/metrics",
        "/pages//metrics",
        "/pages/search.js/../../metrics",
        "/docs/../metrics",
        "/docs/..%c0%afmetrics",
        "/docs//metrics",
        "/health/../info",
        "/health/..%2finfo",
        "/info",
        "/info/",
        "/%69nfo",
        "/info%2f",
        "/info;.js",
        "/info.css",
        "/openapi.json",
        "/openapi%2ejson",
        "/openapi.json/",
        "//openapi.json",
        "/v1/models",
        "/v1//models",
        "/v1/models/",
        "/v1/passages/plain",
        "/v1/passages//plain",
        "/v1/passages/%70lain",
        "/v1/%70assages/plain",
        "/v1/passages/../passages/plain",
        "/v1/x/doc/plain",
        "/v1/x/doc/health",
        "/v1/health",
        "/v1/../health/search?query=x",
        "/v1/x/search?query=radium",
        "/v1/health/search?query=radium&x=/health",
        "/dialect/pyserini/v1/x/search?query=radium",
        "/dialect/pyserini/v1/x/doc/plain",
        "/dialect/pyserini/v1/health",
        "/dialect/pyserini/v1/x/search?query=radium/health",
        "/dialect/search_r1/health/../../../metrics",
        "/dialect/search_r1/health/..%2f..%2f..%2fmetrics",
        "/dialect/none/health/../../metrics",
        "/dialect/../metrics",
        "/dialect/x/health",
    ];
    assert!(paths.len() >= 40);
    let secrets = ["hindsearch_requests", "\"operationId\"", "Radium", "max_client_batch_size", "owned_by"];
    for path in paths {
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            for target in [path.to_owned(), format!("http://localhost{path}")] {
                let host = if target.starts_with("http") { "localhost".to_owned() } else { server.address.to_string() };
                let request = Request::new(method, &target).header("Host", &host).body(r#"{"query":"radium"}"#);
                for answer in exchange(server.address, &request.bytes("")) {
                    assert!(answer.status >= 400, "{method} {target}: {} {}", answer.status, answer.text());
                    let text = answer.text();
                    assert!(!secrets.iter().any(|secret| text.contains(secret)), "{method} {target}: {text}");
                }
            }
        }
    }
    for header in
        ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-Forwarded-Path", "X-HTTP-Method-Override"]
    {
        let answer = get("/livez").header(header, "/metrics").ask(server.address);
        assert_eq!(answer.expect(200), json!({"status": "alive"}), "{header}");
        let answer =
            get("/metrics").header(header, "/livez").header("X-Forwarded-For", "127.0.0.1").ask(server.address);
        answer.refuses(401, "unauthorized", &[]);
    }
}

/// Values of Host, and whether they are served where `listed.example` is allowed.
const HOSTS: [(&str, bool); 32] = [
    ("localhost", true),
    ("LocalHost:8000", true),
    ("localhost:", true),
    ("127.0.0.1", true),
    ("127.0.0.1:80", true),
    ("127.8.9.10:65535", true),
    ("[::1]", true),
    ("[::1]:8000", true),
    ("listed.example", true),
    ("LISTED.example:8443", true),
    ("localhost.", false),
    ("listed.example.", false),
    ("sub.listed.example", false),
    ("listed.example.evil.example", false),
    ("evil.example", false),
    ("localhost.evil.example", false),
    ("127.0.0.1.evil.example:80", false),
    ("7f000001.rebind.example", false),
    ("evil@localhost", false),
    ("localhost@evil.example", false),
    ("localhost:80@evil.example", false),
    ("localhost:80:80", false),
    ("localhost:http", false),
    ("localhost evil.example", false),
    ("localhost,evil.example", false),
    ("0.0.0.0", false),
    ("10.0.0.1", false),
    ("[::]:80", false),
    ("[127.0.0.1]", false),
    ("::1", false),
    ("2130706433", false),
    ("", false),
];

#[test]
fn only_pages_of_listed_origins_may_ask_and_only_by_names_of_this_server() {
    let shelf = Shelf::new();
    let server = shelf.serve(|options| {
        options.hosts = vec!["listed.example".into()];
        options.origins = vec!["https://app.example".into(), "http://other.example:8080".into()];
    });
    let foreign = [
        "http://evil.example",
        "null",
        "",
        "http://localhost:1",
        "https://app.example.evil.example",
        "https://app.example:444",
        "http://app.example",
        "https://app.example/",
        "https://user@app.example",
        "http://other.example",
    ];
    for path in
        ["/livez", "/", "/info", "/v1/passages/plain", "/metrics", "/none", "/openapi.json", "/dialect/research/health"]
    {
        for (host, served) in HOSTS {
            let ask = |origin: Option<&str>| {
                let request = get(path).header("Host", host);
                origin.map_or(request.clone(), |origin| request.header("Origin", origin)).ask(server.address)
            };
            let expected = if path == "/none" { 404 } else { 200 };
            let (own, secure) = (format!("http://{host}"), format!("https://{host}"));
            for origin in [None, Some(&*own), Some("https://app.example"), Some("HTTP://Other.Example:8080")] {
                let answer = ask(origin);
                if !served {
                    answer.refuses(403, "forbidden", &["Host"]);
                    continue;
                }
                assert_eq!(answer.status, expected, "{host} {origin:?}: {}", answer.text());
                assert_eq!(answer.header("vary"), Some("origin"));
                let listed = origin.filter(|origin| *origin != own);
                assert_eq!(answer.header("access-control-allow-origin"), listed, "{host}");
                assert!(answer.header("access-control-allow-credentials").is_none());
            }
            for origin in foreign.into_iter().chain([&*secure]) {
                let answer = ask(Some(origin));
                answer.refuses(403, "forbidden", &[if served { "--allow-origin" } else { "Host" }]);
                assert!(answer.header("access-control-allow-origin").is_none(), "{host} {origin}");
            }
        }
    }
}

#[test]
fn one_host_is_named_and_no_other_address_is_asked_for() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for (target, hosts, served) in [
        ("/livez", vec!["localhost"], true),
        ("/livez", vec![], false),
        ("/livez", vec!["localhost", "localhost"], false),
        ("/livez", vec!["localhost", "evil.example"], false),
        ("/livez", vec!["evil.example", "localhost"], false),
        ("http://localhost/livez", vec!["localhost"], true),
        ("HTTP://LOCALHOST/livez", vec!["localhost"], true),
        ("http://localhost/livez", vec!["evil.example"], false),
        ("http://evil.example/livez", vec!["localhost"], false),
        ("http://evil.example/livez", vec!["evil.example"], false),
        ("http://evil@localhost/livez", vec!["localhost"], false),
        ("http://localhost:1/livez", vec!["localhost:2"], false),
        ("http://localhost/livez", vec![], false),
    ] {
        for version in ["1.1", "1.0"] {
            let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
            let request = format!("GET {target} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
            let answers = exchange(server.address, request.as_bytes());
            assert_eq!(answers.len(), 1, "{request}");
            // Load balancers ask in HTTP/1.0 without one.
            let balancer = version == "1.0" && hosts.is_empty();
            if served || balancer {
                assert_eq!(answers[0].status, 200, "{request}");
            } else {
                answers[0].refuses(403, "forbidden", &["Host"]);
            }
        }
    }
    let twice =
        get("/livez").headers(&[("Origin", "http://evil.example"), ("Origin", &format!("http://{}", server.address))]);
    twice.ask(server.address).refuses(403, "forbidden", &["Origin"]);
    assert_ne!(Request::new("CONNECT", "evil.example:80").ask(server.address).status, 200);
}

fn preflight(server: &Server, path: &str, origin: &str) -> serve_api_support::http::Answer {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    Request::new("OPTIONS", path).headers(&headers).ask(server.address)
}

fn cors(answer: &serve_api_support::http::Answer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

#[test]
fn a_browser_that_asks_first_is_told_whose_pages_may() {
    let shelf = Shelf::new();
    let closed = shelf.serve(|_| ());
    let open = shelf.serve(|options| {
        options.origins = vec!["https://app.example".into()];
        options.tokens = tokens();
    });
    for path in ["/v1/search", "/retrieve", "/metrics", "/livez", "/none"] {
        for origin in ["https://app.example", "https://evil.example", "null", &format!("http://{}", closed.address)] {
            let answer = preflight(&closed, path, origin);
            assert!(answer.status >= 400 && cors(&answer).is_empty(), "{path} {origin}: {answer:?}");
        }
        for origin in ["https://evil.example", "null", &format!("http://{}", open.address)] {
            let answer = preflight(&open, path, origin);
            assert!(answer.status >= 400 && cors(&answer).is_empty(), "{path} {origin}: {answer:?}");
        }
        let granted = preflight(&open, path, "https://app.example");
        assert_eq!((granted.status, granted.body.len()), (204, 0), "a browser sends no token with it");
        assert_eq!(granted.header("access-control-allow-origin"), Some("https://app.example"));
        assert!(granted.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
        let headers = granted.header("access-control-allow-headers").expect("headers");
        assert!(["authorization", "content-type", "x-request-id"].iter().all(|name| headers.contains(name)));
        assert!(granted.header("vary").is_some_and(|vary| vary.eq_ignore_ascii_case("origin")));
    }
    let asked = post("/v1/search", &json!({"query": "x"})).header("Origin", "https://app.example");
    let refused = asked.ask(open.address);
    refused.refuses(401, "unauthorized", &[]);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://app.example"), "the page can read why");
    let answer = asked.header("Authorization", &format!("Bearer {TOKEN}")).ask(open.address);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://app.example")));
    assert!(answer.header("access-control-expose-headers").is_some_and(|names| names.contains("x-request-id")));
}

#[test]
fn a_server_that_would_be_open_by_mistake_does_not_start() {
    let shelf = Shelf::new();
    let refused = |change: &dyn Fn(&mut ServeOptions), words: &[&str]| {
        let error = shelf.try_serve(change).err().expect("a refusal").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "no {words:?} in {error}");
    };
    for address in ["0.0.0.0:0", "[::]:0"] {
        let address = address.parse().expect("an address");
        refused(&|options| options.address = address, &["--token-file", "--insecure-no-auth"]);
    }
    for origin in
        ["*", "null", "", "app.example", "https://", "https://app.example/", "https://*.example", "https://a b"]
    {
        refused(&|options| options.origins = vec![origin.into()], &["--allow-origin", "https://example.org"]);
        refused(&|options| (options.origins, options.tokens) = (vec![origin.into()], tokens()), &["--allow-origin"]);
    }
    for host in ["", "*", "https://example.org", "example.org/", "a@example.org"] {
        refused(&|options| options.hosts = vec![host.into()], &["--allow-host"]);
    }
    let everybody: std::net::SocketAddr = "0.0.0.0:0".parse().expect("an address");
    for open in [
        shelf.serve(|options| (options.address, options.tokens) = (everybody, tokens())),
        shelf.serve(|options| (options.address, options.insecure_no_auth) = (everybody, true)),
    ] {
        let address = ([127, 0, 0, 1], open.address.port()).into();
        assert_eq!(get("/livez").ask(address).status, 200);
        assert_eq!(get("/livez").header("Host", "10.1.2.3:80").ask(address).status, 200, "an address of its own");
        get("/livez").header("Host", "evil.example").ask(address).refuses(403, "forbidden", &["--allow-host"]);
    }
}

/// What must be answered well after each attack.
#[track_caller]
fn still_serves(server: &Server) {
    let begun = Instant::now();
    post("/v1/search", &json!({"query": "radium"})).ask(server.address).expect(200);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn bodies_have_a_limit_and_the_client_is_told_so() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let limit = 16 << 20;
    let padded = |length: usize| {
        let body = r#"{"queries":["radium"]}"#;
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    assert_eq!(Request::new("POST", "/retrieve").body(padded(limit)).ask(server.address).status, 200);
    for length in [limit + 1, 40 << 20] {
        let body = padded(length);
        let answer = Request::new("POST", "/retrieve").body(&*body).ask(server.address);
        answer.refuses(413, "payload_too_large", &["16777216"]);
        let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
        let answer = Request::new("POST", "/retrieve").header("Transfer-Encoding", "chunked").body(chunked);
        answer.ask(server.address).refuses(413, "payload_too_large", &["16777216"]);
    }
    let waiting =
        Request::new("POST", "/retrieve").header("Expect", "100-continue").header("Content-Length", "99999999999");
    waiting.ask(server.address).refuses(413, "payload_too_large", &["16777216"]);
    still_serves(&server);
}

#[test]
fn who_is_refused_before_the_body_is_read_learns_why_nonetheless() {
    let shelf = Shelf::new();
    let server = shelf.serve(|options| options.tokens = tokens());
    let body = format!(r#"{{"queries":["x"]}}{}"#, " ".repeat(12 << 20));
    let ask = |path: &str| Request::new("POST", path).body(&*body);
    let known = |path: &str| ask(path).header("Authorization", &format!("Bearer {TOKEN}"));
    ask("/retrieve").ask(server.address).refuses(401, "unauthorized", &[]);
    ask("/retrieve").header("Host", "evil.example").ask(server.address).refuses(403, "forbidden", &[]);
    known("/none").ask(server.address).refuses(404, "not_found", &[]);
    known("/readyz").ask(server.address).refuses(405, "method_not_allowed", &[]);
    assert_eq!(known("/retrieve").ask(server.address).status, 200);
}

#[test]
fn json_bombs_are_refused() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let nested = |depth: usize| format!(r#"{{"queries":["x"],"more":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let ask = |body: String| Request::new("POST", "/retrieve").body(body).ask(server.address);
    assert_eq!(ask(nested(63)).status, 200, "64 deep with the object around");
    ask(nested(64)).refuses(400, "malformed", &["64"]);
    for path in
        ["/retrieve", "/v1/search", "/v1/embeddings", "/embed", "/rerank", "/access", "/queries", "/batch_search"]
    {
        for bomb in ["[", "{\"\":", "[{\"\":[", "[[],"] {
            let body = bomb.repeat(1_000_000 / bomb.len());
            let answer = Request::new("POST", path).body(body).ask(server.address);
            assert!((400..500).contains(&answer.status), "{path} {bomb}: {}", answer.text());
        }
    }
    let brackets = json!({"queries": ["[{".repeat(1000), "\\\"[[["]}).to_string();
    assert_eq!(ask(brackets).status, 200, "brackets in a text are text");
    for bomb in ["[],", "{\"\":0},"] {
        let body = format!("{{\"queries\":[\"x\"],\"more\":[{}0]}}", bomb.repeat(15_000_000 / bomb.len()));
        ask(body).refuses(413, "payload_too_large", &["values"]);
    }
    let dimensions = shelf.open().embedder().dimensions();
    let vectors = json!({"vectors": vec![vec![0.5; dimensions]; 4096], "top_k": 1, "fields": []});
    assert_eq!(post("/v1/search", &vectors).ask(server.address).status, 200, "as many as are allowed");
    still_serves(&server);
}

#[test]
fn json_that_can_be_read_in_two_ways_is_read_in_one() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let ask = |body: &[u8]| Request::new("POST", "/v1/search").body(body).ask(server.address);
    let hits = |body: &[u8]| ask(body).expect(200)["results"].clone();
    let plain = hits(br#"{"query":"radium"}"#);
    assert_eq!(hits(br#"{"query":"a river bridge","query":"radium"}"#), plain, "the last of two counts, as in Python");
    assert_eq!(hits(b"\xef\xbb\xbf {\"query\":\"radium\"}\r\n"), plain, "a byte order mark is none of JSON");
    assert_eq!(hits(br#"{"\u0071uery":"r\u0061dium"}"#), plain);
    assert_eq!(ask(br#"{"query":"\u0000\u001b[31m\ud83d\ude00"}"#).status, 200);
    for broken in [
        &br#"{"query":"\ud800"}"#[..],
        br#"{"query":"\udc00x"}"#,
        br#"{"query":"\ud800\ud800"}"#,
        b"{\"query\":\"\xff\"}",
        b"{\"query\":\"\xc0\xaf\"}",
        b"{\"query\":\"\xed\xa0\x80\"}",
        b"{\"query\":\"a\nb\"}",
        br#"{"query":"x"}x"#,
        br#"{"query":"x"}{"query":"y"}"#,
        br#"{"query":"x",}"#,
        br#"{'query':'x'}"#,
        br#"{"query":"x""#,
        br#"{"vectors":[[NaN]]}"#,
        br#"{"vectors":[[Infinity]]}"#,
        br#"{"vectors":[[1e999]]}"#,
        br#"{"query":"x","top_k":00003}"#,
        b"\0",
        b"\x1f\x8b\x08\x00",
        b"query=x",
    ] {
        let answer = ask(broken);
        answer.refuses(422, "invalid_input", &["JSON"]);
        assert!(answer.body.len() < 1000);
    }
    ask(b"").refuses(422, "invalid_input", &["empty"]);
    still_serves(&server);
}

#[test]
fn messagepack_bombs_are_refused() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let ask = |body: Vec<u8>| Request::new("POST", "/dialect/gem/retrieve").body(body).ask(server.address);
    let field = |value: &[u8]| [&b"\x82\xa5query\xa1x\xa4more"[..], value].concat();
    for header in [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff",
    ] {
        for body in [header.to_vec(), field(header), [&header[..], &[0xc0; 100_000]].concat()] {
            ask(body).refuses(422, "invalid_input", &[]);
        }
    }
    for nested in [b"\x91".repeat(500_000), b"\x81\xa1a".repeat(300_000), b"\xdd\xff\xff\xff\xff".repeat(200_000)] {
        assert!([400, 422].contains(&ask(nested.clone()).status));
        assert!([400, 422].contains(&ask(field(&nested)).status));
    }
    ask(field(&[&b"\xdd\x00\xff\xff\xff"[..], &[0xc0; 2 << 20]].concat())).refuses(
        413,
        "payload_too_large",
        &["MessagePack"],
    );
    for broken in [
        &b""[..],
        b"\xc1",
        b"\xc0",
        b"\x90",
        b"\x81\xa5query",
        b"\x81\xa5query\x07",
        b"\x81\xa5query\xa2\xff\xfe",
        b"\x81\xc0\xc0",
    ] {
        let answer = ask(broken.to_vec());
        answer.refuses(422, "invalid_input", &[]);
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    let good = b"\x82\xa5query\xa6radium\x01\x02".to_vec();
    assert_eq!(ask(good).status, 200, "keys that are no text are nobody's field");
    still_serves(&server);
}

#[test]
fn requests_within_requests_are_not_answered() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let (head, body) = ("POST /v1/search HTTP/1.1\r\nHost: localhost\r\n", r#"{"query":"x"}"#);
    let hidden = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let chunk = format!("d\r\n{body}\r\n0\r\n\r\n");
    for (headers, body) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", &*chunk),
        ("Transfer-Encoding: chunked\r\nContent-Length: 6", &chunk),
        ("Content-Length: 13\r\nContent-Length: 0", body),
        ("Content-Length: 0\r\nContent-Length: 13", body),
        ("Content-Length: 13, 13", body),
        ("Content-Length: 0, 13", body),
        ("Content-Length: +13", body),
        ("Content-Length: -1", body),
        ("Content-Length: 0x0d", body),
        ("Content-Length: 18446744073709551629", body),
        ("Content-Length : 13", body),
        ("Content-Length: 13\r\n folded: 1", body),
        ("Transfer-Encoding: xchunked", &chunk),
        ("Transfer-Encoding: chunked, identity", &chunk),
        ("Transfer-Encoding: gzip, chunked", &chunk),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", &chunk),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", &chunk),
        ("Transfer-Encoding: \x0bchunked", &chunk),
        ("Transfer-Encoding: chunked", "-d\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "d\n{\"query\":\"x\"}\r\n0\r\n\r\n"),
    ] {
        let answers = exchange(server.address, format!("{head}{headers}\r\n\r\n{body}{hidden}").as_bytes());
        assert!(answers.len() <= 1, "{headers:?}: {answers:?}");
        assert!(answers.iter().all(|answer| !answer.text().contains("alive")), "{headers:?}: {answers:?}");
    }
    let inside =
        format!("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{hidden}{hidden}", hidden.len());
    assert_eq!(exchange(server.address, inside.as_bytes()).len(), 2, "the body of a GET is a body");
    still_serves(&server);
}

#[test]
fn heads_have_a_limit() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    assert_eq!(get("/livez").header("X", &"a".repeat(32 << 10)).ask(server.address).status, 200);
    let many: String = (0..1000).map(|number| format!("X-{number}: x\r\n")).collect();
    for (head, statuses) in [
        (format!("X: {}\r\n", "a".repeat(100_000)), &[200, 431][..]),
        (format!("X: {}\r\n", "a".repeat(300_000)), &[431]),
        (format!("X: {}\r\n", "a".repeat(10_000_000)), &[431]),
        (many, &[431]),
    ] {
        let request = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n");
        // A client that is cut off while it sends may lose the answer.
        for answer in exchange(server.address, request.as_bytes()) {
            assert!(statuses.contains(&answer.status), "{} bytes: {}", head.len(), answer.status);
            if answer.status == 431 {
                answer.refuses(431, "head_too_large", &["64 KiB", "100 fields"]);
            }
        }
        still_serves(&server);
    }
    get(&format!("/livez?{}", "a".repeat(65_600))).ask(server.address).refuses(414, "uri_too_long", &["65,534"]);
    let request = get(&format!("/livez?{}", "a".repeat(300_000))).bytes("localhost");
    assert!(exchange(server.address, &request).iter().all(|answer| [414, 431].contains(&answer.status)));
    still_serves(&server);
}

#[test]
fn what_is_not_http_costs_a_connection_and_no_more() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for noise in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET  /livez  HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /li\0vez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX\0: 1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: local\0host\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n\r\n",
    ] {
        let answers = exchange(server.address, noise);
        assert_eq!(answers.len(), 1, "{noise:?}: {answers:?}");
        answers[0].refuses(400, "malformed", &[]);
        // Behind requests that can be read, too.
        let alive = get("/livez").header("Connection", "keep-alive").bytes("localhost");
        let answers = exchange(server.address, &[&alive[..], &alive[..], noise].concat());
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 400], "{noise:?}");
        answers[2].refuses(400, "malformed", &["HTTP/1.1"]);
    }
    assert!(exchange(server.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").is_empty(), "nobody there reads HTTP/1.1");
    still_serves(&server);
}

/// Hostile text goes in and comes out as it is, as JSON; never as anything that a browser would run.
#[test]
fn hostile_text_is_data() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let query = "<script>alert(1)</script>\u{202e}\u{1b}]0;x\u{7}\r\nX-Injected: 1";
    for request in [
        post("/v1/search", &json!({"query": query, "top_k": 60})),
        post("/dialect/rllm/retrieve", &json!({"query": query, "top_k": 60})),
        post("/queries", &json!({"queries": [query], "k": 60})),
    ] {
        let answer = request.ask(server.address);
        let body: Value = answer.expect(200);
        let hostile = json!(HARD_IDS[7]).to_string();
        assert!(body.to_string().contains(hostile.trim_matches('"').trim_end_matches('\\')), "{body}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.header("x-injected").is_none());
    }
    for path in ["/%3Cscript%3Ealert(1)%3C/script%3E", "/%0d%0aX-Injected:%201", "/v1/passages/%0d%0aX-Injected:%201"] {
        let answer = get(path).ask(server.address);
        answer.refuses(404, "not_found", &[]);
        assert!(answer.header("x-injected").is_none());
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

type Certificate = CertifiedKey<rcgen::KeyPair>;

fn certificate() -> Certificate {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
}

fn write(files: &TlsFiles, certificate: &str, key: &str) {
    std::fs::write(&files.certificate, certificate).expect("a file");
    std::fs::write(&files.key, key).expect("a file");
}

fn files(shelf: &Shelf, certificate: &Certificate) -> TlsFiles {
    let files = TlsFiles { certificate: shelf.path("cert.pem"), key: shelf.path("key.pem") };
    write(&files, &certificate.cert.pem(), &certificate.signing_key.serialize_pem());
    files
}

/// A client that trusts these certificates alone.
fn trusting(certificates: &[&Certificate], versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    certificates.iter().for_each(|one| roots.add(one.cert.der().clone()).expect("a certificate"));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).expect("versions");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Who comes back by a ticket is shown no certificate.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The status of `/livez` over TLS, and the certificate that was shown.
fn live_over_tls(server: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<(u16, CertificateDer<'static>)> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection, stream);
    let answers = talk(&mut stream, &get("/livez").bytes("localhost"));
    let shown = stream.conn.peer_certificates().and_then(|chain| chain.first()).cloned();
    answers.first().map(|answer| answer.status).zip(shown).ok_or_else(|| std::io::Error::other("no answer"))
}

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

#[test]
fn tls_is_spoken_from_1_2_on_and_nothing_else_on_its_port() {
    let shelf = Shelf::new();
    let (own, other) = (certificate(), certificate());
    let server = shelf.serve(|options| options.tls = Some(files(&shelf, &own)));
    for versions in [&BOTH[..1], &BOTH[1..], &BOTH] {
        let (status, shown) = live_over_tls(server.address, &trusting(&[&own], versions)).expect("an answer");
        assert_eq!((status, &shown), (200, own.cert.der()));
    }
    assert!(live_over_tls(server.address, &trusting(&[&other], &BOTH)).is_err(), "another certificate is not shown");
    // The same ClientHello for TLS 1.2, 1.1 and 1.0.
    for minor in [3, 2, 1] {
        let extensions =
            b"\x00\x0d\x00\x06\x00\x04\x04\x03\x08\x04\x00\x0a\x00\x04\x00\x02\x00\x1d\x00\x0b\x00\x02\x01\x00";
        let suites = b"\x00\x00\x06\xc0\x2b\xc0\x09\x00\x2f\x01\x00\x00\x18";
        let body = [&[3, minor][..], &[7; 32], suites, extensions].concat();
        let hello = [&[0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8][..], &body].concat();
        let received = send(server.address, &hello);
        if minor == 3 {
            assert_eq!(received.first(), Some(&0x16), "a handshake: {received:?}");
        } else {
            assert_eq!(received.first(), Some(&0x15), "an alert: {received:?}");
            assert_eq!(received.get(5..), Some(&[2, 70][..]), "fatal, for the version: {received:?}");
        }
    }
    let received = send(server.address, &get("/livez").bytes("localhost"));
    assert!(!received.starts_with(b"HTTP/") && !String::from_utf8_lossy(&received).contains("alive"), "{received:?}");
    // Who connects and says nothing keeps nobody waiting.
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    live_over_tls(server.address, &trusting(&[&own], &BOTH)).expect("an answer");
    drop(silent);
}

/// What comes back for these bytes.
fn send(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(server).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    stream.write_all(bytes).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let mut received = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut received);
    received
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let shelf = Shelf::new();
    let (own, other) = (certificate(), certificate());
    let files = files(&shelf, &own);
    let (pem, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let refused = |certificate: &str, key: &str, named: &Path, words: &[&str]| {
        write(&files, certificate, key);
        let error = shelf.try_serve(|options| options.tls = Some(files.clone())).err().expect("a refusal").to_string();
        assert!(error.contains(&named.display().to_string()), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "no {words:?} in {error}");
        let secret: String = key.lines().skip(1).take(1).collect();
        assert!(secret.is_empty() || !error.contains(&secret), "the key is shown: {error}");
    };
    refused(&pem, &other.signing_key.serialize_pem(), &files.key, &["another certificate"]);
    refused("", &key, &files.certificate, &["no certificate"]);
    refused(&key, &key, &files.certificate, &["no certificate"]);
    refused(&pem, "", &files.key, &["no private key"]);
    refused(&pem, &pem, &files.key, &["no private key"]);
    refused(&pem, &key.replace("MI", "!!"), &files.key, &["no private key"]);
    refused(&pem.replacen("MI", "!!", 1), &key, &files.certificate, &[]);
    refused(&format!("{}\n{pem}", pem.replacen("MI", "MA", 1)), &key, &files.key, &[]);
    let missing = TlsFiles { certificate: PathBuf::from("nowhere.pem"), ..files.clone() };
    let error = shelf.try_serve(|options| options.tls = Some(missing)).err().expect("a refusal").to_string();
    assert!(error.contains("nowhere.pem"), "{error}");
}

/// Ends the clients, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_certificate_is_renewed_without_a_dropped_request() {
    let shelf = Shelf::new();
    let (old, new) = (certificate(), certificate());
    let files = files(&shelf, &old);
    let server = shelf.serve(|options| options.tls = Some(files.clone()));
    let (config, stop) = (trusting(&[&old, &new], &BOTH), AtomicBool::new(false));
    let shown = |wanted: &Certificate| {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let (status, shown) = live_over_tls(server.address, &config).expect("an answer");
            assert_eq!(status, 200);
            if shown == *wanted.cert.der() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    let asked: usize = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let ask = || {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                let (status, _) = live_over_tls(server.address, &config).expect("an answer");
                assert_eq!(status, 200);
                asked += 1;
            }
            asked
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        assert!(shown(&old));
        // Half of a renewal, and a bad one, change nothing.
        std::fs::write(&files.certificate, new.cert.pem()).expect("a file");
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(live_over_tls(server.address, &config).expect("an answer").1, *old.cert.der());
        std::fs::write(&files.key, "not a key").expect("a file");
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(live_over_tls(server.address, &config).expect("an answer").1, *old.cert.der());
        write(&files, &new.cert.pem(), &new.signing_key.serialize_pem());
        assert!(shown(&new), "the new certificate is not shown");
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no request was dropped")).sum()
    });
    assert!(asked > 100, "only {asked} requests ran meanwhile");
}
