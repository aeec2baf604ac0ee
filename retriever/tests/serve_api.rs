//! What our own interface, OpenAI's and TEI's promise over HTTP.
#![cfg(feature = "serve")]

mod serve_api_support;

use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hindsearch_indexes::SearchParams;
use hindsearch_retriever::embed::InputKind;
use hindsearch_retriever::serve::openapi;
use hindsearch_retriever::{Ranked, Retriever};
use serde_json::{Value, json};
use serve_api_support::http::{Request, get, post};
use serve_api_support::{HARD_IDS, ROWS, Server, Shelf};

const QUERIES: [&str; 4] = ["Who discovered radium?", "a river bridge", "", "Zażółć \u{0}\u{1b}[31m \"gęślą\"\n😀"];

fn search(server: &Server, body: Value) -> serve_api_support::http::Answer {
    post("/v1/search", &body).ask(server.address)
}

/// Each result's hits.
fn hits(answer: &Value) -> Vec<Vec<Value>> {
    let results = answer["results"].as_array().expect("results").iter();
    results.map(|result| result["hits"].as_array().expect("hits").clone()).collect()
}

fn ids(hits: &[Value]) -> Vec<String> {
    hits.iter().map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect()
}

/// What the index itself says.
fn directly(retriever: &Retriever, queries: &[&str], top_k: usize) -> Vec<Vec<Ranked>> {
    retriever.retrieve_texts(queries, &SearchParams::top(top_k)).expect("an answer")
}

#[test]
fn a_search_is_what_the_index_itself_finds() {
    let shelf = Shelf::new();
    let (server, retriever) = (shelf.serve(|_| ()), shelf.open());
    let fields = ["id", "row", "score", "title", "text", "contents", "url"];
    for top_k in [1, 5, ROWS, 1000] {
        let answer = search(&server, json!({"queries": QUERIES, "top_k": top_k, "fields": fields})).expect(200);
        let expected = directly(&retriever, &QUERIES, top_k);
        assert_eq!(hits(&answer).len(), QUERIES.len());
        for (found, expected) in hits(&answer).iter().zip(&expected) {
            assert_eq!(found.len(), top_k.min(ROWS));
            for (hit, ranked) in found.iter().zip(expected) {
                let passage = &ranked.passage;
                let title = passage.title.as_ref().map(|_| passage.display_title());
                assert_eq!(hit["id"], json!(passage.id));
                assert_eq!(hit["row"], json!(ranked.row));
                assert_eq!(hit["title"], json!(title));
                assert_eq!(hit["text"], json!(passage.text));
                assert_eq!(hit["contents"], json!(passage.contents()));
                assert_eq!(hit["url"], Value::Null);
                let score = hit["score"].as_f64().expect("a score");
                assert!((score - f64::from(ranked.score)).abs() < 1e-6, "{score} {}", ranked.score);
            }
        }
        let index = &answer["index"];
        assert_eq!((&index["rows"], &index["generation"]), (&json!(ROWS), &json!(1)));
        assert_eq!(index["corpus"], json!(retriever.corpus().summary().blake3));
        assert_eq!(index["model"], json!(retriever.embedder().card().id));
        assert_eq!(index["fingerprint"], json!(retriever.embedder().fingerprint().queries.blake3));
        for stage in ["queue_ms", "embed_ms", "search_ms", "total_ms"] {
            assert!(answer["timings"][stage].as_f64().is_some_and(|ms| ms >= 0.0), "{stage}: {answer}");
        }
    }
}

