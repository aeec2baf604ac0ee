//! A small index, a server for it in this process, an encoder that fails as it is told, and a client.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod faulty;
pub mod http;
#[path = "../tiny_index/mod.rs"]
mod tiny_index;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use hindsearch_retriever::serve::{Bound, ServeOptions, Service, Serving, TextEncoder};
use hindsearch_retriever::{OpenOptions, Retriever};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

/// An index of a few passages, in a folder that goes away with it.
pub struct Library {
    folder: TempDir,
}

impl Library {
    /// Passages "0", "1", … of about `bytes` bytes each.
    pub fn new(rows: usize, bytes: usize) -> Self {
        let library = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        library.publish("", rows, bytes);
        library
    }

    /// Publishes a further generation, whose ids begin with `mark`.
    pub fn publish(&self, mark: &str, rows: usize, bytes: usize) {
        let line = |row| json!({ "id": format!("{mark}{row}"), "contents": text(row, bytes) });
        tiny_index::publish(self.folder.path(), &(0..rows).map(line).collect::<Vec<_>>());
    }

    /// The index.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    pub fn open(&self) -> Retriever {
        Retriever::open(&self.path(), OpenOptions::default()).expect("an open index")
    }
}

fn text(row: usize, bytes: usize) -> String {
    let words = ["river", "bridge", "painter", "city", "war", "song", "bank", "island", "novel", "planet", "queen"];
    let word = |step: usize| words[(row * step + step) % words.len()];
    let filling = (0..).map(|at| word(at + 3)).scan(0, |length, word| {
        *length += word.len() + 1;
        (*length < bytes).then_some(word)
    });
    format!("\"The {} {row}\"\n{}", word(1), filling.collect::<Vec<_>>().join(" "))
}

/// Options for tests: a free port, no cache of vectors, no lines on standard error.
pub fn options() -> ServeOptions {
    ServeOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        cached_queries: 0,
        page_in: false,
        access_log: false,
        ..ServeOptions::default()
    }
}

/// A server on threads of its own; dropping it stops it.
pub struct Server {
    pub address: SocketAddr,
    pub service: Arc<Service>,
    /// How often it was told to stop.
    stop: watch::Sender<usize>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the library with queries embedded by `encoder`.
    pub fn start(library: &Library, encoder: Arc<dyn TextEncoder>, options: ServeOptions) -> Self {
        let serving = Serving::with_encoder(library.open(), encoder, options.cached_queries);
        Self::serve(library, serving, options)
    }

    /// Serves the library with its own model.
    pub fn with_model(library: &Library, options: ServeOptions) -> Self {
        let serving = Serving::new(library.open(), options.cached_queries).expect("a loaded model");
        Self::serve(library, serving, options)
    }

    fn serve(library: &Library, serving: Serving, options: ServeOptions) -> Self {
        let (stop, told) = watch::channel(0);
        let (ready, listening) = channel();
        let root = library.path();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("threads");
            let _inside = runtime.enter();
            let bound = Bound::new(&options).expect("a free port");
            let service = Arc::new(Service::new(&root, serving, options).expect("threads"));
            let seen = Arc::clone(&service);
            let mut times = 0;
            let stop = || {
                times += 1;
                let (mut told, times) = (told.clone(), times);
                async move { drop(told.wait_for(|told| *told >= times).await) }
            };
            let on_ready = move |addresses: &[_]| {
                let first: &hindsearch_retriever::serve::Address = &addresses[0];
                ready.send((first.socket, seen)).expect("a test that waits");
            };
            runtime.block_on(bound.run(service, on_ready, stop)).expect("a server that ran");
            runtime.shutdown_background();
        });
        let (address, service) = listening.recv().expect("a server that listens");
        Self { address, service, stop, thread: Some(thread) }
    }

    /// Tells it to stop; a second time, not to wait for anybody.
    pub fn stop(&self) {
        self.stop.send_modify(|told| *told += 1);
    }

    /// Waits for its end.
    pub fn join(mut self) {
        self.thread.take().expect("a server").join().expect("a server that ends well");
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn metric(&self, name: &str) -> f64 {
        http::metric(self.address, name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_modify(|told| *told += 3);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
