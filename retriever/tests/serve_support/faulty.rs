//! An encoder that is as slow as it is told, and fails, panics or hangs on certain texts.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hindsearch_indexes::Vectors;
use hindsearch_retriever::embed::{Embedded, InputKind, TextLength};
use hindsearch_retriever::serve::TextEncoder;
use hindsearch_retriever::{Error, Result};

/// Dimensions of the tiny model.
const DIMENSIONS: usize = 32;

/// Texts that contain `<fail>`, `<panic>` or `<hang>` do so, whatever they are embedded with. All others get a vector that
/// depends on nothing but the text.
#[derive(Default)]
pub struct Faulty {
    /// Time for each batch.
    pub batch: Duration,
    /// Time for each of its texts.
    pub text: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How often each text was embedded, or tried.
    seen: HashMap<String, usize>,
    held: bool,
    freed: bool,
    waiting: usize,
}

impl Faulty {
    /// Answers at once.
    pub fn quick() -> Arc<Self> {
        Arc::default()
    }

    /// Takes this long for a batch, and for each text in it.
    pub fn slow(batch: Duration, text: Duration) -> Arc<Self> {
        Arc::new(Self { batch, text, ..Self::default() })
    }

    /// Keeps every batch until [`go_on`](Self::go_on).
    pub fn hold(&self) {
        self.state().held = true;
    }

    pub fn go_on(&self) {
        self.state().held = false;
        self.changed.notify_all();
    }

    /// Lets what hangs go on, now and in future.
    pub fn free(&self) {
        self.state().freed = true;
        self.changed.notify_all();
    }

    /// Batches that are held or hang.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// How often this text was embedded.
    pub fn times(&self, text: &str) -> usize {
        self.state().seen.get(text).copied().unwrap_or(0)
    }

    /// Texts embedded so far.
    pub fn texts(&self) -> usize {
        self.state().seen.values().sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, mut is_so: impl FnMut(&State) -> bool) {
        let mut state = self.state();
        state.waiting += 1;
        while is_so(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

impl TextEncoder for Faulty {
    fn encode(&self, texts: Vec<String>, _kind: InputKind) -> Result<Embedded> {
        for text in &texts {
            *self.state().seen.entry(text.clone()).or_default() += 1;
        }
        self.wait_while(|state| state.held);
        if texts.iter().any(|text| text.contains("<hang>")) {
            self.wait_while(|state| !state.freed);
        }
        std::thread::sleep(self.batch + self.text * texts.len() as u32);
        assert!(!texts.iter().any(|text| text.contains("<panic>")), "a text that the encoder cannot bear");
        if texts.iter().any(|text| text.contains("<fail>")) {
            return Err(Error::Runtime {
                runtime: "the encoder",
                action: "embed",
                message: "a text that it cannot bear".into(),
            });
        }
        let values = texts.iter().flat_map(|text| vector(text)).collect();
        let lengths = texts.iter().map(|text| TextLength { tokens: text.len(), truncated: false }).collect();
        Ok(Embedded { vectors: Vectors::new(DIMENSIONS, values)?, lengths })
    }
}

fn vector(text: &str) -> Vec<f32> {
    let hash = blake3::hash(text.as_bytes());
    let values: Vec<f32> = hash.as_bytes()[..DIMENSIONS].iter().map(|byte| f32::from(*byte) - 127.5).collect();
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.into_iter().map(|value| value / norm).collect()
}