#[test]
fn one_query_many_queries_and_their_vectors_are_the_same_search() {
    let shelf = Shelf::new();
    let (server, retriever) = (shelf.serve(|options| options.top_k = 4), shelf.open());
    let many = hits(&search(&server, json!({"queries": QUERIES})).expect(200));
    let vectors = retriever.embedder().embed(&QUERIES, InputKind::Query).expect("vectors");
    let vectors: Vec<&[f32]> = vectors.rows().collect();
    let by_vector = hits(&search(&server, json!({"vectors": vectors})).expect(200));
    assert_eq!(
        by_vector.iter().map(|hits| ids(hits)).collect::<Vec<_>>(),
        many.iter().map(|hits| ids(hits)).collect::<Vec<_>>()
    );
    for (query, expected) in QUERIES.iter().zip(&many) {
        let one = search(&server, json!({"query": query})).expect(200);
        assert_eq!(ids(&hits(&one)[0]), ids(expected));
        assert_eq!(expected.len(), 4, "the server's own number");
        let keys: HashSet<&str> = expected[0].as_object().expect("a hit").keys().map(String::as_str).collect();
        assert_eq!(keys, HashSet::from(["id", "title", "text", "score"]));
    }
    for nothing in [json!({"queries": []}), json!({"vectors": []})] {
        assert_eq!(search(&server, nothing).expect(200)["results"], json!([]));
    }
}

#[test]
fn a_hit_shows_the_fields_that_were_asked_for_and_no_others() {
    let shelf = Shelf::new();
    let server = shelf.serve(|options| options.derive_urls = true);
    for field in ["id", "row", "score", "title", "text", "contents", "url"] {
        let answer = search(&server, json!({"query": "radium", "top_k": ROWS, "fields": [field, field]})).expect(200);
        for hit in &hits(&answer)[0] {
            assert_eq!(hit.as_object().expect("a hit").keys().collect::<Vec<_>>(), [field]);
        }
    }
    let bare = search(&server, json!({"query": "radium", "top_k": 2, "fields": []})).expect(200);
    assert_eq!(hits(&bare)[0], [json!({}), json!({})]);
    let answer = search(&server, json!({"query": "radium", "top_k": ROWS, "fields": ["id", "title", "url"]}));
    let found = &hits(&answer.expect(200))[0];
    let of = |id: &str| found.iter().find(|hit| hit["id"] == id).expect("a hit");
    assert_eq!(of("plain")["title"], "Radium");
    assert_eq!(of("plain")["url"], "https://en.wikipedia.org/wiki/Radium");
    assert_eq!(of("quoted")["title"], "\"Heroes\"");
    assert_eq!(of("no title")["title"], Value::Null);
    search(&server, json!({"query": "x", "fields": ["vector"]})).refuses(422, "invalid_input", &["fields", "vector"]);
}

#[test]
fn filters_say_which_passages_count() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let ask = |filter: Value, top_k: usize| {
        search(&server, json!({"query": "radium", "top_k": top_k, "fields": ["id"], "filter": filter}))
    };
    let found = |filter: Value, top_k: usize| ids(&hits(&ask(filter, top_k).expect(200))[0]);
    let all = found(json!({}), ROWS);
    assert_eq!(all.len(), ROWS);
    let some: Vec<&String> = all.iter().step_by(7).collect();
    assert_eq!(
        found(json!({"ids": some}), 1000).iter().collect::<Vec<_>>(),
        some,
        "only these, in the ranking's order"
    );
    assert_eq!(found(json!({"ids": some}), 2), [some[0].clone(), some[1].clone()]);
    assert_eq!(found(json!({"ids": HARD_IDS}), 1000).len(), HARD_IDS.len());
    assert_eq!(found(json!({"ids": []}), 5), Vec::<String>::new());
    let rest = found(json!({"exclude_ids": &all[..3]}), 4);
    assert_eq!(rest, &all[3..7], "as many as wanted, of those that are left");
    assert_eq!(found(json!({"exclude_ids": all}), 5), Vec::<String>::new());
    assert_eq!(found(json!({"ids": &all[..4], "exclude_ids": [all[0], all[2]]}), 10), [all[1].clone(), all[3].clone()]);
    assert_eq!(found(json!({"ids": [all[5], all[5]]}), 10), [all[5].clone()], "named twice, found once");
    for name in ["ids", "exclude_ids"] {
        ask(json!({name: ["plain", "nowhere"]}), 3).refuses(422, "invalid_input", &[name, "nowhere"]);
        ask(json!({name: [1]}), 3).refuses(422, "invalid_input", &[name]);
        let many: Vec<&str> = vec!["plain"; 10_001];
        ask(json!({name: many}), 3).refuses(422, "invalid_input", &[name, "10001"]);
    }
    ask(json!({"id": ["plain"]}), 3).refuses(422, "invalid_input", &["filter", "`id`"]);
}

