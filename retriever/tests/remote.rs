//! What becomes of a question when servers fail, refuse or are busy.
#![cfg(feature = "remote")]

mod remote_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hindsearch_indexes::ErrorKind;
use hindsearch_retriever::{Error, RemoteOptions, RemoteRetriever, Retrieve};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remote_support::{Fault, Shelf, client, dead_address, refusal};

const HOUR: Duration = Duration::from_secs(3600);

fn queries() -> Vec<String> {
    vec!["Who discovered radium?".into(), "river".into()]
}

fn broken() -> Fault {
    Fault::Status(500, "", refusal("internal", "a broken pipe of the model"))
}

#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{text} lacks one of {parts:?}");
}

#[test]
fn every_call_is_answered_well_though_a_fifth_of_the_answers_is_spoiled() {
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let shelf = Shelf::new();
    let spoiled = Arc::new(AtomicUsize::new(0));
    let plan = {
        let spoiled = Arc::clone(&spoiled);
        move |number: usize| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(number as u64));
            if rng.random::<f64>() >= 0.2 {
                return Fault::None;
            }
            spoiled.fetch_add(1, Ordering::SeqCst);
            match rng.random_range(0..5) {
                0 => Fault::Drop,
                1 => Fault::Reset,
                2 => Fault::Delay(Duration::from_millis(rng.random_range(20..1500))),
                3 => Fault::Truncate(rng.random()),
                _ => Fault::Body("<html>502".into()),
            }
        }
    };
    let server = shelf.serve(plan);
    let retriever = server.client(|options| {
        options.attempt_timeout = Duration::from_secs(1);
        options.retries = 30;
    });
    let expected = shelf.local.retrieve(&queries(), 5).expect("the index's own answer");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let start = Instant::now();
                    let found = retriever.retrieve(&queries(), 5).expect("an answer");
                    assert!(start.elapsed() < RemoteOptions::default().deadline);
                    assert_eq!(found.len(), expected.len());
                    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                        assert_eq!((found.row, &found.passage), (expected.row, &expected.passage));
                        assert!((found.score - expected.score).abs() <= 1e-6);
                    }
                }
            });
        }
    });
    let (asked, spoiled) = (server.log().len(), spoiled.load(Ordering::SeqCst));
    assert!(spoiled > 20 && asked > 340, "{spoiled} of {asked} spoiled: too few to show anything");
}

#[test]
fn a_connection_serves_many_calls() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| Fault::None);
    let retriever = server.client(|_| ());
    (0..20).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect("an answer")));
    assert_eq!((server.log().len(), server.connections()), (20, 1));
}

#[test]
fn dead_servers_give_one_error_in_time_that_names_each_with_its_cause() {
    let shelf = Shelf::new();
    let busy = shelf.serve(|_| broken());
    let hung = shelf.serve(|_| Fault::Delay(HOUR));
    let cut = shelf.serve(|_| Fault::Truncate(0.6));
    let nobody = dead_address();
    let retriever = client(&[&busy, &hung, &cut], |options| {
        options.addresses.push(nobody.clone());
        options.deadline = Duration::from_secs(8);
        options.attempt_timeout = Duration::from_millis(800);
        options.retries = 1;
    });
    let start = Instant::now();
    let error = retriever.retrieve(&queries(), 3).expect_err("nobody answers");
    assert!(start.elapsed() < Duration::from_secs(8));
    let times = "tried 2 times";
    for parts in [
        [&*busy.address, times, "status 500: a broken pipe of the model"],
        [&hung.address, times, "no answer within 0.8 s"],
        [&cut.address, times, "hindsearch serve"],
        [&nobody, times, "refused"],
    ] {
        assert_says(&error, ErrorKind::Unavailable, &parts);
    }
    assert!(matches!(error, Error::Unavailable { .. }));
}

#[test]
fn the_deadline_ends_a_call_whatever_is_left_to_try() {
    let shelf = Shelf::new();
    let hung = shelf.serve(|_| Fault::Delay(HOUR));
    let retriever = hung.client(|options| {
        options.deadline = Duration::from_millis(400);
        options.retries = u32::MAX;
    });
    let start = Instant::now();
    let error = retriever.retrieve(&queries(), 3).expect_err("nobody answers");
    assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_says(&error, ErrorKind::Unavailable, &[&hung.address, "no answer within 0.4 s"]);
    let limit: u64 = hung.log()[0].header("x-request-timeout-ms").and_then(|ms| ms.parse().ok()).expect("a header");
    assert!((1..=400).contains(&limit), "the server is told the time that is left: {limit}");
}

