//! A small index, and a server that answers `POST /v1/search` from it by the book, unless it is told to fail.

#![allow(dead_code, reason = "each test file uses its own part")]

#[path = "../tiny_index/mod.rs"]
mod tiny_index;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hindsearch_retriever::{OpenOptions, Ranked, RemoteOptions, RemoteRetriever, Retrieve, Retriever};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a server does with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    None,
    /// Closes the connection without an answer.
    Drop,
    /// Closes it with the body of the request unread, which resets it.
    Reset,
    /// Answers late.
    Delay(Duration),
    /// Sends this share of the answer, then closes the connection.
    Truncate(f64),
    /// Sends this body with the status 200.
    Body(String),
    /// Sends this status, header lines and body.
    Status(u16, &'static str, String),
    /// Says that the answer is of this generation.
    Generation(u64),
}

/// An index of 60 passages with all that is hard about text, open.
pub struct Shelf {
    folder: TempDir,
    pub local: Arc<Retriever>,
}

impl Shelf {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut lines = vec![
            json!({"id": "plain", "contents": "\"Radium\"\nRadium was found by Marie and Pierre Curie in 1898."}),
            json!({"id": "ünï-çödé 😀", "contents": "Citibank\nA bank — “Citi” — with a bare title.\u{2028}\t\u{7f}"}),
            json!({"id": "no title", "contents": "nothing stands above this text"}),
            json!({"id": "lines", "title": "", "text": "no title\nand two lines, \"quoted\" \\ escaped \u{1}\u{1b}[31m"}),
            json!({"id": "4", "title": "a title\nof two lines", "text": "Zażółć gęślą jaźń, 日本語のテキスト"}),
            json!({"id": "5", "contents": "\"\"Heroes\"\"\nA song by David Bowie.\r\n\r\n"}),
            json!({"id": "6", "contents": "\"Empty\"\n"}),
        ];
        let words = ["river", "bridge", "painter", "city", "war", "song", "bank", "island", "novel", "planet", "queen"];
        lines.extend((7..60).map(|row| {
            let word = |step: usize| words[(row * step + step) % words.len()];
            json!({"id": row.to_string(), "contents": format!("\"The {}\"\n{} {} {row}", word(1), word(3), word(5))})
        }));
        tiny_index::publish(folder.path(), &lines);
        let out = folder.path().join("index");
        let local = Arc::new(Retriever::open(&out, OpenOptions::default()).expect("an open index"));
        Self { folder, local }
    }

    /// A server for this index; `plan` is told the number of the request, from 0.
    pub fn serve(&self, plan: impl Fn(usize) -> Fault + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (local, log, plan) = (Arc::clone(&self.local), Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(plan));
        let connections = Arc::new(AtomicUsize::new(0));
        let server = Server { address, log: Arc::clone(&log), connections: Arc::clone(&connections) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (local, log, plan) = (Arc::clone(&local), Arc::clone(&log), Arc::clone(&plan));
                // A client that went away is none of the server's business.
                std::thread::spawn(move || while answer(&stream, &local, &log, &*plan).is_ok_and(|open| open) {});
            }
        });
        server
    }
}

