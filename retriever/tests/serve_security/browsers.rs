//! A page may ask where its origin is listed, by a name that is this server's.

use serde_json::json;

use crate::serve_api_support::http::{Answer, Request, exchange, get, post};
use crate::serve_api_support::{Server, Shelf, TOKEN, tokens};

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

fn preflight(server: &Server, path: &str, origin: &str) -> Answer {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    Request::new("OPTIONS", path).headers(&headers).ask(server.address)
}

fn cors(answer: &Answer) -> Vec<&str> {
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
