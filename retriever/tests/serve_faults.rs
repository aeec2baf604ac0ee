//! What becomes of requests when the model fails, and when clients are slow.
#![cfg(feature = "serve")]

mod serve_support;

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hindsearch_retriever::serve::{EngineOptions, Limits, ServeOptions};
use serde_json::json;
use serve_support::faulty::Faulty;
use serve_support::http::{Answer, Client, ask, get, post, post_with, search, until};
use serve_support::{Library, Server, options};

const MS: Duration = Duration::from_millis(1);
/// Connections of each kind of slow client.
const SLOW: usize = 100;

fn patient(patience: Duration) -> ServeOptions {
    ServeOptions { engine: EngineOptions { patience, window: 16, ..EngineOptions::default() }, ..options() }
}

fn ready(server: &Server) -> bool {
    ask(server.address, &get("/readyz")).status == 200
}

/// Asks for `bad` and for 30 others that share its batches, and gives the answer to `bad`; all others must be right.
fn ask_among_others(server: &Server, encoder: &Faulty, bad: &str) -> Answer {
    encoder.hold();
    let texts: Vec<String> = (0..31).map(|at| if at == 15 { bad.into() } else { format!("{bad:.3} {at}") }).collect();
    let ask = |text: &String| {
        let mut client = Client::new(server.address).expect("a connection");
        client.write(&search(text)).expect("a request");
        client
    };
    let mut clients: Vec<Client> = texts.iter().map(ask).collect();
    until("all wait", 5000 * MS, || server.service.engine().backlog() + encoder.texts() >= 31);
    encoder.go_on();
    let answers: Vec<Answer> = clients.iter_mut().map(|client| client.read().expect("an answer")).collect();
    for (text, answer) in texts.iter().zip(&answers).filter(|(text, _)| *text != bad) {
        assert_eq!(answer.status, 200, "{text:?} pays for {bad:?}: {}", answer.text());
        assert_eq!(answer.ids()[0].len(), 3);
    }
    answers[15].clone()
}

#[test]
fn a_text_that_the_model_fails_on_costs_its_own_request_only() {
    let library = Library::new(20, 100);
    for bad in ["bad <fail>", "bad <panic>"] {
        let encoder = Faulty::quick();
        let server = Server::start(&library, encoder.clone(), patient(20_000 * MS));
        let answer = ask_among_others(&server, &encoder, bad);
        answer.assert_fault(500);
        assert!(answer.text().contains("cannot bear"), "the cause is told: {}", answer.text());
        // Never mind how often: no thread is lost.
        for _ in 0..20 {
            ask(server.address, &search(bad)).assert_fault(500);
        }
        assert_eq!(ask(server.address, &search("well")).status, 200);
        assert!(ready(&server));
        let kind = if bad.contains("fail") { "error" } else { "panic" };
        assert!(server.metric(&format!("hindsearch_worker_failures_total{{kind=\"{kind}\"}}")) >= 21.0);
    }
}

#[test]
fn a_text_that_the_model_hangs_on_costs_its_own_request_only() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let server = Server::start(&library, encoder.clone(), patient(300 * MS));
    ask_among_others(&server, &encoder, "bad <hang>").assert_fault(504);
    // The threads that hang have successors.
    for at in 0..10 {
        assert_eq!(ask(server.address, &search(&format!("well {at}"))).status, 200);
    }
    assert!(ready(&server), "two threads are lost, which it can bear");
    assert_eq!(server.metric("hindsearch_worker_failures_total{kind=\"hang\"}"), 2.0);
    encoder.free();
}

#[test]
fn a_server_that_cannot_go_on_says_so_and_is_ready_again_when_it_can() {
    let library = Library::new(20, 100);
    let encoder = Faulty::quick();
    let limits = Limits { deadline: 10_000 * MS, ..Limits::default() };
    let server = Server::start(&library, encoder.clone(), ServeOptions { limits, ..patient(100 * MS) });
    let mut hanging = Vec::new();
    for number in 0..6 {
        let mut client = Client::new(server.address).expect("a connection");
        client.write(&search(&format!("{number} <hang>"))).expect("a request");
        hanging.push(client);
        let most = 5000 * MS;
        until("it hangs", most, || encoder.waiting() > number);
    }
    hanging.iter_mut().for_each(|client| client.read().expect("an answer").assert_fault(504));
    let answer = ask(server.address, &get("/readyz"));
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("hang"), "{}", answer.text());
    // Nobody waits for threads that are not there.
    let begun = Instant::now();
    ask(server.address, &search("well")).assert_fault(503);
    assert!(begun.elapsed() < 5000 * MS);
    assert_eq!(ask(server.address, &get("/livez")).status, 200);
    encoder.free();
    until("it is ready again", 5000 * MS, || ready(&server));
    for at in 0..10 {
        assert_eq!(ask(server.address, &search(&format!("well {at}"))).status, 200);
    }
}