#[test]
fn what_is_wrong_with_a_search_is_named() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let dimensions = shelf.open().embedder().dimensions();
    let long = "x".repeat((64 << 10) + 1);
    let one_of = "exactly one of `query`, `queries` and `vectors`";
    let wrong: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec![one_of]),
        (json!({"query": null}), vec![one_of]),
        (json!({"query": "x", "queries": ["x"]}), vec![one_of]),
        (json!({"query": "x", "vectors": []}), vec![one_of]),
        (json!({"queries": [], "vectors": []}), vec![one_of]),
        (json!({"query": "x", "top_k": 0}), vec!["top_k", "1 to 1000", "0"]),
        (json!({"query": "x", "top_k": 1001}), vec!["top_k", "1 to 1000", "1001"]),
        (json!({"query": "x", "top_k": -1}), vec!["top_k", "-1"]),
        (json!({"query": "x", "top_k": 2.5}), vec!["top_k", "2.5"]),
        (json!({"query": "x", "top_k": "3"}), vec!["top_k", "\"3\""]),
        (json!({"query": "x", "effort": 0}), vec!["effort", "1 to 10000"]),
        (json!({"query": "x", "effort": 10_001}), vec!["effort", "10001"]),
        (json!({"query": "x", "effort": -1}), vec!["effort", "recall=0.95", "`-1`"]),
        (json!({"query": "x", "effort": {"recall": 0.9}}), vec!["effort", "recall=0.95", "0.9"]),
        (json!({"query": "x", "effort": "recall=2"}), vec!["effort", "`recall=2`"]),
        (json!({"query": "x", "topk": 3}), vec!["topk", "top_k"]),
        (json!({"query": ["x"]}), vec!["query"]),
        (json!({"queries": "x"}), vec!["queries"]),
        (json!({"queries": ["x", 7]}), vec!["queries[1]"]),
        (json!({"queries": vec!["x"; 4097]}), vec!["4096", "4097"]),
        (json!({"queries": ["x", long]}), vec!["queries[1]", "65536", "65537"]),
        (json!({"query": long}), vec!["65536", "65537"]),
        (json!({"vectors": [vec![0.1; dimensions], vec![0.1; dimensions - 1]]}), vec!["vectors[1]", "expected"]),
        (json!({"vectors": [vec![1e39; dimensions]]}), vec!["vector"]),
        (json!({"vectors": [vec!["NaN"; dimensions]]}), vec!["vectors[0]"]),
        (json!({"vectors": [vec![Value::Null; dimensions]]}), vec!["vectors[0]"]),
        (json!([{"query": "x"}]), vec!["body", "object"]),
        (json!(["x"]), vec!["body", "object"]),
        (json!({"query": "x", "filter": [["plain"], []]}), vec!["filter", "object"]),
        (json!("x"), vec!["body"]),
        (json!(null), vec!["body"]),
    ];
    for (body, words) in wrong {
        let shown: String = body.to_string().chars().take(80).collect();
        let answer = search(&server, body);
        assert_eq!(answer.status, 422, "{shown}: {}", answer.text());
        answer.refuses(422, "invalid_input", &words);
        assert!(answer.body.len() < 4096, "{shown}: an answer of {} bytes", answer.body.len());
    }
    let most = json!({"queries": vec!["x"; 4096], "top_k": 1, "fields": ["row"]});
    assert_eq!(hits(&search(&server, most).expect(200)).len(), 4096);
    let longest = search(&server, json!({"query": "radium ".repeat(9362), "top_k": 1})).expect(200);
    assert_eq!(longest["results"][0]["truncated"], true, "longer than the model reads");
    assert_eq!(
        search(&server, json!({"query": "radium", "effort": 10_000})).expect(200)["results"][0]["truncated"],
        false
    );
}

