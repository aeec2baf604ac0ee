//! A retriever of a few words, and one that fails as it is told.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod play;
pub mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hindsearch_env::{Preset, Rules, Task};
use hindsearch_retriever::{Error, Passage, Ranked, Result, Retrieve};

/// Passages that name the query.
#[derive(Default)]
pub struct Shelf {
    pub calls: AtomicUsize,
    pub queries: AtomicUsize,
    /// Every how many calls one fails.
    pub fails: Option<usize>,
    /// A query that always fails.
    pub bad: Option<String>,
    /// How long a call takes.
    pub pause: Duration,
}

/// A passage as the corpus would hold it.
pub fn ranked(row: u64, contents: &str) -> Ranked {
    Ranked { row, score: 1.0 / (row + 1) as f32, passage: Passage::from_contents(format!("id{row}"), contents) }
}

impl Retrieve for Shelf {
    fn retrieve(&self, queries: &[String], top_k: usize) -> Result<Vec<Vec<Ranked>>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.queries.fetch_add(queries.len(), Ordering::Relaxed);
        std::thread::sleep(self.pause);
        let fault = || Error::NotFound { what: "the secret cause".into(), remedy: "wait".into() };
        if self.fails.is_some_and(|every| call.is_multiple_of(every))
            || queries.iter().any(|query| self.bad.as_ref() == Some(query))
        {
            return Err(fault());
        }
        let hits = |query: &String| {
            (0..top_k as u64).map(|row| ranked(row, &format!("\"Title {row}\"\nAbout {query}."))).collect()
        };
        Ok(queries.iter().map(hits).collect())
    }
}

/// Tasks that ask for a number.
pub fn tasks(count: usize) -> Vec<Task> {
    (0..count)
        .map(|number| Task::new(format!("What is number {number}"), vec![number.to_string()], "numbers".into()))
        .collect()
}

pub fn preset() -> Preset {
    Preset::named("hindsearch").expect("a built-in preset")
}

pub fn rules() -> Rules {
    Rules::new(Arc::new(preset()))
}