/// A server with short limits of time, with clients of one kind, and whether another client is served well meanwhile.
fn with_slow_clients(limits: Limits, count: usize, slow: impl Fn(SocketAddr) + Sync) {
    let library = Library::new(20, 10_000);
    let server = Server::start(&library, Faulty::quick(), ServeOptions { limits, ..options() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let normal = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) || asked < 10 {
                // Three of these long passages would be a large answer, which may have to wait for memory.
                let request = json!({ "query": format!("normal {asked}"), "top_k": 1 });
                let answer = ask(server.address, &post("/v1/search", &request));
                assert_eq!(answer.status, 200, "{}", answer.text());
                asked += 1;
                std::thread::sleep(5 * MS);
            }
        });
        let clients: Vec<_> = (0..count).map(|_| scope.spawn(|| slow(server.address))).collect();
        let outcomes: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        normal.join().expect("answers to the normal client");
        outcomes.into_iter().for_each(|outcome| outcome.expect("a slow client that was dealt with"));
    });
    until("all are gone", 5000 * MS, || server.metric("hindsearch_connections") <= 1.0);
    assert_eq!(server.metric("hindsearch_requests_in_flight"), 0.0);
}

#[test]
fn slow_heads_are_cut_off() {
    let limits = Limits { head: 500 * MS, idle: 20_000 * MS, ..Limits::default() };
    with_slow_clients(limits, SLOW, |address| {
        let mut client = Client::new(address).expect("a connection");
        let head = get("/readyz");
        let begun = Instant::now();
        // A byte each 100 ms: the whole head would take seconds.
        for byte in head {
            if client.write(&[byte]).is_err() {
                break;
            }
            let passed = begun.elapsed();
            if client.closed_after(100 * MS).is_some() {
                return;
            }
            assert!(passed < 5500 * MS, "open after {passed:?}");
        }
        assert!(begun.elapsed() >= 500 * MS, "cut off after {:?}", begun.elapsed());
    });
}