#[test]
fn calls_take_turns_and_move_on_where_a_server_fails() {
    let shelf = Shelf::new();
    let (good, other) = (shelf.serve(|_| Fault::None), shelf.serve(|_| Fault::None));
    let retriever = client(&[&good, &other], |_| ());
    (0..6).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect("an answer")));
    assert_eq!((good.log().len(), other.log().len()), (3, 3));

    let bad = shelf.serve(|_| broken());
    let retriever = client(&[&bad, &good], |options| {
        options.retries = 0;
        options.circuit_pause = HOUR;
    });
    (0..30).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect("the other server's answer")));
    assert_eq!(bad.log().len(), 10, "after ten failures it is left alone");
}

#[test]
fn an_open_circuit_asks_nothing_and_closes_when_the_server_is_back() {
    let shelf = Shelf::new();
    let server = shelf.serve(|number| if number < 12 { broken() } else { Fault::None });
    let impatient = |pause| {
        server.client(|options| {
            (options.retries, options.circuit_pause, options.deadline) = (0, pause, Duration::from_secs(20));
        })
    };
    let closed_for_long = impatient(HOUR);
    for asked in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10] {
        let start = Instant::now();
        let error = closed_for_long.retrieve(&queries(), 3).expect_err("a broken server");
        assert_eq!(server.log().len(), asked);
        assert_says(&error, ErrorKind::Unavailable, &[&server.address, "a broken pipe of the model"]);
        assert!(start.elapsed() < Duration::from_secs(10), "a probe that comes too late is not waited for");
    }
    let error = closed_for_long.retrieve(&queries(), 3).expect_err("an open circuit");
    assert_says(&error, ErrorKind::Unavailable, &["not asked after 10 failures in a row"]);

    let server = shelf.serve(|number| if number < 11 { broken() } else { Fault::None });
    let retriever = server.client(|options| {
        (options.retries, options.circuit_pause) = (0, Duration::from_millis(100));
    });
    // Ten failures and a failed probe; then the server is back, and the next probe is waited for.
    (0..11).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect_err("a broken server")));
    (0..20).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect("a server that is back")));
    assert_eq!(server.log().len(), 31);
}

#[test]
fn a_busy_server_is_asked_again_when_it_said_and_another_one_at_once() {
    let busy = || Fault::Status(503, "Retry-After: 1\r\n", refusal("overloaded", "the queue is full"));
    let shelf = Shelf::new();
    let server = shelf.serve(move |number| if number == 0 { busy() } else { Fault::None });
    let retriever = server.client(|_| ());
    let start = Instant::now();
    assert_eq!(retriever.retrieve(&queries(), 3).expect("an answer").len(), 2);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(server.log().len(), 2);

    // A pause that the deadline does not allow is not begun.
    let server = shelf.serve(|_| Fault::Status(503, "Retry-After: 30\r\n", refusal("overloaded", "the queue is full")));
    let retriever = server.client(|options| options.deadline = Duration::from_secs(10));
    let start = Instant::now();
    let error = retriever.retrieve(&queries(), 3).expect_err("a busy server");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_says(&error, ErrorKind::Unavailable, &[&server.address, "tried once", "503", "the queue is full"]);

    let free = shelf.serve(|_| Fault::None);
    let retriever = client(&[&server, &free], |options| options.deadline = Duration::from_secs(10));
    (0..4).for_each(|_| drop(retriever.retrieve(&queries(), 3).expect("the other server's answer")));
    assert_eq!(free.log().len(), 4);
}

#[test]
fn a_refusal_is_final_and_in_the_servers_words() {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| Fault::None);
    let error = server.client(|_| ()).retrieve(&queries(), 1001).expect_err("too many passages");
    assert_says(&error, ErrorKind::InvalidInput, &[&server.address, "status 422: top_k: 1 to 1000"]);
    assert_eq!(server.log().len(), 1, "asked once");

    for (status, kind) in [
        (400, ErrorKind::InvalidInput),
        (401, ErrorKind::Unauthorized),
        (403, ErrorKind::Unauthorized),
        (404, ErrorKind::NotFound),
        (413, ErrorKind::InvalidInput),
        (422, ErrorKind::InvalidInput),
        (302, ErrorKind::Unavailable),
    ] {
        let server =
            shelf.serve(move |_| Fault::Status(status, "Location: /v1/other\r\n", refusal("x", "said \u{1b}[31mso")));
        let error = server.client(|_| ()).retrieve(&queries(), 3).expect_err("a refusal");
        assert_says(&error, kind, &[&server.address, &status.to_string(), "said \\u{1b}[31mso"]);
        assert_eq!(server.log().len(), 1, "{status} is not tried again");
    }
    for status in [500, 502, 503, 504] {
        let plan = move |number| if number < 2 { Fault::Status(status, "", String::new()) } else { Fault::None };
        let server = shelf.serve(plan);
        server.client(|_| ()).retrieve(&queries(), 3).expect("an answer in the end");
        assert_eq!(server.log().len(), 3, "{status} is tried again");
    }
}

