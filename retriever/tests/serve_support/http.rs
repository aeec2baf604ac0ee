//! A client that does exactly what it is told: HTTP/1.1 over a socket, one request after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A test that waits longer has found a server that hangs.
const FOREVER: Duration = Duration::from_secs(60);

/// An answer, with the names of its headers in lower case.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// That this is an error as all errors are: JSON with these keys, and the time to come back where it is 503.
    #[track_caller]
    pub fn assert_fault(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
        let body = self.json();
        for key in ["code", "message", "request_id"] {
            assert!(body[key].as_str().is_some_and(|text| !text.is_empty()), "no {key} in {body}");
        }
        let wait = self.header("retry-after").map(|seconds| seconds.parse::<u64>().expect("whole seconds"));
        assert_eq!(wait.is_some(), status == 503, "{:?}", self.headers);
        assert!(wait.is_none_or(|seconds| (1..=30).contains(&seconds)), "Retry-After {wait:?}");
    }

    /// The ids found for each query.
    pub fn ids(&self) -> Vec<Vec<String>> {
        assert_eq!(self.status, 200, "{}", self.text());
        let body = self.json();
        let hits = |result: &Value| {
            let hits = result["hits"].as_array().expect("hits").iter();
            hits.map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect()
        };
        body["results"].as_array().expect("results").iter().map(hits).collect()
    }
}

/// A connection.
pub struct Client(pub BufReader<TcpStream>);

impl Client {
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, FOREVER)?;
        stream.set_read_timeout(Some(FOREVER))?;
        stream.set_write_timeout(Some(FOREVER))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends these bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// The next answer.
    pub fn read(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        self.line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {line:?}")))?;
        let mut answer = Answer { status, headers: Vec::new(), body: Vec::new() };
        while self.line(&mut line)? > 0 {
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(line.clone()))?;
            answer.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        answer.body = vec![0; length.ok_or_else(|| io::Error::other("no Content-Length"))?];
        self.0.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    fn line(&mut self, line: &mut String) -> io::Result<usize> {
        line.clear();
        if self.0.read_line(line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line.len())
    }

    pub fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.write(request)?;
        self.read()
    }

    /// How long the server takes to close the connection, whatever it still sends.
    pub fn closed_after(&mut self, most: Duration) -> Option<Duration> {
        let begun = Instant::now();
        self.0.get_ref().set_read_timeout(Some(most)).ok()?;
        let mut unread = [0; 1 << 16];
        while begun.elapsed() <= most {
            match self.0.read(&mut unread) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return None;
                }
                Ok(0) | Err(_) => return Some(begun.elapsed()),
            }
        }
        None
    }
}

/// A request without a body.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// A request with JSON and these further lines in its head.
pub fn post_with(path: &str, lines: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A request with JSON.
pub fn post(path: &str, body: &Value) -> Vec<u8> {
    post_with(path, "", body)
}

/// A search for one text.
pub fn search(query: &str) -> Vec<u8> {
    post("/v1/search", &json!({ "query": query }))
}

/// A search for several.
pub fn search_all(queries: &[String]) -> Vec<u8> {
    post("/v1/search", &json!({ "queries": queries }))
}

/// Asks once, on a connection of its own.
pub fn ask(address: SocketAddr, request: &[u8]) -> Answer {
    Client::new(address).and_then(|mut client| client.ask(request)).expect("an answer")
}

/// The value of a counter or gauge.
pub fn metric(address: SocketAddr, name: &str) -> f64 {
    let page = ask(address, &get("/metrics")).text();
    let lines = page.lines().filter_map(|line| line.rsplit_once(' ')).filter(|(key, _)| *key == name);
    lines.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
}

/// Waits until something is so; a test that waits in vain fails with `what`.
#[track_caller]
pub fn until(what: &str, most: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < most, "not within {most:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}
