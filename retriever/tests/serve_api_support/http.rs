//! HTTP as bytes: a client that sends whatever it is told to, right or wrong.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A request; the head's `Host`, `Content-Length` and `Connection` are added unless they are given.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An answer; names of headers are in lower case.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

pub fn get(target: &str) -> Request {
    Request::new("GET", target)
}

pub fn post(target: &str, body: &Value) -> Request {
    Request::new("POST", target).header("Content-Type", "application/json").body(body.to_string())
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn headers(self, headers: &[(&str, &str)]) -> Self {
        headers.iter().fold(self, |request, (name, value)| request.header(name, value))
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// As it goes over the wire.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        self.headers.iter().for_each(|(name, value)| add(name, value));
        if !has("host") {
            add("Host", host);
        }
        if !has("content-length") && !has("transfer-encoding") && (!self.body.is_empty() || self.method == "POST") {
            add("Content-Length", &self.body.len().to_string());
        }
        if !has("connection") {
            add("Connection", "close");
        }
        head.push_str("\r\n");
        [head.into_bytes(), self.body.clone()].concat()
    }

    /// Asks the server there.
    #[track_caller]
    pub fn ask(&self, server: SocketAddr) -> Answer {
        let bytes = self.bytes(&server.to_string());
        let mut answers = exchange(server, &bytes);
        assert_eq!(answers.len(), 1, "{} {}: {answers:?}", self.method, self.target);
        answers.remove(0)
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The answer's JSON, which must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// That this is an error as every path promises it: status, code, a message with all of `words`, and the id of the
    /// request, which the header has, too.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: &str, words: &[&str]) {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty() && words.iter().all(|word| message.contains(word)), "no {words:?} in {message:?}");
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"), "{body}");
    }
}

/// Sends these bytes and reads all answers until the server closes the connection.
pub fn exchange(server: SocketAddr, bytes: &[u8]) -> Vec<Answer> {
    let stream = TcpStream::connect(server).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    talk(stream, bytes)
}

/// The same on a connection that is open.
pub fn talk(mut stream: impl Read + Write, bytes: &[u8]) -> Vec<Answer> {
    // A server that says no early need not take all; what it says counts.
    let _ = stream.write_all(bytes);
    let _ = stream.flush();
    let mut received = Vec::new();
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
    }
    parse(&received)
}

/// The answers in what was received, without interim ones.
pub fn parse(mut received: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&received[..end]).into_owned();
        received = &received[end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if status == 100 {
            continue;
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let (body, rest) = received.split_at(received.len().min(length));
        (answer.body, received) = (body.to_vec(), rest);
        answers.push(answer);
    }
    answers
}
