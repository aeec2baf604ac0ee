//! What becomes of requests when there are more of them than can be answered.
#![cfg(feature = "serve")]

mod serve_support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{EngineOptions, Limits, ServeOptions};
use serde_json::json;
use serve_support::faulty::Faulty;
use serve_support::http::{Answer, Client, ask, get, post, post_with, search, search_all, until};
use serve_support::{Library, Server, options};

const MS: Duration = Duration::from_millis(1);

fn numbered(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what} {at}")).collect()
}

/// Options under which few texts may wait.
fn narrow(window: usize, queued_texts: usize, queue_wait: Duration) -> ServeOptions {
    let engine = EngineOptions { window, queued_texts, queue_wait, ..EngineOptions::default() };
    ServeOptions { engine, ..options() }
}

/// Sends `requests` one after the other from each of `clients` connections.
fn load(server: &Server, clients: usize, requests: usize, request: impl Fn(usize) -> Vec<u8> + Sync) -> Vec<Answer> {
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..clients {
            let (answers, request) = (&answers, &request);
            scope.spawn(move || {
                let mut client = Client::new(server.address).expect("a connection");
                for at in 0..requests {
                    let answer = client.ask(&request(number * requests + at)).expect("an answer to every request");
                    answers.lock().expect("the answers").push(answer);
                }
            });
        }
    });
    answers.into_inner().expect("the answers")
}

#[test]
fn more_than_can_be_done_is_answered_or_refused_with_a_time_to_come_back() {
    let library = Library::new(20, 100);
    // About 400 texts a second; 64 clients that ask at once fill a queue of 16 again and again.
    let server = Server::start(&library, Faulty::slow(MS, 5 * MS), narrow(4, 16, 5000 * MS));
    let answers = load(&server, 64, 10, |number| search(&format!("query {number}")));
    assert_eq!(answers.len(), 640);
    let (good, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(good.len() > 50 && refused.len() > 50, "{} answered, {} refused", good.len(), refused.len());
    good.iter().for_each(|answer| assert_eq!(answer.ids()[0].len(), 3));
    refused.iter().for_each(|answer| answer.assert_fault(503));
    // It recovers: what comes next is answered at once.
    for at in 0..20 {
        assert_eq!(ask(server.address, &search(&format!("afterwards {at}"))).status, 200);
    }
    assert_eq!(server.metric("hindsearch_requests_in_flight"), 0.0);
    assert_eq!(server.metric("hindsearch_queue_texts"), 0.0);
    let shed = server.metric("hindsearch_shed_total{reason=\"queue\"}");
    assert_eq!(shed, refused.len() as f64, "what was refused is counted");
}

#[test]
fn a_wait_that_would_be_too_long_is_refused_by_the_text_s_measured_cost() {
    let library = Library::new(20, 100);
    let encoder = Faulty::slow(Duration::ZERO, 20 * MS);
    let server = Server::start(&library, encoder.clone(), narrow(4, 16_384, 1000 * MS));
    assert_eq!(ask(server.address, &search_all(&numbered("measured", 8))).status, 200);
    encoder.hold();
    std::thread::scope(|scope| {
        // 400 texts of 20 ms on two threads: 4 s.
        let bulk = scope.spawn(|| ask(server.address, &search_all(&numbered("bulk", 400))));
        until("the bulk waits", 5000 * MS, || encoder.waiting() == 2);
        let late = ask(server.address, &search_all(&numbered("late", 300)));
        late.assert_fault(503);
        let wait: u64 = late.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time");
        assert!((2..=6).contains(&wait), "{wait} s for a queue of about 3 s");
        encoder.go_on();
        // One text takes its turn among the others, and need not wait for all of them.
        assert_eq!(ask(server.address, &search("single")).status, 200);
        assert_eq!(bulk.join().expect("an answer").status, 200);
    });
}

/// A known fault of Text Embeddings Inference (#662): one form was queued where the other was refused.
#[test]
fn a_text_and_a_list_of_one_are_treated_alike() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let server = Server::start(&library, encoder.clone(), narrow(1, 1, 5000 * MS));
    let forms = [
        search("one"),
        search_all(&["one".into()]),
        post("/embed", &json!({ "inputs": "one" })),
        post("/embed", &json!({ "inputs": ["one"] })),
        post("/v1/embeddings", &json!({ "input": "one" })),
        post("/v1/embeddings", &json!({ "input": ["one"] })),
        post("/retrieve", &json!({ "query": "one" })),
        post("/retrieve", &json!({ "queries": ["one"] })),
    ];
    for form in &forms {
        assert_eq!(ask(server.address, form).status, 200, "without load");
    }
    encoder.hold();
    let mut held: Vec<Client> = (0..3)
        .map(|number| {
            let mut client = Client::new(server.address).expect("a connection");
            client.write(&search(&format!("held {number}"))).expect("a request");
            until("it is under way", 5000 * MS, || server.service.engine().backlog() + encoder.waiting() > number);
            client
        })
        .collect();
    for form in &forms {
        ask(server.address, form).assert_fault(503);
    }
    encoder.go_on();
    for client in &mut held {
        assert_eq!(client.read().expect("an answer").status, 200);
    }
    for form in &forms {
        assert_eq!(ask(server.address, form).status, 200, "after the load");
    }
}

