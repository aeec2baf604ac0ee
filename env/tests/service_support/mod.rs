//! A server of episodes in this process: a small index, an encoder that fails as it is told, and a clock that is set by hand.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

#[path = "../../../retriever/tests/serve_support/mod.rs"]
mod serve_support;
pub mod socket;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hindsearch_env::serve::{EnvOptions, EnvServer};
use hindsearch_env::tasks::TaskSet;
use hindsearch_env::{Preset, Task};
use hindsearch_retriever::serve::ServeOptions;
use serde_json::{Value, json};
pub use serve_support::faulty::Faulty;
pub use serve_support::http::{self, Answer, Client, get, post, post_with, until};
use serve_support::{Library, Server, options};

/// An answer that is found nowhere but in tasks.
pub const CANARY: &str = "canary-5f0c";

pub struct Playground {
    pub server: Server,
    pub encoder: Arc<Faulty>,
    /// Milliseconds by which the clock is ahead.
    ahead: Arc<AtomicU64>,
}

/// Tasks "0", "1", … of the splits `train` and `test` in turn, with the number and the canary as answers.
pub fn tasks(count: usize) -> TaskSet {
    TaskSet::new((0..count).map(|number| {
        let split = if number % 2 == 0 { "train" } else { "test" };
        let answers = vec![number.to_string(), CANARY.into()];
        Task::new(format!("What is number {number}"), answers, "numbers".into()).with_split(Some(split.into()))
    }))
}

impl Playground {
    pub fn new() -> Self {
        Self::with(|_| (), |_| ())
    }

    /// With other options of the environment and of the server.
    pub fn with(env: impl FnOnce(&mut EnvOptions), serve: impl FnOnce(&mut ServeOptions)) -> Self {
        // Building it takes longer than all the rest of a test.
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| Library::new(20, 100));
        let ahead = Arc::new(AtomicU64::new(0));
        let mut own = EnvOptions::new(tasks(10), Preset::named("hindsearch").expect("a built-in preset"));
        let (begun, clock) = (Instant::now(), Arc::clone(&ahead));
        own.clock = Arc::new(move || begun + Duration::from_millis(clock.load(Ordering::Relaxed)));
        env(&mut own);
        let routes = EnvServer::new(own).expect("a server of episodes").routes();
        let mut options = ServeOptions { more_routes: vec![routes], ..options() };
        serve(&mut options);
        let encoder = Faulty::quick();
        let server = Server::start(library, Arc::clone(&encoder) as _, options);
        Self { server, encoder, ahead }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Sets the clock ahead.
    pub fn wait(&self, time: Duration) {
        self.ahead.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn ask(&self, request: &[u8]) -> Answer {
        http::ask(self.address(), request)
    }

    /// The answers to these items.
    #[track_caller]
    pub fn items(&self, route: &str, items: &Value) -> Vec<Value> {
        let answer = self.ask(&post(&format!("/env/v1/{route}"), &json!({ "items": items })));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"].as_array().expect("items").clone()
    }

    /// The answer to one item.
    #[track_caller]
    pub fn item(&self, route: &str, item: &Value) -> Value {
        let mut answers = self.items(route, &json!([item]));
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// The id of a new episode of task `number`.
    #[track_caller]
    pub fn begin(&self, number: usize) -> String {
        let begun = self.item("reset", &json!({ "task_id": id(number) }));
        begun["episode_id"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
    }

    #[track_caller]
    pub fn step(&self, episode: &str, action: &str) -> Value {
        self.item("step", &json!({ "episode_id": episode, "action": action }))
    }
}

/// The id of task `number`.
pub fn id(number: usize) -> String {
    tasks(number + 1).tasks()[number].id().to_owned()
}

/// That the item was refused with this code.
#[track_caller]
pub fn refused(answer: &Value, code: &str, retryable: bool) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert_eq!(answer["error"]["retryable"], retryable, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
}
