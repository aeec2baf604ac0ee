//! Was this request answered before? Then the same text is the answer, today and after a restart.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Request, Writer};
use crate::log::JsonLog;
use crate::{Error, Result};

/// Requests that a writer is given at a time: what a kill can cost.
const AT_ONCE: usize = 64;

/// A writer whose texts are kept in a file, a JSON object a line, by a hash of its name and the request. A request that was answered
/// is not passed on again. What fails is not kept.
pub struct CachedWriter<W> {
    writer: W,
    kept: Mutex<Kept>,
}

struct Kept {
    log: JsonLog,
    texts: HashMap<String, String>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// BLAKE3 over the writer's name and the request, in hexadecimal.
    key: String,
    writer: String,
    text: String,
}

impl<W: Writer> CachedWriter<W> {
    /// Takes in what the file holds, and adds to it. What a killed run left of a line is removed.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process writes to it; [`Error::Line`] for a file of something else, which is left as it is;
    /// [`Error::Io`].
    pub fn open(writer: W, path: &Path) -> Result<Self> {
        let mut log = JsonLog::open(path)?;
        let mut texts = HashMap::new();
        log.read(|line: Line| {
            texts.insert(line.key, line.text);
        })?;
        Ok(Self { writer, kept: Mutex::new(Kept { log, texts }) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Writer> Writer for CachedWriter<W> {
    fn name(&self) -> &str {
        self.writer.name()
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        let keys: Vec<String> = requests.iter().map(|request| key(self.name(), request)).collect();
        let mut open: Vec<(&String, &Request)> = Vec::new();
        {
            let kept = self.kept();
            for (key, request) in keys.iter().zip(requests) {
                if !kept.texts.contains_key(key) && open.iter().all(|(other, _)| *other != key) {
                    open.push((key, request));
                }
            }
        }
        let mut failed: HashMap<&String, Error> = HashMap::new();
        for open in open.chunks(AT_ONCE) {
            let asked: Vec<Request> = open.iter().map(|(_, request)| (*request).clone()).collect();
            let written = self.writer.write(&asked);
            let mut kept = self.kept();
            for ((key, _), text) in open.iter().zip(written) {
                let line = text.map(|text| Line { key: (*key).clone(), writer: self.name().to_owned(), text });
                match line.and_then(|line| kept.log.append(&line).map(|()| line.text)) {
                    Ok(text) => drop(kept.texts.insert((*key).clone(), text)),
                    Err(error) => drop(failed.insert(key, error)),
                }
            }
        }
        let kept = self.kept();
        let answer = |key: &String| match kept.texts.get(key) {
            Some(text) => Ok(text.clone()),
            // The same request twice fails twice; the error is told in full once.
            None => Err(failed.remove(key).unwrap_or_else(|| Error::Unavailable {
                what: format!("writer `{}`", self.name()),
                found: "no text for a request".into(),
                remedy: "see the errors of the other requests".into(),
            })),
        };
        keys.iter().map(answer).collect()
    }
}

fn key(name: &str, request: &Request) -> String {
    let mut hash = blake3::Hasher::new();
    for part in [name, &request.system, &request.user] {
        // Lengths keep ("ab", "c") and ("a", "bc") apart.
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hash.update(&(request.tokens as u64).to_le_bytes());
    hash.finalize().to_hex().to_string()
}
