//! Who names a token may ask.

use hindsearch_retriever::serve::ServeOptions;

use serde_json::json;

use crate::serve_api_support::http::{Request, exchange, get, post};
use crate::serve_api_support::{Shelf, TOKEN, tokens};

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
