//! The server as a process: how it starts, how it stops, and what it does without descriptors.
#![cfg(feature = "serve")]

mod common;
#[path = "../retriever/tests/serve_support/http.rs"]
#[allow(dead_code, reason = "the server's own tests use more of it")]
mod http;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Bench;
use http::{Client, ask, get, search, search_all, until};

const MS: Duration = Duration::from_millis(1);

/// A server as a child process, which ends with the test.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `command` and waits for the line that tells where it serves.
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let mut said = String::new();
            let _ = child.stderr.as_mut().expect("a pipe").read_to_string(&mut said);
            panic!("{error}: {line:?}, {said}")
        });
        let address = told["address"].as_str().and_then(|address| address.strip_prefix("http://")).expect("an address");
        Self { address: address.parse().expect("an address"), child }
    }

    fn signal(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    /// The exit code, and what was said on standard error.
    fn end(mut self, most: Duration) -> (Option<i32>, String) {
        until("it has ended", most, || self.child.try_wait().expect("a child").is_some());
        let code = self.child.wait().expect("an end").code();
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (code, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn index() -> Bench {
    let bench = Bench::new();
    bench.corpus("c.jsonl", 300);
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    bench
}

fn serve(bench: &Bench) -> Command {
    bench.command(&["serve", "index", "--port", "0", "--json", "--no-access-log"])
}

fn numbered(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what} {at} river mountain city king element planet film")).collect()
}

#[test]
fn a_stop_lets_requests_end_and_the_exit_is_a_success() {
    let bench = index();
    let server = Server::start(serve(&bench));
    let mut clients: Vec<Client> = (0..200).map(|_| Client::new(server.address).expect("a connection")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(&search_all(&numbered(&format!("under way {number}"), 16))).expect("a request");
    }
    let seen = || http::metric(server.address, "hindsearch_requests_in_flight");
    until("many are in flight", 10_000 * MS, || seen() > 100.0);
    server.signal();
    let mut good = 0;
    for client in &mut clients {
        let answer = client.read().expect("an answer to every request");
        match answer.status {
            200 => {
                assert_eq!(answer.ids().len(), 16);
                good += 1;
            }
            _ => answer.assert_fault(503),
        }
    }
    assert!(good >= 100, "{good} of 200 were finished");
    let (code, said) = server.end(30_000 * MS);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn not_ready_is_told_at_once_and_a_second_signal_does_not_wait() {
    let bench = index();
    let server = Server::start(serve(&bench));
    // Work for many seconds.
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(server.address).expect("a connection")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(&search_all(&numbered(&format!("{number}"), 4000))).expect("a request");
    }
    let mut known = Client::new(server.address).expect("a connection");
    assert_eq!(known.ask(&get("/readyz")).expect("an answer").status, 200);
    until("they wait", 10_000 * MS, || http::metric(server.address, "hindsearch_queue_texts") > 4000.0);
    server.signal();
    until("it is not ready", 2000 * MS, || ask(server.address, &get("/readyz")).status == 503);
    assert_eq!(known.ask(&get("/readyz")).expect("an answer").header("connection"), Some("close"));
    ask(server.address, &search("too late")).assert_fault(503);
    let begun = Instant::now();
    server.signal();
    for client in &mut clients {
        let answer = client.read().expect("an answer, if only that there is none");
        assert!(answer.status == 200 || answer.status == 503, "{}", answer.status);
    }
    let (code, said) = server.end(5000 * MS);
    assert_eq!(code, Some(0), "{said}");
    assert!(begun.elapsed() < 5000 * MS);
}

#[test]
fn a_taken_port_is_told_before_anything_is_loaded() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    // There is no index at all, and that is not what it complains of.
    bench.refused(&["serve", "nothing", "--port", &port], 9, &[&port, "another program has it", "--port"]);
    bench.refused(&["serve", "nothing", "--port", "0"], 3, &["nothing"]);
}

#[test]
fn nobody_can_connect_before_the_index_serves() {
    let bench = index();
    // A port that is free now, and hardly taken by anyone within a second.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let port = free.port().to_string();
    let mut command = bench.command(&["serve", "index", "--port", &port, "--json", "--no-access-log"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut first = None;
    let begun = Instant::now();
    while first.is_none() && begun.elapsed() < 30_000 * MS {
        first = Client::new(free).and_then(|mut client| client.ask(&search("river"))).ok();
    }
    child.kill().expect("a running server");
    child.wait().expect("an end");
    assert_eq!(first.expect("an answer").status, 200, "the first that can connect is answered");
}

#[test]
fn a_server_without_descriptors_survives_and_goes_on() {
    let bench = index();
    let mut limited = Command::new("sh");
    let server = serve(&bench);
    limited.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""]).arg(server.get_program()).args(server.get_args());
    limited.current_dir(server.get_current_dir().expect("a folder")).stdin(Stdio::null());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let server = Server::start(limited);
    let mut first = Client::new(server.address).expect("a connection");
    assert_eq!(first.ask(&search("river")).expect("an answer").status, 200);
    let crowd: Vec<Client> = (0..200).map(|_| Client::new(server.address).expect("a connection")).collect();
    std::thread::sleep(500 * MS);
    // Those who have asked before are served, and so is a new generation: connections never take the last descriptors.
    for at in 0..10 {
        assert_eq!(first.ask(&search(&format!("river {at}"))).expect("an answer").status, 200);
    }
    bench.ok(&["build", "c.jsonl", "--out", "index"]);
    let generation = |client: &mut Client| {
        client.ask(&search("river")).expect("an answer").json()["index"]["generation"].as_u64().expect("a number")
    };
    until("the new generation is served", 20_000 * MS, || generation(&mut first) == 2);
    drop(crowd);
    let begun = Instant::now();
    assert_eq!(ask(server.address, &search("river")).status, 200);
    assert!(begun.elapsed() < 5000 * MS, "accepted {:?} after the others left", begun.elapsed());
    server.signal();
    let (code, said) = server.end(30_000 * MS);
    assert_eq!(code, Some(0), "{said}");
}

/// A log that nobody reads must not keep the server from ending.
#[test]
fn a_full_pipe_does_not_keep_it_alive() {
    let bench = index();
    let server = Server::start(bench.command(&["serve", "index", "--port", "0", "--json"]));
    let path = format!("/{}", "x".repeat(500));
    let mut client = Client::new(server.address).expect("a connection");
    for _ in 0..400 {
        assert_eq!(client.ask(&get(&path)).expect("an answer").status, 404);
    }
    server.signal();
    let mut server = server;
    until("it has ended", Duration::from_secs(20), || server.child.try_wait().expect("a child").is_some());
    assert_eq!(server.child.wait().expect("an end").code(), Some(0));
}

#[test]
fn tokens_are_read_again_when_their_file_changes() {
    let bench = index();
    let file = bench.write("tokens", "first-token-of-some-length\n");
    let server = Server::start(bench.command(&["serve", "index", "--port", "0", "--json", "--token-file", "tokens"]));
    let status = |token: &str| {
        let request = format!("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        ask(server.address, request.as_bytes()).status
    };
    assert_eq!((status("first-token-of-some-length"), status("second-token-of-some-length")), (200, 401));
    std::thread::sleep(10 * MS);
    std::fs::write(&file, "second-token-of-some-length\n").expect("a written file");
    until("the new token is known", Duration::from_secs(20), || status("second-token-of-some-length") == 200);
    assert_eq!(status("first-token-of-some-length"), 401);
    std::fs::write(&file, "").expect("a written file");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(status("second-token-of-some-length"), 200, "a file without a token changes nothing");
}