#[test]
fn a_passage_is_there_under_its_id_however_strange() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let encoded = |id: &str, keep: &[u8]| -> String {
        let byte = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => (byte as char).to_string(),
            byte if keep.contains(&byte) => (byte as char).to_string(),
            byte => format!("%{byte:02X}"),
        };
        id.bytes().map(byte).collect()
    };
    for id in HARD_IDS.iter().chain(&["plain", "no title", "quoted", "30"]) {
        for keep in [&b""[..], b"/", b"/+"] {
            let passage = get(&format!("/v1/passages/{}", encoded(id, keep))).ask(server.address).expect(200);
            assert_eq!(passage["id"], *id);
            let hit = search(
                &server,
                json!({"query": "x", "filter": {"ids": [id]}, "fields": ["row", "title", "text", "contents", "url"]}),
            );
            for field in ["row", "title", "text", "contents", "url"] {
                assert_eq!(passage[field], hits(&hit.expect(200))[0][0][field], "{id}: {field}");
            }
        }
    }
    for id in ["nowhere", "plain%20", "PLAIN", "%2e%2e/plain", "a%2Fb"] {
        get(&format!("/v1/passages/{id}")).ask(server.address).refuses(404, "not_found", &["no passage"]);
    }
    get("/v1/passages/%ff").ask(server.address).refuses(422, "invalid_input", &["UTF-8"]);
    assert_eq!(get("/v1/passages/").ask(server.address).status, 404);
    assert_eq!(post("/v1/passages/plain", &json!({})).ask(server.address).status, 405);
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().expect("values").iter().map(|value| value.as_f64().expect("a number") as f32).collect()
}

#[test]
fn embeddings_are_those_of_the_model_in_every_spelling() {
    let shelf = Shelf::new();
    let (server, retriever) = (shelf.serve(|_| ()), shelf.open());
    let ask = |body: Value| post("/v1/embeddings", &body).ask(server.address).expect(200);
    for (name, kind) in
        [(None, InputKind::Query), (Some("query"), InputKind::Query), (Some("passage"), InputKind::Passage)]
    {
        let expected = retriever.embedder().embed(&QUERIES, kind).expect("vectors");
        let answer = ask(json!({"input": QUERIES, "model": "whatever", "input_type": name, "user": "u"}));
        assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!(retriever.embedder().card().id)));
        let data = answer["data"].as_array().expect("data");
        assert_eq!(data.len(), QUERIES.len());
        let packed = ask(json!({"input": QUERIES, "encoding_format": "base64", "input_type": name}));
        for (at, (entry, expected)) in data.iter().zip(expected.rows()).enumerate() {
            assert_eq!((&entry["object"], &entry["index"]), (&json!("embedding"), &json!(at)));
            let found = floats(&entry["embedding"]);
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
            let packed = packed["data"][at]["embedding"].as_str().expect("Base64");
            let bytes = BASE64_STANDARD.decode(packed).expect("Base64");
            let unpacked: Vec<f32> =
                bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().expect("4"))).collect();
            assert_eq!(unpacked, found, "the same bits in both forms");
        }
    }
    let tokens = |body: Value| ask(body)["usage"].clone();
    let (one, two) = (tokens(json!({"input": "radium"})), tokens(json!({"input": ["radium", "radium"]})));
    assert_eq!(one["prompt_tokens"], one["total_tokens"]);
    assert!(one["prompt_tokens"].as_u64().is_some_and(|tokens| tokens >= 3), "with the special ones: {one}");
    assert_eq!(two["total_tokens"].as_u64(), one["total_tokens"].as_u64().map(|tokens| 2 * tokens));
}

