//! Bombs, smuggled requests and noise cost their own connection and no more.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve_api_support::http::{Request, exchange, get, post};
use crate::serve_api_support::{HARD_IDS, Server, Shelf, TOKEN, tokens};

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