/// The load under which Text Embeddings Inference lost replies: batches of five texts of one letter, five at a time.
#[test]
fn small_batches_of_short_texts_are_never_lost() {
    let library = Library::new(20, 100);
    let server = Server::with_model(&library, options());
    let letters = |number: usize| {
        let letter = |at: usize| char::from(b'a' + ((number * 7 + at * 3) % 26) as u8).to_string();
        post("/embed", &json!({ "inputs": (0..5).map(letter).collect::<Vec<_>>() }))
    };
    let answers = load(&server, 5, 400, letters);
    assert_eq!(answers.len(), 2000);
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json().as_array().map(Vec::len), Some(5));
    }
    for kind in ["panic", "error", "hang"] {
        assert_eq!(server.metric(&format!("hindsearch_worker_failures_total{{kind=\"{kind}\"}}")), 0.0);
    }
}

#[test]
fn requests_in_flight_are_bounded() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let limits = Limits { in_flight: 8, ..Limits::default() };
    let server = Server::start(&library, encoder.clone(), ServeOptions { limits, ..options() });
    encoder.hold();
    let mut held: Vec<Client> = (0..8).map(|_| Client::new(server.address).expect("a connection")).collect();
    for (number, client) in held.iter_mut().enumerate() {
        client.write(&search(&format!("held {number}"))).expect("a request");
    }
    until("all are in flight", 5000 * MS, || server.metric("hindsearch_requests_in_flight") == 8.0);
    ask(server.address, &search("one more")).assert_fault(503);
    assert_eq!(ask(server.address, &get("/readyz")).status, 200, "those that watch the server are always answered");
    encoder.go_on();
    for client in &mut held {
        assert_eq!(client.read().expect("an answer").status, 200);
    }
    assert_eq!(ask(server.address, &search("one more")).status, 200);
}

#[test]
fn clients_that_leave_cost_nothing() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let limits = Limits { in_flight: 2000, ..Limits::default() };
    let server = Server::start(&library, encoder.clone(), ServeOptions { limits, ..narrow(4, 16_384, 5000 * MS) });
    encoder.hold();
    let mut clients: Vec<Client> = (0..1000).map(|_| Client::new(server.address).expect("a connection")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(&search(&format!("left {number}"))).expect("a request");
    }
    until("all wait", 20_000 * MS, || server.service.engine().backlog() + encoder.texts() == 1000);
    assert_eq!(server.metric("hindsearch_requests_in_flight"), 1000.0);
    drop(clients);
    until("none is in flight", 5000 * MS, || server.metric("hindsearch_requests_in_flight") == 0.0);
    assert_eq!(server.metric("hindsearch_queue_texts"), 0.0);
    let cancelled = server.metric("hindsearch_cancelled_total");
    assert!(cancelled >= 992.0, "{cancelled} of 1,000 are counted");
    encoder.go_on();
    assert_eq!(ask(server.address, &search("stayed")).status, 200);
    // Two windows of up to four texts were under way.
    let texts = encoder.texts();
    assert!(texts <= 2 * 4 + 1, "{texts} texts were embedded, most of them for nobody");
    until("their connections are gone", 5000 * MS, || server.metric("hindsearch_connections") <= 1.0);
}