#[test]
fn slow_bodies_are_told_and_cut_off() {
    let limits = Limits { body_time: 500 * MS, ..Limits::default() };
    with_slow_clients(limits, SLOW, |address| {
        let mut client = Client::new(address).expect("a connection");
        let request = search("a body that comes byte by byte");
        let body = request.len() - 20;
        let begun = Instant::now();
        client.write(&request[..body]).expect("the head and some of the body");
        let answer = client.read().expect("an answer");
        answer.assert_fault(408);
        assert!((500 * MS..5500 * MS).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert!(client.closed_after(3000 * MS).is_some(), "what comes next could not be told from the body");
    });
}

#[test]
fn clients_that_do_not_take_their_answer_are_cut_off() {
    let limits = Limits { body_time: 500 * MS, idle: 60_000 * MS, ..Limits::default() };
    // Twelve megabytes each, three times what the system takes from the server on their behalf.
    with_slow_clients(limits, SLOW / 5, |address| {
        let mut client = Client::new(address).expect("a connection");
        let much = json!({ "queries": vec!["much"; 64], "top_k": 20 });
        // One that is refused for lack of memory is gone at once.
        client.write(&post_with("/v1/search", "Connection: close\r\n", &much)).expect("a request");
        // A little now and then does not help.
        let (mut some, mut taken) = ([0; 1024], 0);
        for _ in 0..30 {
            taken += client.0.get_mut().read(&mut some).unwrap_or(0);
            std::thread::sleep(100 * MS);
        }
        let mut rest = Vec::new();
        // What the system holds still comes, and then the end.
        let _ = client.0.get_mut().read_to_end(&mut rest);
        taken += rest.len();
        assert!((1..11_000_000).contains(&taken), "{taken} bytes came, of 12 million");
    });
}

#[test]
fn silent_connections_are_closed() {
    let limits = Limits { idle: 500 * MS, ..Limits::default() };
    with_slow_clients(limits, SLOW, |address| {
        let mut client = Client::new(address).expect("a connection");
        let begun = Instant::now();
        assert_eq!(client.ask(&get("/livez")).expect("an answer").status, 200);
        assert!(client.closed_after(5500 * MS).is_some(), "a connection that stays open");
        assert!(begun.elapsed() >= 500 * MS, "closed after {:?}", begun.elapsed());
    });
}

/// Most clients read no answer before they have sent all of their request.
#[test]
fn an_answer_before_the_end_of_the_request_arrives() {
    let library = Library::new(20, 100);
    let limits = Limits { body: 1 << 20, ..Limits::default() };
    let server = Server::start(&library, Faulty::quick(), ServeOptions { limits, ..options() });
    let body = json!({ "query": "x".repeat(8 << 20) });
    for _ in 0..20 {
        ask(server.address, &post("/v1/search", &body)).assert_fault(413);
        ask(server.address, &post("/nowhere", &body)).assert_fault(404);
        ask(server.address, &post("/readyz", &body)).assert_fault(405);
    }
    assert_eq!(ask(server.address, &search("well")).status, 200);
}

#[test]
fn thousands_of_silent_connections_do_no_harm() {
    let library = Library::new(20, 100);
    let server = Server::start(&library, Faulty::quick(), options());
    let idle: Vec<Client> = (0..2000)
        .map(|number| {
            let mut client = Client::new(server.address).expect("a connection");
            // Half of them have asked before.
            if number % 2 == 0 {
                assert_eq!(client.ask(&get("/livez")).expect("an answer").status, 200);
            }
            client
        })
        .collect();
    until("all are open", 20_000 * MS, || server.metric("hindsearch_connections") >= 2000.0);
    for at in 0..50 {
        assert_eq!(ask(server.address, &search(&format!("normal {at}"))).status, 200);
    }
    let mut idle = idle;
    for client in &mut idle {
        assert_eq!(client.ask(&search("at last")).expect("an answer").status, 200);
    }
    drop(idle);
    until("all are gone", 20_000 * MS, || server.metric("hindsearch_connections") <= 1.0);
}

/// A server with four places, all of them taken by clients that have been answered.
fn with_four_places(encoder: &Arc<Faulty>) -> (Library, Server, Vec<Client>) {
    let library = Library::new(20, 100);
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Server::start(&library, Arc::clone(encoder) as _, ServeOptions { limits, ..options() });
    let taken = (0..4).map(|_| {
        let mut client = Client::new(server.address).expect("a connection");
        assert_eq!(client.ask(&get("/livez")).expect("an answer").status, 200);
        std::thread::sleep(5 * MS);
        client
    });
    let taken = taken.collect();
    (library, server, taken)
}

#[test]
fn no_more_connections_than_allowed_are_taken_and_the_others_wait() {
    let encoder = Faulty::quick();
    let (_library, server, mut taken) = with_four_places(&encoder);
    encoder.hold();
    for (number, client) in taken.iter_mut().enumerate() {
        client.write(&search(&format!("held {number}"))).expect("a request");
    }
    until("all are worked on", 5000 * MS, || server.service.active() == 4);
    let mut fifth = Client::new(server.address).expect("a place in the system's queue");
    fifth.write(&get("/livez")).expect("a request");
    assert!(fifth.closed_after(300 * MS).is_none());
    taken.pop();
    fifth.0.get_ref().set_read_timeout(Some(5000 * MS)).expect("a socket");
    assert_eq!(fifth.read().expect("an answer once there is a place").status, 200);
    encoder.go_on();
    for client in &mut taken {
        assert_eq!(client.read().expect("an answer").status, 200);
    }
}

/// Whoever opens connections and asks nothing must not shut out those who ask.
#[test]
fn a_connection_on_which_nothing_happens_makes_place() {
    let encoder = Faulty::quick();
    let (_library, server, mut taken) = with_four_places(&encoder);
    encoder.hold();
    taken[0].write(&search("held")).expect("a request");
    until("one is worked on", 5000 * MS, || server.service.active() == 1);
    assert_eq!(ask(server.address, &get("/livez")).status, 200);
    assert!(taken[1].closed_after(5000 * MS).is_some(), "the one that is silent for the longest time leaves");
    // A head that does not go on is no reason to stay.
    let mut slow = Client::new(server.address).expect("a connection");
    slow.write(b"GET /livez HT").expect("part of a head");
    for at in 0..20 {
        assert_eq!(ask(server.address, &get(&format!("/livez?{at}"))).status, 200);
        let others: Vec<_> = (0..4).map(|_| Client::new(server.address).expect("a connection")).collect();
        assert_eq!(ask(server.address, &get("/livez")).status, 200);
        drop(others);
    }
    assert!(slow.closed_after(5000 * MS).is_some(), "a head that never ends");
    encoder.go_on();
    assert_eq!(taken[0].read().expect("the answer to who asked").status, 200);
}

/// As a load balancer sees it: what is asked when the server is told to stop is answered, and nothing after.
#[test]
fn a_server_that_stops_finishes_what_it_began() {
    let library = Library::new(20, 10_000);
    let encoder = Faulty::quick();
    let server = Server::start(&library, encoder.clone(), options());
    let (address, service) = (server.address, Arc::clone(&server.service));
    let mut silent = Client::new(address).expect("a connection");
    let mut halfway = Client::new(address).expect("a connection");
    halfway.write(&get("/readyz")[..10]).expect("some of a head");
    let mut known = Client::new(address).expect("a connection");
    assert_eq!(known.ask(&get("/readyz")).expect("an answer").status, 200);
    encoder.hold();
    let mut clients: Vec<Client> = (0..20).map(|_| Client::new(address).expect("a connection")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        // Six megabytes each, which no buffer holds.
        let body = json!({ "queries": vec![format!("under way {number}"); 32], "top_k": 20 });
        client.write(&post("/v1/search", &body)).expect("a request");
    }
    // One window may hold the texts of all of them, or two.
    until("all wait", 5000 * MS, || service.active() == 20 && encoder.waiting() >= 1);
    until("all are in flight", 5000 * MS, || server.metric("hindsearch_requests_in_flight") == 20.0);
    server.stop();
    until("it is not ready", 5000 * MS, || ask(address, &get("/readyz")).status == 503);
    let answer = known.ask(&get("/readyz")).expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
    ask(address, &search("too late")).assert_fault(503);
    encoder.go_on();
    // They take their time with the answer.
    std::thread::sleep(300 * MS);
    for client in &mut clients {
        let answer = client.read().expect("a whole answer");
        assert_eq!(answer.ids()[0].len(), 20);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    for client in [&mut silent, &mut halfway] {
        assert!(client.closed_after(5000 * MS).is_some(), "a connection without a request is not waited for");
    }
    until("it has ended", 5000 * MS, || server.has_ended());
    assert!(Client::new(address).is_err(), "nobody listens any more");
    server.join();
}

#[test]
fn who_is_not_done_when_the_time_is_over_is_told() {
    let library = Library::new(20, 100);
    for told_twice in [false, true] {
        let encoder = Faulty::quick();
        let drain = if told_twice { 60_000 * MS } else { 300 * MS };
        let limits = Limits { drain, ..Limits::default() };
        let server = Server::start(&library, encoder.clone(), ServeOptions { limits, ..options() });
        encoder.hold();
        let mut client = Client::new(server.address).expect("a connection");
        client.write(&search("never")).expect("a request");
        until("it is under way", 5000 * MS, || encoder.waiting() == 1);
        server.stop();
        if told_twice {
            until("it drains", 5000 * MS, || ask(server.address, &get("/readyz")).status == 503);
            server.stop();
        }
        client.read().expect("an answer").assert_fault(503);
        until("it has ended", 5000 * MS, || server.has_ended());
        encoder.go_on();
    }
}

/// Memory for large answers is held until they are sent, and small requests never wait for it.
#[test]
fn answers_that_nobody_reads_keep_out_large_ones_alone() {
    // Twelve megabytes an answer, counted as five times as much.
    let library = Library::new(20, 9000);
    let engine = EngineOptions { answers_bytes: 80 << 20, ..EngineOptions::default() };
    let server = Server::start(&library, Faulty::quick(), ServeOptions { engine, ..options() });
    let much = post("/v1/search", &json!({ "queries": vec!["much"; 64], "top_k": 20 }));
    let mut slow = Client::new(server.address).expect("a connection");
    slow.write(&much).expect("a request");
    let mut first = [0; 1];
    slow.0.get_mut().read_exact(&mut first).expect("the begin of an answer");
    let refused = ask(server.address, &much);
    refused.assert_fault(503);
    assert!(refused.text().contains("large answers"), "{}", refused.text());
    assert_eq!(ask(server.address, &post("/v1/search", &json!({ "query": "little" }))).status, 200);
    drop(slow);
    until("the memory is free", 10_000 * MS, || ask(server.address, &much).status == 200);
}

#[test]
fn an_answer_of_more_than_can_be_sent_is_refused() {
    let library = Library::new(20, 9000);
    let engine = EngineOptions { answer_bytes: 1 << 20, ..EngineOptions::default() };
    let server = Server::start(&library, Faulty::quick(), ServeOptions { engine, ..options() });
    let ask_for = |queries: usize| {
        ask(server.address, &post("/v1/search", &json!({ "queries": vec!["x"; queries], "top_k": 20 })))
    };
    assert_eq!(ask_for(2).status, 200);
    ask_for(64).assert_fault(422);
}
