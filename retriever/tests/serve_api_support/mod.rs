//! A small index with all that is hard about ids and texts, and servers of it within the test.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod http;
#[path = "../tiny_index/mod.rs"]
mod tiny_index;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use hindsearch_retriever::serve::{Bound, ServeOptions, Service, Serving, Token};
use hindsearch_retriever::{OpenOptions, Result, Retriever};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

/// Ids that a path must carry.
pub const HARD_IDS: [&str; 8] =
    ["a/b c", "100%", "%2F", "ünï-çödé 😀", "?q=1&r=2#x", "../../etc/passwd", "a+b", "\"<script>\" \\ \u{1b}[31m"];

/// Passages of the shelf.
pub const ROWS: usize = 60;

/// An index.
pub struct Shelf {
    folder: TempDir,
}

impl Shelf {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut lines = vec![
            json!({"id": "plain", "contents": "\"Radium\"\nRadium was found by Marie and Pierre Curie in 1898."}),
            json!({"id": "no title", "contents": "nothing stands above this text"}),
            json!({"id": "quoted", "contents": "\"\"Heroes\"\"\nA song by David Bowie.\r\n\r\n"}),
        ];
        lines.extend(HARD_IDS.map(|id| json!({"id": id, "contents": format!("\"{id}\"\nA passage whose id is {id}")})));
        let words = ["river", "bridge", "painter", "city", "war", "song", "bank", "island", "novel", "planet", "queen"];
        lines.extend((lines.len()..ROWS).map(|row| {
            let word = |step: usize| words[(row * step + step) % words.len()];
            json!({"id": row.to_string(), "contents": format!("\"The {}\"\n{} {} {row}", word(1), word(3), word(5))})
        }));
        tiny_index::publish(folder.path(), &lines);
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn open(&self) -> Retriever {
        Retriever::open(&self.path("index"), OpenOptions::default()).expect("an open index")
    }

    /// A server of it, on a port of its own and without lines for each request unless `change` says otherwise.
    pub fn serve(&self, change: impl FnOnce(&mut ServeOptions)) -> Server {
        self.try_serve(change).expect("a server")
    }

    /// The same, where it may refuse to start.
    pub fn try_serve(&self, change: impl FnOnce(&mut ServeOptions)) -> Result<Server> {
        let mut options = ServeOptions {
            address: ([127, 0, 0, 1], 0).into(),
            access_log: false,
            page_in: false,
            ..Default::default()
        };
        change(&mut options);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let bound = {
            let _inside = runtime.enter();
            Bound::new(&options)?
        };
        let serving = Serving::new(self.open(), options.cached_queries)?;
        let service = Arc::new(Service::new(&self.path("index"), serving, options)?);
        let (stop, stopped) = watch::channel(false);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stop = move || {
                let mut stopped = stopped.clone();
                async move { drop(stopped.wait_for(|stop| *stop).await) }
            };
            let ready = move |addresses: &[hindsearch_retriever::serve::Address]| {
                let _ = tell.send(addresses[0].socket);
            };
            runtime.block_on(bound.run(service, ready, stop)).expect("a clean end");
            runtime.shutdown_background();
        });
        let address = told.recv().expect("an address");
        Ok(Server { address, stop, thread: Some(thread) })
    }
}

/// A server that ends with the test.
pub struct Server {
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // The test has failed already where this has.
            let _ = thread.join();
        }
    }
}

/// What `Authorization: Bearer` must say.
pub const TOKEN: &str = "s3cret-Token_of.48-characters/with+signs=0123456";

/// That token, as a server takes it.
pub fn tokens() -> Vec<Token> {
    vec![Token::new(TOKEN).expect("a token")]
}