#[test]
fn a_request_past_its_deadline_is_told_and_not_worked_on() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let limits = Limits { deadline: 2000 * MS, ..Limits::default() };
    let server = Server::start(&library, encoder.clone(), ServeOptions { limits, ..narrow(1, 16_384, 5000 * MS) });
    encoder.hold();
    let mut busy: Vec<Client> = (0..2).map(|_| Client::new(server.address).expect("a connection")).collect();
    for (number, client) in busy.iter_mut().enumerate() {
        client.write(&search(&format!("busy {number}"))).expect("a request");
    }
    until("the model is busy", 5000 * MS, || encoder.waiting() == 2);
    let begun = Instant::now();
    ask(server.address, &search("too late")).assert_fault(504);
    assert!(begun.elapsed() >= 2000 * MS);
    let own = post_with("/v1/search", "X-Request-Timeout-Ms: 50\r\n", &json!({ "query": "much too late" }));
    let begun = Instant::now();
    ask(server.address, &own).assert_fault(504);
    assert!((50 * MS..1900 * MS).contains(&begun.elapsed()), "{:?} for the client's own 50 ms", begun.elapsed());
    // A client may shorten the deadline, not lengthen it.
    let longer = post_with("/v1/search", "X-Request-Timeout-Ms: 600000\r\n", &json!({ "query": "no later" }));
    ask(server.address, &longer).assert_fault(504);
    for wrong in ["0", "-1", "soon", "1.5"] {
        let request = post_with("/v1/search", &format!("X-Request-Timeout-Ms: {wrong}\r\n"), &json!({ "query": "q" }));
        ask(server.address, &request).assert_fault(422);
    }
    busy.iter_mut().for_each(|client| client.read().expect("an answer").assert_fault(504));
    encoder.go_on();
    assert_eq!(ask(server.address, &search("in time")).status, 200);
    assert!(["too late", "much too late", "no later"].iter().all(|text| encoder.times(text) == 0));
}

#[test]
fn what_many_ask_at_once_is_computed_once() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let server = Server::start(&library, encoder.clone(), options());
    encoder.hold();
    let mut clients: Vec<Client> = (0..50).map(|_| Client::new(server.address).expect("a connection")).collect();
    for client in &mut clients {
        client.write(&search("the same")).expect("a request");
    }
    until("all joined", 5000 * MS, || server.metric("hindsearch_deduplicated_total") == 49.0);
    // Two of those who wait leave; the others get their answer all the same.
    clients.truncate(48);
    encoder.go_on();
    let answers: Vec<_> = clients.iter_mut().map(|client| client.read().expect("an answer").ids()).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(encoder.times("the same"), 1);
}

#[test]
fn a_request_of_thousands_does_not_keep_others_waiting() {
    let library = Library::new(20, 100);
    let server = Server::start(&library, Faulty::slow(Duration::ZERO, MS), narrow(16, 16_384, 5000 * MS));
    std::thread::scope(|scope| {
        let bulk = scope.spawn(|| ask(server.address, &search_all(&numbered("bulk", 2560))));
        until("the bulk is under way", 5000 * MS, || server.service.engine().backlog() > 2000);
        for at in 0..10 {
            assert_eq!(ask(server.address, &search(&format!("single {at}"))).status, 200);
            assert!(server.service.engine().backlog() > 500, "single {at} was answered when the bulk was nearly done");
        }
        assert!(!bulk.is_finished());
        assert_eq!(bulk.join().expect("an answer").ids().len(), 2560);
    });
}

#[test]
fn what_can_be_done_in_time_is_not_refused_after_quiet_hours() {
    let library = Library::new(20, 100);
    // A run of the model takes as long for one text as for sixteen, and single texts are all that was measured.
    let server = Server::start(&library, Faulty::slow(20 * MS, Duration::ZERO), narrow(16, 16_384, 1000 * MS));
    for at in 0..5 {
        assert_eq!(ask(server.address, &search(&format!("quiet {at}"))).status, 200);
    }
    std::thread::scope(|scope| {
        let bulks = ["one", "two", "three"].map(|bulk| {
            let server = &server;
            scope.spawn(move || ask(server.address, &search_all(&numbered(bulk, 256))).status)
        });
        assert_eq!(bulks.map(|bulk| bulk.join().expect("an answer")), [200; 3]);
    });
}
