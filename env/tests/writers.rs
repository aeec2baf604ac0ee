//! Texts on request: kept over a restart, never more than a budget, so many at a time, and a fault is no text.

#[cfg(feature = "remote")]
#[path = "support/server.rs"]
mod server;
mod support;

use std::io::Write;

use hindsearch_env::{CachedWriter, Error, Request, Writer};
use support::words::Says;

fn request(user: &str) -> Request {
    Request { system: "Write.".into(), user: user.into(), tokens: 9 }
}

fn texts(written: Vec<Result<String, Error>>) -> Vec<Option<String>> {
    written.into_iter().map(Result::ok).collect()
}

#[test]
fn answers_are_kept_over_a_restart_and_a_line_that_is_torn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("texts.jsonl");
    let say = |_, request: &Request| Some(format!("text of {}", request.user));
    let writer = Says::new(say);
    let cached = CachedWriter::open(&writer, &path).expect("a cache");
    let expected = ["a", "b", "a"].map(|user| Some(format!("text of {user}")));
    assert_eq!(texts(cached.write(&["a", "b", "a"].map(request))), expected);
    assert_eq!(writer.asked().len(), 2, "the same request is asked once");
    assert_eq!(texts(cached.write(&[request("b")])), expected[1..2]);
    assert_eq!(writer.asked().len(), 2);
    assert!(CachedWriter::open(&writer, &path).is_err(), "one at a time");
    drop(cached);

    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("the file");
    file.write_all(b"{\"key\": \"torn").expect("a disk");
    drop(file);
    let again = Says::new(say);
    let cached = CachedWriter::open(&again, &path).expect("a cache");
    assert_eq!(
        texts(cached.write(&["a", "b", "c"].map(request))),
        ["a", "b", "c"].map(|user| Some(format!("text of {user}")))
    );
    assert_eq!(again.asked(), [request("c")]);
    drop(cached);
    assert_eq!(std::fs::read_to_string(&path).expect("the file").lines().count(), 3);

    std::fs::write(&path, "{\"something\": 1}\n").expect("a file");
    assert!(matches!(CachedWriter::open(&again, &path), Err(Error::Line { line: 1, .. })));
}

#[test]
fn another_request_and_another_writer_have_answers_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("texts.jsonl");
    let cached = CachedWriter::open(Says::new(|number, _| Some(number.to_string())), &path).expect("a cache");
    let more = Request { tokens: 10, ..request("a") };
    let other = Request { system: "Write.a".into(), user: String::new(), tokens: 9 };
    assert_eq!(texts(cached.write(&[request("a"), more, other])), ["0", "1", "2"].map(|text| Some(text.to_owned())));
    drop(cached);

    struct Renamed<W>(W);
    impl<W: Writer> Writer for Renamed<W> {
        fn name(&self) -> &str {
            "another"
        }
        fn write(&self, requests: &[Request]) -> Vec<hindsearch_env::Result<String>> {
            self.0.write(requests)
        }
    }
    let cached = CachedWriter::open(Renamed(Says::new(|_, _| Some("new".into()))), &path).expect("a cache");
    assert_eq!(texts(cached.write(&[request("a")])), [Some("new".to_owned())]);
}

#[test]
fn a_fault_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Says::new(|number, _| (number > 0).then(|| "text".to_owned()));
    let cached = CachedWriter::open(writer, &folder.path().join("texts.jsonl")).expect("a cache");
    assert_eq!(texts(cached.write(&[request("a"), request("b"), request("a")])), [None, Some("text".to_owned()), None]);
    assert_eq!(texts(cached.write(&[request("a")])), [Some("text".to_owned())]);
}

#[cfg(feature = "remote")]
mod on_a_server {
    use std::num::NonZero;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use hindsearch_env::{Error, ServerWriter, ServerWriterOptions, Writer};
    use serde_json::json;

    use super::server::ModelServer;
    use super::{request, texts};

    fn writer(server: &ModelServer, parallel: usize, budget: Option<u64>) -> ServerWriter {
        let parallel = NonZero::new(parallel).expect("some");
        ServerWriter::new(server.endpoint(), ServerWriterOptions { model: "m".into(), parallel, budget })
    }

    fn say(text: &str) -> (u16, String) {
        (200, json!({ "choices": [{ "message": { "content": text } }] }).to_string())
    }

    #[test]
    fn texts_come_in_the_order_of_their_requests_and_greedily() {
        let server = ModelServer::start(|_, body| say(body["messages"][1]["content"].as_str().unwrap_or_default()));
        let requests: Vec<_> = (0..40).map(|number| request(&number.to_string())).collect();
        let written = texts(writer(&server, 8, None).write(&requests));
        assert_eq!(written, (0..40).map(|number| Some(number.to_string())).collect::<Vec<_>>());
        for (path, token, body) in server.asked() {
            assert_eq!((path.as_str(), token.as_deref()), ("/v1/chat/completions", Some("Bearer s3cret")));
            assert_eq!(
                (&body["temperature"], &body["max_tokens"], &body["model"]),
                (&json!(0), &json!(9), &json!("m"))
            );
        }
        assert!(writer(&server, 8, None).write(&[]).is_empty());
    }

    #[test]
    fn no_more_requests_are_under_way_than_are_allowed() {
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, peak) = (Arc::clone(&under_way), Arc::clone(&most));
        let server = ModelServer::start(move |_, _| {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            say("x")
        });
        let requests: Vec<_> = (0..12).map(|number| request(&number.to_string())).collect();
        let writer = writer(&server, 3, None);
        // Whoever asks.
        std::thread::scope(|scope| {
            for part in requests.chunks(6) {
                scope.spawn(|| assert!(texts(writer.write(part)).iter().all(Option::is_some)));
            }
        });
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }

    #[test]
    fn a_budget_is_never_exceeded_and_what_is_beyond_it_is_an_error() {
        let server = ModelServer::start(|_, _| say("x"));
        let writer = writer(&server, 4, Some(5));
        let requests: Vec<_> = (0..8).map(|number| request(&number.to_string())).collect();
        let written = writer.write(&requests);
        assert_eq!(written.iter().filter(|text| text.is_ok()).count(), 5);
        let error = written.into_iter().find_map(Result::err).expect("an error").to_string();
        assert!(error.contains("budget") && error.contains('5'), "{error}");
        assert_eq!((server.asked().len(), writer.sent()), (5, 5));
        assert!(writer.write(&requests[..1])[0].is_err());
    }

    #[test]
    fn a_server_that_fails_for_a_moment_is_asked_again_and_one_that_refuses_is_not() {
        let server = ModelServer::start(|number, _| match number {
            0 => (500, "s3cret".into()),
            1 => say("x"),
            2 => (400, "no model s3cret".into()),
            _ => (200, "{}".into()),
        });
        // The request that is tried again counts twice.
        let writer = writer(&server, 1, Some(4));
        assert_eq!(texts(writer.write(&[request("a")])), [Some("x".to_owned())]);
        let refused = writer.write(&[request("b")]).remove(0).expect_err("a refusal").to_string();
        assert!(refused.contains("status 400") && !refused.contains("s3c"), "{refused}");
        assert_eq!(server.asked().len(), 3);
        // Nothing said is no text; asking on costs the rest of the budget.
        assert!(matches!(writer.write(&[request("c")]).remove(0), Err(Error::InvalidInput { .. })));
        assert_eq!(server.asked().len(), 4);
    }
}