#[test]
fn token_ids_mean_the_text_that_they_are_of() {
    let shelf = Shelf::new();
    let (server, retriever) = (shelf.serve(|_| ()), shelf.open());
    let ask = |body: Value| post("/v1/embeddings", &body).ask(server.address);
    let tokens = [100u32, 201, 302];
    let text = retriever.embedder().decode(&tokens).expect("text");
    assert!(!text.is_empty());
    let vector = |input: Value| floats(&ask(json!({"input": input})).expect(200)["data"][0]["embedding"]);
    assert_eq!(vector(json!(tokens)), vector(json!(text)));
    assert_eq!(vector(json!([tokens])), vector(json!(text)));
    let many = ask(json!({"input": [tokens.to_vec(), vec![100]]})).expect(200);
    assert_eq!(many["data"].as_array().map(Vec::len), Some(2));
    for unknown in [json!([4_000_000_000u32]), json!([[100], [4_000_000_000u32]])] {
        ask(json!({"input": unknown})).refuses(422, "invalid_input", &["4000000000"]);
    }
}

#[test]
fn a_shorter_vector_is_a_unit_vector_again() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let ask = |dimensions: Value| {
        post("/v1/embeddings", &json!({"input": "radium", "dimensions": dimensions})).ask(server.address)
    };
    let vector = |dimensions: Value| floats(&ask(dimensions).expect(200)["data"][0]["embedding"]);
    let whole = vector(Value::Null);
    assert_eq!(vector(json!(whole.len())), whole);
    for wanted in [1, 2, whole.len() - 1] {
        let cut = vector(json!(wanted));
        let length = |values: &[f32]| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        assert_eq!(cut.len(), wanted);
        assert!((length(&cut) - 1.0).abs() < 1e-5, "{}", length(&cut));
        let scale = length(&whole[..wanted]);
        assert!(cut.iter().zip(&whole).all(|(cut, whole)| (f64::from(*cut) * scale - f64::from(*whole)).abs() < 1e-5));
    }
    for wrong in [json!(0), json!(whole.len() + 1), json!(-1), json!("3")] {
        assert_eq!(ask(wrong.clone()).status, 422, "{wrong}");
    }
}

#[test]
fn what_is_wrong_with_embeddings_is_said_as_openai_says_it() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for body in [
        json!({}),
        json!({"input": []}),
        json!({"input": 7}),
        json!({"input": [1.5]}),
        json!({"input": ["x", 1]}),
        json!({"input": "x", "encoding_format": "int8"}),
        json!({"input": "x", "input_type": "document"}),
        json!({"input": vec!["x"; 4097]}),
        json!({"input": "x".repeat(65_537)}),
        json!({"input": vec![1; 65_537]}),
    ] {
        let answer = post("/v1/embeddings", &body).ask(server.address);
        answer.refuses(422, "invalid_input", &[]);
        let (own, error) = (answer.json(), answer.json()["error"].clone());
        assert_eq!((&error["message"], &error["code"]), (&own["message"], &json!("invalid_input")));
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &Value::Null));
    }
    let models = get("/v1/models").ask(server.address).expect(200);
    assert_eq!((&models["object"], &models["data"][0]["object"]), (&json!("list"), &json!("model")));
    assert_eq!(models["data"][0]["id"], json!(shelf.open().embedder().card().id));
}