/// Where a server listens, and what it was asked.
pub struct Server {
    pub address: String,
    log: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

/// A request: its head in lower case but for the values, and its number of queries; 0 when the body was not read.
#[derive(Debug, Clone)]
pub struct Asked {
    pub head: Vec<(String, String)>,
    pub queries: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Server {
    pub fn log(&self) -> Vec<Asked> {
        self.log.lock().expect("the log").clone()
    }

    /// Connections that were ever opened.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// A client of this server alone, made quick.
    pub fn client(&self, change: impl FnOnce(&mut RemoteOptions)) -> RemoteRetriever {
        client(&[self], change)
    }
}

/// A client of some servers that pauses for milliseconds only.
pub fn client(servers: &[&Server], change: impl FnOnce(&mut RemoteOptions)) -> RemoteRetriever {
    let addresses = servers.iter().map(|server| server.address.clone()).collect();
    let mut options = RemoteOptions { addresses, backoff: Duration::from_millis(5), ..RemoteOptions::default() };
    change(&mut options);
    RemoteRetriever::new(options).expect("options that can be used")
}

/// An address where nobody listens.
pub fn dead_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// Answers a request, and says whether the connection stays open.
fn answer(
    mut stream: &TcpStream,
    local: &Retriever,
    log: &Mutex<Vec<Asked>>,
    plan: &dyn Fn(usize) -> Fault,
) -> std::io::Result<bool> {
    // What is not asked for stays unread.
    let mut reader = BufReader::with_capacity(1, stream);
    let mut head = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        let (name, value) = line.split_once(':').unwrap_or(("request", &line));
        head.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        line.clear();
    }
    let mut asked = Asked { head, queries: 0 };
    if asked.head.is_empty() {
        return Ok(false); // The client has left.
    }
    let number = {
        let mut log = log.lock().expect("the log");
        log.push(asked.clone());
        log.len() - 1
    };
    let fault = plan(number);
    if fault == Fault::Reset {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Len")?;
        return Ok(false);
    }
    let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    asked.queries = request["queries"].as_array().map_or(0, Vec::len);
    log.lock().expect("the log")[number].queries = asked.queries;

    let (mut status, mut headers, mut share) = (200, "", 1.0);
    let body = match fault.clone() {
        Fault::Drop => return Ok(false),
        Fault::Body(body) => body,
        Fault::Status(code, lines, body) => {
            (status, headers) = (code, lines);
            body
        }
        Fault::Delay(_) | Fault::Truncate(_) | Fault::None | Fault::Reset | Fault::Generation(_) => {
            match search(local, &request, if let Fault::Generation(n) = fault { n } else { 1 }) {
                Ok(answer) => answer.to_string(),
                Err(message) => {
                    status = 422;
                    refusal("invalid_input", &message)
                }
            }
        }
    };
    if let Fault::Delay(time) = fault {
        std::thread::sleep(time);
    } else if let Fault::Truncate(sent) = fault {
        share = sent;
    }
    let head = format!(
        "HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let whole = [head.into_bytes(), body.into_bytes()].concat();
    stream.write_all(&whole[..(whole.len() as f64 * share) as usize])?;
    Ok(share == 1.0)
}

/// The body of an error.
pub fn refusal(code: &str, message: &str) -> String {
    json!({"code": code, "message": message, "request_id": "r-1"}).to_string()
}

/// The answer that the contract of `POST /v1/search` asks for, or why there is none.
fn search(local: &Retriever, request: &Value, generation: u64) -> Result<Value, String> {
    let queries: Vec<String> =
        serde_json::from_value(request["queries"].clone()).map_err(|error| format!("queries: {error}"))?;
    let top_k = request["top_k"].as_u64().filter(|top_k| (1..=1000).contains(top_k)).ok_or("top_k: 1 to 1000")?;
    if queries.is_empty() || queries.len() > 4096 {
        return Err("queries: 1 to 4096".into());
    }
    let rankings = local.retrieve(&queries, top_k as usize).map_err(|error| error.to_string())?;
    let hit = |hit: &Ranked| {
        let passage = &hit.passage;
        let title = passage.title.as_ref().map(|_| passage.display_title());
        let all = json!({"id": passage.id, "row": hit.row, "score": hit.score, "title": title, "text": passage.text,
            "contents": passage.contents(), "url": null});
        let fields = request["fields"].as_array().into_iter().flatten().filter_map(Value::as_str);
        fields.map(|field| (field.to_owned(), all[field].clone())).collect::<Value>()
    };
    let results: Vec<Value> = rankings
        .iter()
        .map(|hits| json!({"hits": hits.iter().map(hit).collect::<Vec<_>>(), "truncated": false}))
        .collect();
    let index = json!({"generation": generation, "rows": local.corpus().len(), "corpus": local.corpus().summary().blake3,
        "model": "tiny-bert", "fingerprint": "ab"});
    Ok(json!({"results": results, "index": index, "timings": {"total_ms": 1.0}, "request_id": "r-1"}))
}
