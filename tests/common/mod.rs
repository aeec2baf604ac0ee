//! What the tests of the command line share: a folder to work in, a small model, and a way to run the program.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod server;
pub mod template;
pub mod training;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that goes away with the test, and the program run in it.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// What a run printed and how it ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a writable folder");
        path
    }

    /// A wiki-18 corpus of `rows` passages.
    pub fn corpus(&self, name: &str, rows: usize) -> PathBuf {
        let line = |row: usize| {
            let text = WORDS.iter().cycle().skip(row * 7 % WORDS.len()).step_by(1 + row % 5).take(12 + row % 9);
            let text = text.copied().collect::<Vec<_>>().join(" ");
            format!(
                "{}\n",
                serde_json::json!({ "id": row.to_string(), "contents": format!("\"Topic {row}\"\n{text}.") })
            )
        };
        self.write(name, (0..rows).map(line).collect::<String>())
    }

    /// The program with these arguments, the small model and this folder as its current one.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindsearch"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HINDSEARCH_")) {
            command.env_remove(name);
        }
        command.env("HINDSEARCH_CACHE", cache()).env("HINDSEARCH_MODEL_SOURCE", tiny_model());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments).output().expect("the program starts"))
    }

    /// Runs and expects success.
    pub fn ok(&self, arguments: &[&str]) -> Outcome {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        outcome
    }

    /// Runs and expects this exit code and all of `words` in one message on stderr, and nothing on stdout.
    pub fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) -> Outcome {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(code), "{arguments:?}: {outcome:?}");
        assert!(outcome.stdout.is_empty(), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{arguments:?}: no {word:?} in {}", outcome.stderr);
        }
        outcome
    }

    /// That nobody could take what is at `index` for an index.
    pub fn assert_no_index(&self, index: &str) {
        assert!(!self.path(index).join("CURRENT").exists(), "an index was published at {index}");
        let published = |entry: &std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("gen-") && !name.ends_with(".tmp")
        };
        let entries = std::fs::read_dir(self.path(index)).into_iter().flatten().flatten();
        assert_eq!(entries.filter(published).count(), 0, "a generation bears a final name in {index}");
    }
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The folder that `make setup` fills.
pub fn cache() -> PathBuf {
    let cache = std::env::var_os("HINDSEARCH_CACHE").map_or_else(|| root().join(".cache/hindsearch"), PathBuf::from);
    assert!(cache.join("onnxruntime").is_dir(), "no ONNX Runtime in {}: run `make setup` first", cache.display());
    cache
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A BERT of two small layers, made by `tools/make_tiny_bert.py`.
pub fn tiny_model() -> PathBuf {
    root().join("tests/fixtures/tiny-bert")
}

const WORDS: [&str; 48] = [
    "river",
    "mountain",
    "city",
    "king",
    "element",
    "planet",
    "film",
    "novel",
    "bridge",
    "queen",
    "island",
    "painter",
    "metal",
    "treaty",
    "comet",
    "opera",
    "castle",
    "desert",
    "glacier",
    "poet",
    "engine",
    "harbour",
    "forest",
    "temple",
    "battle",
    "moon",
    "museum",
    "violin",
    "emperor",
    "valley",
    "lighthouse",
    "canal",
    "chemist",
    "sculptor",
    "theorem",
    "voyage",
    "market",
    "tower",
    "orchard",
    "printer",
    "mosaic",
    "library",
    "volcano",
    "shepherd",
    "compass",
    "garden",
    "archive",
    "railway",
];
