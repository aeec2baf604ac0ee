//! Fetching a model by its hub id: resumable, checked, honest about tokens, against a server on this machine.
#![cfg(feature = "hub")]

mod embed_support;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use embed_support::*;
use hindsearch_indexes::{ErrorKind, Interrupt};
use hindsearch_retriever::embed::{EmbedOptions, Embedder, Fetch, HubSettings, InputKind, ModelSource, Precision};
use hindsearch_retriever::{Error, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const GRAPH: &str = "onnx/model.onnx";

/// What the server does wrong.
#[derive(Default)]
struct Faults {
    /// Transfers of the graph that break after 100 bytes.
    cuts: AtomicUsize,
    /// Answers 503 to the first requests for the graph.
    refusals: AtomicUsize,
    /// Flips a byte of the graph in this many transfers.
    flips: AtomicUsize,
    /// Ignores `Range`.
    no_ranges: bool,
    /// Wants this token.
    token: Option<String>,
}

/// What the hub and its storage, on two ports of the loopback address, answer from.
struct Shared {
    files: HashMap<&'static str, Vec<u8>>,
    faults: Faults,
    storage: String,
    log: Mutex<Vec<String>>,
}

struct Server {
    endpoint: String,
    shared: Arc<Shared>,
}

impl Server {
    fn start(files: HashMap<&'static str, Vec<u8>>, faults: Faults) -> Self {
        let (hub, storage) = (listener(), listener());
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().expect("an address"));
        let (endpoint, storage_url) = (url(&hub), url(&storage));
        let shared = Arc::new(Shared { files, faults, storage: storage_url, log: Mutex::default() });
        for (name, listener) in [("hub", hub), ("storage", storage)] {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A client that went away is none of the server's business.
                    let _ = answer(stream, name, &shared);
                }
            });
        }
        Self { endpoint, shared }
    }

    fn log(&self) -> Vec<String> {
        self.shared.log.lock().expect("the log").clone()
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn take_one(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

/// Answers one request and closes.
fn answer(mut stream: TcpStream, server: &str, shared: &Shared) -> std::io::Result<()> {
    let Shared { files, faults, storage, log } = shared;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let original = String::from_utf8_lossy(&head).into_owned();
    let path = original.split(' ').nth(1).unwrap_or_default().to_owned();
    let head = original.to_lowercase();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let range = header("range:").unwrap_or("all").to_owned();
    let authorization = header("authorization:").map(str::to_owned);
    let request = head.lines().next().unwrap_or_default().to_owned();
    log.lock()
        .expect("the log")
        .push(format!("{server} {request} {range} {}", authorization.as_deref().unwrap_or("nobody")));

    let mut reply = |status: &str, headers: &str, body: &[u8]| -> std::io::Result<()> {
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n")?;
        if request.starts_with("get") { stream.write_all(body) } else { Ok(()) }
    };
    let length = |body: &[u8]| format!("Content-Length: {}\r\n", body.len());
    let wanted = faults.token.as_ref().map(|token| format!("bearer {token}"));
    if server == "hub" && wanted.is_some() && authorization != wanted {
        return reply("401 Unauthorized", "Content-Length: 0\r\n", b"");
    }
    if path == "/api/models/somebody/tiny/revision/main" {
        let names: Vec<String> = files.keys().map(|name| format!("{{\"rfilename\": \"{name}\"}}")).collect();
        let body = format!("{{\"sha\": \"{COMMIT}\", \"siblings\": [{}]}}", names.join(","));
        return reply("200 OK", &length(body.as_bytes()), body.as_bytes());
    }
    let name = path.rsplit_once(&format!("{COMMIT}/")).map_or("", |(_, name)| name);
    let Some(content) = files.get(name) else { return reply("404 Not Found", "Content-Length: 0\r\n", b"") };
    if server == "hub" && name == GRAPH {
        // Large files live elsewhere, and only the hub knows their hash.
        let headers = format!(
            "X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nETag: \"other\"\r\nLocation: {storage}/{COMMIT}/{name}\r\nContent-Length: 0\r\n",
            hex(&Sha256::digest(content)),
            content.len()
        );
        return reply("302 Found", &headers, b"");
    }
    let start = range.strip_prefix("bytes=").and_then(|r| r.trim_end_matches('-').parse().ok()).unwrap_or(0usize);
    let start = if faults.no_ranges { 0 } else { start };
    if name == GRAPH && take_one(&faults.refusals) {
        return reply("503 Service Unavailable", "Content-Length: 0\r\n", b"");
    }
    let mut body = content[start..].to_vec();
    let mut headers = length(&body);
    if name != GRAPH {
        let blob = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
        headers += &format!("ETag: W/\"{}\"\r\n", hex(&Sha1::digest(blob)));
    } else if take_one(&faults.cuts) {
        body.truncate(100);
    } else if take_one(&faults.flips) {
        body[10] ^= 1;
    }
    if start > 0 {
        headers += &format!("Content-Range: bytes {start}-{}/{}\r\n", content.len() - 1, content.len());
        return reply("206 Partial Content", &headers, &body);
    }
    reply("200 OK", &headers, &body)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn files() -> HashMap<&'static str, Vec<u8>> {
    HashMap::from([
        ("tokenizer.json", tokenizer().into_bytes()),
        ("config.json", br#"{"hidden_size": 3}"#.to_vec()),
        ("1_Pooling/config.json", br#"{"pooling_mode_mean_tokens": true}"#.to_vec()),
        (GRAPH, lookup_graph(&table())),
        ("onnx/model_fp16.onnx", b"never asked for".to_vec()),
        ("pytorch_model.bin", b"never asked for".to_vec()),
        ("onnx/model.onnx_data/../../../../../outside", b"never asked for".to_vec()),
    ])
}

/// A cache of its own for each test.
struct Client {
    folder: TempDir,
    settings: HubSettings,
    interrupt: Interrupt,
}

impl Client {
    fn new(endpoint: &str, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().to_owned();
        let settings = HubSettings::from_lookup(&|name| match name {
            "HF_HOME" => Some(home.clone().into()),
            "HF_ENDPOINT" => Some(endpoint.into()),
            _ => more.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()),
        });
        Self { folder, settings, interrupt: Interrupt::new() }
    }

    fn fetch(&self) -> Result<()> {
        self.fetch_with(&[None], &|_| {})
    }

    fn fetch_with(&self, precisions: &[Option<Precision>], progress: hindsearch_indexes::OnProgress<'_>) -> Result<()> {
        let how = Fetch { settings: &self.settings, precisions, progress, interrupt: &self.interrupt };
        source().fetch(&how).map(|_| ())
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("hub/models--somebody--tiny")
    }

    /// Names of the blobs, those under way included.
    fn blobs(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.model().join("blobs")).expect("a folder");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn source() -> ModelSource {
    ModelSource::parse("somebody/tiny")
}

#[test]
fn fetches_what_the_model_needs_and_nothing_twice() -> Result<()> {
    let server = Server::start(files(), Faults::default());
    let client = Client::new(&server.endpoint, &[]);
    let done = Mutex::new((0, None));
    client.fetch_with(&[None], &|progress| *done.lock().expect("progress") = (progress.done, progress.total))?;
    let (done, total) = done.into_inner().expect("progress");
    assert_eq!(Some(done), total);
    assert!(
        !server.log().iter().any(|line| line.contains("fp16") || line.contains("pytorch") || line.contains("outside"))
    );

    let snapshot = client.model().join("snapshots").join(COMMIT);
    for (name, content) in files().into_iter().filter(|(name, _)| name.ends_with(".json") || *name == GRAPH) {
        assert_eq!(std::fs::read(snapshot.join(name)).expect("a file"), content);
        assert!(snapshot.join(name).symlink_metadata().expect("a link").is_symlink());
    }
    assert_eq!(std::fs::read_to_string(client.model().join("refs/main")).expect("a reference"), COMMIT);
    assert!(client.blobs().iter().all(|name| !name.ends_with(".incomplete")));

    let requests = server.log().len();
    client.fetch()?;
    assert_eq!(server.log().len(), requests, "what is there needs no request");
    let options = EmbedOptions { hub: Some(client.settings), ..EmbedOptions::default() };
    let vectors = Embedder::open(&source(), options)?.embed(&["red"], InputKind::Query)?;
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]", "red", "[SEP]"]));
    Ok(())
}

#[test]
fn a_broken_transfer_is_continued_where_it_broke() -> Result<()> {
    let server = Server::start(files(), Faults { cuts: 2.into(), refusals: 1.into(), ..Faults::default() });
    Client::new(&server.endpoint, &[]).fetch()?;
    let log = server.log();
    let ranges: Vec<_> = log.iter().filter(|line| line.starts_with("storage get")).collect();
    assert!(ranges.iter().any(|line| line.contains("bytes=100-")), "{ranges:?}");
    assert!(ranges.iter().any(|line| line.contains("bytes=200-")), "{ranges:?}");
    Ok(())
}

#[test]
fn a_server_without_ranges_still_gives_the_right_bytes() -> Result<()> {
    let server = Server::start(files(), Faults { cuts: 1.into(), no_ranges: true, ..Faults::default() });
    Client::new(&server.endpoint, &[]).fetch()
}

#[test]
fn an_interrupted_fetch_leaves_no_model_and_goes_on_later() -> Result<()> {
    let server = Server::start(files(), Faults { cuts: 1.into(), ..Faults::default() });
    let client = Client::new(&server.endpoint, &[]);
    let before_graph: usize = files().iter().filter(|(name, _)| name.ends_with(".json")).map(|(_, c)| c.len()).sum();
    let error = client.fetch_with(&[None], &|progress| {
        if progress.done > before_graph as u64 {
            client.interrupt.stop();
        }
    });
    assert!(matches!(error, Err(Error::Index(hindsearch_indexes::Error::Interrupted))), "{error:?}");
    assert!(source().locate(&client.settings, &[None]).is_err());
    assert_eq!(client.blobs().iter().filter(|name| name.ends_with(".incomplete")).count(), 1);

    let again = Client { interrupt: Interrupt::new(), ..client };
    again.fetch()?;
    assert!(server.log().iter().any(|line| line.starts_with("storage get") && line.contains("bytes=100-")));
    Ok(())
}

#[test]
fn bytes_that_differ_from_their_hash_are_thrown_away() -> Result<()> {
    let server = Server::start(files(), Faults { flips: 1.into(), ..Faults::default() });
    let client = Client::new(&server.endpoint, &[]);
    let error = client.fetch().expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("damaged bytes"), "{error}");
    assert!(!client.model().join("snapshots").join(COMMIT).join(GRAPH).exists());
    assert!(client.blobs().iter().all(|name| !name.ends_with(".incomplete")));
    client.fetch()
}

#[test]
fn the_token_opens_the_hub_and_never_reaches_the_storage() -> Result<()> {
    let server = Server::start(files(), Faults { token: Some("secret".into()), ..Faults::default() });
    let without = Client::new(&server.endpoint, &[]).fetch().expect_err("an error");
    assert!(without.to_string().contains("HF_TOKEN"), "{without}");
    let client = Client::new(&server.endpoint, &[("HF_TOKEN", "secret")]);
    assert!(!format!("{:?}", client.settings).contains("secret"));
    client.fetch()?;
    let log = server.log();
    assert!(log.iter().any(|line| line.starts_with("storage get")));
    assert!(!log.iter().any(|line| line.starts_with("storage") && line.contains("secret")), "{log:?}");

    let stored = Client::new(&server.endpoint, &[]);
    write(stored.folder.path(), "token", "secret\n");
    let home = stored.folder.path().to_owned();
    let settings = HubSettings::from_lookup(&|name| (name == "HF_HOME").then(|| home.clone().into()));
    assert_eq!(settings.token.as_deref(), Some("secret"));
    Ok(())
}

#[test]
fn offline_means_not_one_request() {
    for variable in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        let server = Server::start(files(), Faults::default());
        let client = Client::new(&server.endpoint, &[(variable, "1")]);
        let error = client.fetch().expect_err("an error").to_string();
        assert!(error.contains("HF_HUB_OFFLINE"), "{error}");
        assert!(server.log().is_empty());
    }
}

#[test]
fn what_the_hub_lacks_is_named_with_what_it_has() {
    let mut less = files();
    less.remove("tokenizer.json");
    let error = Client::new(&Server::start(less, Faults::default()).endpoint, &[]).fetch().expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("`tokenizer.json`"), "{error}");

    let client = Client::new(&Server::start(files(), Faults::default()).endpoint, &[]);
    let error = client.fetch_with(&[Some(Precision::Int8)], &|_| {}).expect_err("an error").to_string();
    assert!(error.contains("int8") && error.contains("`onnx/model_fp16.onnx`"), "{error}");

    let server = Server::start(files(), Faults::default());
    let client = Client::new(&server.endpoint, &[]);
    let how =
        Fetch { settings: &client.settings, precisions: &[None], progress: &|_| {}, interrupt: &client.interrupt };
    let error = ModelSource::parse("somebody/else").fetch(&how).expect_err("an error").to_string();
    assert!(error.contains("no such model"), "{error}");
}

#[test]
fn the_cache_is_where_the_hubs_own_tools_look() {
    let settings = |pairs: &[(&str, &str)]| {
        HubSettings::from_lookup(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    };
    assert_eq!(settings(&[("HOME", "/h")]).cache, PathBuf::from("/h/.cache/huggingface/hub"));
    assert_eq!(settings(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]).cache, PathBuf::from("/x/huggingface/hub"));
    assert_eq!(settings(&[("HOME", "/h"), ("HF_HOME", "/f")]).cache, PathBuf::from("/f/hub"));
    assert_eq!(settings(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")]).cache, PathBuf::from("/c"));
    assert_eq!(settings(&[("HF_ENDPOINT", "http://mirror/")]).endpoint, "http://mirror");
    assert!(!settings(&[("HF_HUB_OFFLINE", "0")]).offline && settings(&[("HF_HUB_OFFLINE", "true")]).offline);
}
