//! A server of a small index, in this process, and a client that speaks plain HTTP/1.1.

#[path = "../tiny_index/mod.rs"]
mod tiny_index;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hindsearch_retriever::embed::{Embedded, Embedder, InputKind};
use hindsearch_retriever::serve::{Bound, ServeOptions, Service, Serving, TextEncoder};
use hindsearch_retriever::{OpenOptions, Retriever};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// A server that stops with the test.
pub struct Server {
    pub address: String,
    /// An index of its own, opened beside the server.
    pub local: Retriever,
    pub gate: Arc<Gate>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

/// The model, which can be held up.
pub struct Gate {
    embedder: Arc<Embedder>,
    shut: Mutex<bool>,
    opened: Condvar,
    /// Texts that reached the model.
    pub seen: Mutex<Vec<String>>,
}

impl Gate {
    pub fn shut(&self) {
        *self.shut.lock().expect("the gate") = true;
    }

    pub fn open(&self) {
        *self.shut.lock().expect("the gate") = false;
        self.opened.notify_all();
    }
}

impl TextEncoder for Gate {
    fn encode(&self, texts: Vec<String>, kind: InputKind) -> hindsearch_retriever::Result<Embedded> {
        self.seen.lock().expect("the texts").extend(texts.iter().cloned());
        assert!(!texts.iter().any(|text| text == "panic"), "told to");
        let mut shut = self.shut.lock().expect("the gate");
        while *shut {
            shut = self.opened.wait(shut).expect("the gate");
        }
        drop(shut);
        self.embedder.encode(texts, kind)
    }
}

impl Server {
    pub fn start(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().join("index");
        build_in(folder.path());
        let open = || Retriever::open(&root, OpenOptions::default()).expect("an open index");
        let (local, served) = (open(), open());
        let gate = Arc::new(Gate {
            embedder: Arc::clone(served.embedder()),
            shut: Mutex::new(false),
            opened: Condvar::new(),
            seen: Mutex::default(),
        });
        let mut options =
            ServeOptions { address: ([127, 0, 0, 1], 0).into(), access_log: false, ..ServeOptions::default() };
        options.engine.window = 1;
        options.engine.windows = 1;
        change(&mut options);
        let stop = Arc::new(Notify::new());
        let (sender, address) = std::sync::mpsc::channel();
        let thread = {
            let (stop, encoder, root) = (Arc::clone(&stop), Arc::clone(&gate), root.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().expect("threads");
                let _inside = runtime.enter();
                let bound = Bound::new(&options).expect("a port");
                let serving = Serving::with_encoder(served, encoder, 0);
                let service = Arc::new(Service::new(&root, serving, options).expect("threads"));
                let ready = |found: &[hindsearch_retriever::serve::Address]| {
                    sender.send(found[0].socket.to_string()).expect("somebody who waits");
                };
                let stopped = || {
                    let stop = Arc::clone(&stop);
                    async move { stop.notified().await }
                };
                runtime.block_on(bound.run(service, ready, stopped)).expect("a server");
                runtime.shutdown_background();
            })
        };
        let address = address.recv_timeout(Duration::from_secs(60)).expect("a server that is ready");
        Self { address, local, gate, stop, thread: Some(thread), _folder: folder }
    }

    /// Tells the server to stop; it still answers what it works on.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Waits until it has.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a server that stops in order");
        }
    }

    /// Sends a message of JSON-RPC with further header lines.
    pub fn post(&self, headers: &str, message: &Value) -> Reply {
        self.send("POST", headers, message.to_string().as_bytes())
    }

    pub fn send(&self, method: &str, headers: &str, body: &[u8]) -> Reply {
        Reply::read(self.begin(method, headers, body))
    }

    /// Sends a request and does not wait for the answer.
    pub fn begin(&self, method: &str, headers: &str, body: &[u8]) -> TcpStream {
        let usual = [
            ("Host", &*self.address),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let given = |name: &str| headers.lines().any(|line| line.starts_with(&format!("{name}:")));
        let usual: String =
            usual.iter().filter(|(name, _)| !given(name)).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{method} /mcp HTTP/1.1\r\n{usual}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        // A server that refuses early may close before it has read everything.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    /// The result of a method, or its error.
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let reply = self.post("", &request(method, params));
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{reply:?}");
        let mut answer = reply.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        if answer["error"].is_null() { answer["result"].take() } else { answer["error"].take() }
    }

    /// What a tool answers: its text, and whether that tells an error.
    pub fn call(&self, tool: &str, arguments: Value) -> (String, bool) {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        text_of(&result)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gate.open();
        self.stop.notify_waiters();
        self.stop.notify_one();
    }
}

pub fn text_of(result: &Value) -> (String, bool) {
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no content in {result}"));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "{result}");
    let text = content[0]["text"].as_str().expect("a text").to_owned();
    (text, result["isError"] == json!(true))
}

pub fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn read(mut stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// An index of 30 passages, two of them without a title.
fn build_in(folder: &Path) {
    let mut lines = vec![
        json!({"id": "radium", "contents": "\"Marie Curie\"\nRadium was found by Marie and Pierre Curie in 1898."}),
        json!({"id": "ünï/çödé 😀", "contents": "nothing stands above this text"}),
        json!({"id": "3", "contents": "plain words about a river"}),
    ];
    let words = ["river", "bridge", "painter", "city", "war", "song", "bank", "island", "novel", "planet", "queen"];
    lines.extend((3..30).map(|row| {
        let word = |step: usize| words[(row * step + step) % words.len()];
        json!({"id": format!("p{row}"), "contents": format!("\"The {}\"\n{} {} {row}", word(1), word(3), word(5))})
    }));
    tiny_index::publish(folder, &lines);
}