#[test]
fn tei_s_clients_are_answered() {
    let shelf = Shelf::new();
    let (server, retriever) = (shelf.serve(|_| ()), shelf.open());
    let ask = |body: Value| post("/embed", &body).ask(server.address);
    let vectors = |body: Value| -> Vec<Vec<f32>> {
        ask(body).expect(200).as_array().expect("vectors").iter().map(floats).collect()
    };
    let expected = retriever.embedder().embed(&QUERIES, InputKind::Query).expect("vectors");
    for (found, expected) in vectors(json!({"inputs": QUERIES})).iter().zip(expected.rows()) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6));
    }
    assert_eq!(vectors(json!({"inputs": "radium", "normalize": true, "truncate": false})).len(), 1);
    assert_eq!(vectors(json!({"inputs": ["radium"], "dimensions": 3}))[0].len(), 3);
    let passage = retriever.embedder().embed(&["radium"], InputKind::Passage).expect("a vector");
    let named = vectors(json!({"inputs": "radium", "prompt_name": "passage"}));
    assert!(named[0].iter().zip(passage.rows().next().expect("one")).all(|(a, b)| (a - b).abs() < 1e-6));
    let long = "radium ".repeat(2000);
    let refused = ask(json!({"inputs": ["x", long]}));
    refused.refuses(422, "invalid_input", &["inputs[1]", "truncate"]);
    assert_eq!(
        (refused.json()["error"].as_str(), &refused.json()["error_type"]),
        (refused.json()["message"].as_str(), &json!("validation"))
    );
    assert_eq!(vectors(json!({"inputs": ["x", long], "truncate": true, "truncation_direction": "Right"})).len(), 2);
    ask(json!({"inputs": "x", "truncation_direction": "Left"})).refuses(422, "invalid_input", &["Left"]);
    ask(json!({"inputs": []})).refuses(422, "invalid_input", &["input"]);
    let info = get("/info").ask(server.address).expect(200);
    assert_eq!(info["model_id"], json!(retriever.embedder().card().id));
    assert_eq!(info["max_input_length"], json!(retriever.embedder().card().max_length));
    assert_eq!(info["max_client_batch_size"], json!(4096));
    assert_eq!(info["dimensions"], json!(retriever.embedder().dimensions()));
    assert_eq!(info["index"]["rows"], json!(ROWS));
}

#[test]
fn every_answer_bears_the_id_of_its_request() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let paths = [
        "/",
        "/docs",
        "/openapi.json",
        "/pages/search.js",
        "/pages/none",
        "/livez",
        "/readyz",
        "/health",
        "/metrics",
        "/info",
        "/v1/models",
        "/v1/passages/plain",
        "/v1/passages/none",
        "/v1/search",
        "/none",
        "/retrieve",
        "/dialect/none/retrieve",
        "/v1/x/search?query=x",
    ];
    let longest = "a".repeat(64);
    for path in paths {
        for given in ["1", "a-B_c.9", &longest] {
            let answer = get(path).header("X-Request-Id", given).ask(server.address);
            assert_eq!(answer.header("x-request-id"), Some(given), "{path}");
        }
        let mut fresh = HashSet::new();
        for bad in ["", "a b", "a/b", "\"", "ü", "a\u{9}b", "<x>", &"a".repeat(65)] {
            let answer = get(path).header("X-Request-Id", bad).ask(server.address);
            let id = answer.header("x-request-id").unwrap_or_default().to_owned();
            assert!(
                id != bad && !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{path}: {bad:?} {id:?}"
            );
            fresh.insert(id);
        }
        assert_eq!(fresh.len(), 8, "an id of its own for each");
        assert_eq!(get(path).ask(server.address).header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    let given = post("/v1/search", &json!({"query": "x"})).header("X-Request-Id", "mine").ask(server.address);
    assert_eq!(given.expect(200)["request_id"], "mine");
    let failed = post("/v1/search", &json!({})).header("X-Request-Id", "mine").ask(server.address);
    assert_eq!(failed.expect(422)["request_id"], "mine");
}

#[test]
fn a_route_asked_in_the_wrong_way_says_the_right_one() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for (method, path, allowed) in [
        ("GET", "/v1/search", "POST"),
        ("PUT", "/v1/search", "POST"),
        ("DELETE", "/retrieve", "POST"),
        ("POST", "/readyz", "GET"),
        ("PATCH", "/v1/passages/plain", "GET"),
        ("OPTIONS", "/v1/embeddings", "POST"),
    ] {
        let answer = Request::new(method, path).ask(server.address);
        answer.refuses(405, "method_not_allowed", &[method, path]);
        assert!(answer.header("allow").is_some_and(|known| known.contains(allowed)), "{method} {path}: {answer:?}");
    }
    get("/none").ask(server.address).refuses(404, "not_found", &["/none", "/docs"]);
    assert_eq!(Request::new("HEAD", "/readyz").ask(server.address).status, 200);
}