#[test]
fn the_token_is_sent_and_never_shown() {
    const TOKEN: &str = "s3cr3t-T0ken.value";
    let shelf = Shelf::new();
    let with_token = |options: &mut RemoteOptions| {
        options.token = Some(TOKEN.into());
        options.retries = 0;
    };
    let server = shelf.serve(|_| Fault::None);
    let retriever = server.client(with_token);
    retriever.retrieve(&queries(), 3).expect("an answer");
    assert_eq!(server.log()[0].header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    server.client(|_| ()).retrieve(&queries(), 3).expect("an answer");
    assert_eq!(server.log()[1].header("authorization"), None);

    let mut shown = vec![format!("{retriever:?}")];
    for status in [302, 401, 404, 422, 500, 503] {
        let server = shelf.serve(move |_| Fault::Status(status, "", refusal("x", &format!("no `{TOKEN}` here"))));
        shown.push(server.client(with_token).retrieve(&queries(), 3).expect_err("a refusal").to_string());
    }
    for fault in [Fault::Drop, Fault::Reset, Fault::Body(format!(r#"{{"results": "{TOKEN}"}}"#)), Fault::Truncate(0.1)]
    {
        let server = shelf.serve(move |_| fault.clone());
        shown.push(server.client(with_token).retrieve(&queries(), 3).expect_err("a failure").to_string());
    }
    for token in ["s3cr3t\r\nx: y", "s3cr3t ", "s3cr3té", ""] {
        let options = RemoteOptions {
            addresses: vec![server.address.clone()],
            token: Some(token.into()),
            ..RemoteOptions::default()
        };
        shown.push(format!("{options:?}"));
        let error = RemoteRetriever::new(options).expect_err("a token that no header can carry");
        assert_says(&error, ErrorKind::InvalidInput, &["token"]);
        shown.push(format!("{error} {error:?}"));
    }
    for text in shown {
        assert!(!text.contains("s3cr3t"), "{text}");
    }
}

/// A port at which nothing listens.
fn nobody() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", socket.local_addr().expect("an address"))
}

#[test]
fn where_nothing_listens_it_is_given_up_soon_and_what_answered_before_is_waited_for() {
    let shelf = Shelf::new();
    let hour = Duration::from_secs(3600);
    let patient = |options: &mut RemoteOptions| {
        (options.deadline, options.retries) = (hour, u32::MAX);
        options.absent_deadline = Duration::from_millis(50);
    };
    // It would be tried for an hour if it were not for the shorter time.
    let mut options = RemoteOptions { addresses: vec![nobody()], ..RemoteOptions::default() };
    patient(&mut options);
    let absent = RemoteRetriever::new(options).expect("a client");
    for _ in 0..3 {
        assert_says(&absent.retrieve(&queries(), 3).expect_err("nobody"), ErrorKind::Unavailable, &["refused"]);
    }
    // One of several that is there is waited for.
    let server = shelf.serve(|number| if number < 3 { Fault::Status(503, "", String::new()) } else { Fault::None });
    let mut options = RemoteOptions { addresses: vec![nobody(), server.address], ..RemoteOptions::default() };
    patient(&mut options);
    options.absent_deadline = Duration::ZERO;
    RemoteRetriever::new(options).expect("a client").retrieve(&queries(), 3).expect("an answer in the end");
}

#[test]
fn addresses_are_checked_before_they_are_used() {
    let new = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|&address| address.to_owned()).collect();
        RemoteRetriever::new(RemoteOptions { addresses, ..RemoteOptions::default() })
    };
    new(&["http://localhost:8000/", "https://search.example/prefix", "http://[::1]:8000"]).expect("addresses");
    for bad in ["", "localhost:8000", "ftp://host", "http://", "http://host?x=1", "/v1", "http://user:s3cr3t@host"] {
        let error = new(&["http://localhost:8000", bad]).expect_err(bad);
        assert_says(&error, ErrorKind::InvalidInput, &["http://HOST:PORT"]);
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
    assert_says(&new(&[]).expect_err("no address"), ErrorKind::InvalidInput, &["found none"]);
}

#[test]
fn a_call_of_many_requests_is_answered_from_one_index() {
    let shelf = Shelf::new();
    let many: Vec<String> = (0..5000).map(|i| format!("river {i}")).collect();
    // The index changes between the first two requests of a call: all is asked again.
    let server = shelf.serve(|number| Fault::Generation(if number == 0 { 1 } else { 2 }));
    assert_eq!(server.client(|_| ()).retrieve(&many, 1).expect("an answer").len(), 5000);
    assert_eq!(server.log().iter().map(|asked| asked.queries).collect::<Vec<_>>(), [4096, 904, 4096, 904]);

    let server = shelf.serve(|number| Fault::Generation(number as u64));
    let error = server.client(|_| ()).retrieve(&many, 1).expect_err("an index that never rests");
    assert_says(&error, ErrorKind::Unavailable, &["index changed twice"]);
    assert_eq!(server.log().len(), 4);
}