#[test]
fn a_client_says_how_long_it_waits() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let ask = |time: &str| {
        post("/v1/search", &json!({"query": "x"})).header("X-Request-Timeout-Ms", time).ask(server.address)
    };
    assert_eq!(ask("20000").status, 200);
    assert_eq!(ask("18446744073709551615").status, 200, "the server's own limit holds");
    for wrong in ["0", "-1", "soon", "1.5", "", "18446744073709551616"] {
        ask(wrong).refuses(422, "invalid_input", &["x-request-timeout-ms", wrong]);
    }
}

#[test]
fn metrics_are_in_prometheus_s_format() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for _ in 0..3 {
        search(&server, json!({"query": "radium"})).expect(200);
    }
    search(&server, json!({})).expect(422);
    get("/no/such/route").ask(server.address).expect(404);
    let page = get("/metrics").ask(server.address);
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    let text = page.text();
    assert!(text.ends_with("# EOF\n"));
    let (mut declared, mut seen) = (HashSet::new(), HashSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(declared.insert(rest.split(' ').next().expect("a name")), "twice: {line}");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("name and value");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            assert!(seen.insert(series), "twice: {line}");
            let name = series.split('{').next().expect("a name");
            let known = |family: &&str| {
                name == *family
                    || ["_total", "_bucket", "_count", "_sum", "_info"]
                        .iter()
                        .any(|end| name.strip_suffix(end) == Some(family))
            };
            assert!(declared.iter().any(known), "without a type: {line}");
        }
    }
    let value = |series: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{series} ")));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no {series} in {text}"))
    };
    assert_eq!(value("hindsearch_requests_total{route=\"/v1/search\",status=\"200\"}"), 3.0);
    assert_eq!(value("hindsearch_requests_total{route=\"/v1/search\",status=\"422\"}"), 1.0);
    assert_eq!(value("hindsearch_requests_total{route=\"none\",status=\"404\"}"), 1.0);
    assert_eq!(value("hindsearch_index_rows"), ROWS as f64);
    assert_eq!(value("hindsearch_ready"), 1.0);
    assert_eq!(value("hindsearch_cache_hits_total") + value("hindsearch_deduplicated_total"), 2.0);
    assert!(!text.contains("/no/such/route"), "paths of strangers are no labels");
}

#[test]
fn pages_load_nothing_from_elsewhere_and_run_nothing_inline() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    for (path, kind) in [
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/pages/search.js", "text/javascript"),
        ("/pages/docs.js", "text/javascript"),
        ("/pages/pages.css", "text/css"),
    ] {
        let page = get(path).ask(server.address);
        assert_eq!(page.status, 200, "{path}");
        assert!(page.header("content-type").is_some_and(|found| found.starts_with(kind)), "{path}");
        let policy = page.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        let text = page.text();
        assert!(!text.contains("<script>") && !text.contains("onclick=") && !text.contains("innerHTML"), "{path}");
        let addresses = ["src=\"", "href=\"", "url("].map(|name| text.split(name).skip(1).collect::<Vec<_>>()).concat();
        let abroad = addresses.iter().any(|address| address.starts_with("http") || address.starts_with("//"));
        assert!(!abroad, "{path} loads from elsewhere");
    }
}

#[test]
fn the_description_that_is_served_is_the_one_of_the_code() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| ());
    let served = get("/openapi.json").ask(server.address).expect(200);
    assert_eq!(served, openapi(&[]));
    let mut names = HashSet::new();
    for (path, operations) in served["paths"].as_object().expect("paths") {
        for (verb, operation) in operations.as_object().expect("operations") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{verb} {path}: {name} is taken");
        }
    }
}
