//! How far a build is, and whether its work belongs to the build that is asked for now.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hindsearch_indexes::{ElementType, Staging, Tally};
use serde::{Deserialize, Serialize};

use super::{BuildOptions, Gate, Run, Stage};
use crate::corpus::{CorpusReader, CorpusStore, CorpusSummary};
use crate::embed::{Embedder, Fingerprint, ModelCard};
use crate::{Error, Result};

/// Kept in the staging folder, durable before the work that it speaks of is relied on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    contract: Contract,
    /// The input files when the text store was written.
    inputs: Vec<Input>,
    corpus: Option<CorpusSummary>,
    pub gate: Option<Gate>,
    /// The centre of an i8 matrix.
    pub mean: Option<Vec<f32>>,
    /// Rows of vectors that are durable.
    pub rows: u64,
    /// Passages among them that were cut to the model's length.
    pub truncated: u64,
    /// What kind of numbers the rows hold that came from files.
    #[serde(default)]
    pub values: Tally,
}

/// What decides a row's bytes: vectors made under two contracts must not meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Contract {
    program: String,
    card: ModelCard,
    fingerprint: Fingerprint,
    element_type: ElementType,
    /// The files that vectors come from; none where they are embedded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vectors: Vec<Input>,
}

/// An input file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Input {
    path: String,
    length: u64,
    /// Nanoseconds since 1970, where the file system tells.
    changed: Option<u128>,
}

impl State {
    /// The state to go on from: the stored one where it is of the same contract, else a fresh one.
    ///
    /// # Errors
    /// [`Error::Incompatible`] when passages were embedded under another contract and the caller does not say that they
    /// may be discarded: they may have cost days.
    pub fn resume(options: &BuildOptions, embedder: &Embedder, staging: &Staging) -> Result<Self> {
        let contract = Contract {
            program: concat!("hindsearch ", env!("CARGO_PKG_VERSION")).into(),
            card: embedder.card().clone(),
            fingerprint: embedder.fingerprint().clone(),
            element_type: options.index.element_type,
            vectors: inputs(&options.vectors)?,
        };
        let stored: Option<Self> = staging.read_state()?.and_then(|state| serde_json::from_value(state).ok());
        if let Some(stored) = &stored
            && stored.contract != contract
            && stored.rows > 0
            && !options.restart
        {
            return Err(Error::Incompatible {
                what: format!("the unfinished build in `{}`", options.out.display()),
                expected: contract.describe(),
                found: format!("vectors of {} passages with {}", stored.rows, stored.contract.describe()),
                remedy:
                    "give the options of that build to go on with it, `--restart` to discard it, or another `--out`"
                        .into(),
            });
        }
        match stored.filter(|stored| stored.contract == contract && !options.restart) {
            Some(state) => Ok(state),
            None => {
                staging.restart()?;
                let state = Self {
                    contract,
                    inputs: Vec::new(),
                    corpus: None,
                    gate: None,
                    mean: None,
                    rows: 0,
                    truncated: 0,
                    values: Tally::default(),
                };
                state.save(staging)?;
                Ok(state)
            }
        }
    }

    /// Makes the state, and all files that it speaks of, durable.
    pub fn save(&self, staging: &Staging) -> Result<()> {
        let value = serde_json::to_value(self).map_err(|error| Error::InvalidInput {
            what: "state of the build".into(),
            expected: "values that JSON can hold".into(),
            found: error.to_string(),
        })?;
        Ok(staging.write_state(&value)?)
    }

    /// The text store: the one in the staging folder where it holds the corpus that is asked for, whatever its files are
    /// called now, else a new one. What is staged is not touched before it is known to be of no use.
    ///
    /// # Errors
    /// [`Error::Incompatible`] when passages of another corpus were embedded already.
    pub fn store_corpus(&mut self, run: &Run<'_>) -> Result<CorpusStore> {
        let inputs = inputs(&CorpusReader::files(&run.options.corpus)?)?;
        let folder = run.staging.path();
        let shown = |progress| (run.on_stage)(Stage::Corpus, progress);
        let reader = || CorpusReader::open(&run.options.corpus, run.options.format);
        let known = self.corpus.clone();
        if let Some(staged) = &known {
            let same = self.inputs == inputs || CorpusSummary::read(&mut reader()?, &shown, run.interrupt)? == *staged;
            if !same && self.rows > 0 {
                return Err(unfinished(
                    run.options,
                    "this corpus".into(),
                    format!("vectors of {} passages of another", self.rows),
                ));
            }
            if same && let Some(store) = self.staged_store(run, staged)? {
                self.inputs = inputs;
                self.save(&run.staging)?;
                return Ok(store);
            }
        }
        let summary = CorpusStore::write(&mut reader()?, folder, &shown, run.interrupt)?;
        if known.is_some_and(|known| known != summary) {
            self.forget_vectors();
        }
        (self.inputs, self.corpus) = (inputs, Some(summary));
        self.save(&run.staging)?;
        CorpusStore::open(folder)
    }

    /// The staged text store, if every row of it is that of the `staged` corpus.
    fn staged_store(&self, run: &Run<'_>, staged: &CorpusSummary) -> Result<Option<CorpusStore>> {
        let opened = CorpusStore::open(run.staging.path());
        let sound = opened.and_then(|store| store.verify(&|_| (), run.interrupt).map(|()| store));
        match sound {
            Ok(store) => Ok(Some(store).filter(|store| store.summary() == staged)),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts the vectors afresh.
    pub fn forget_vectors(&mut self) {
        (self.gate, self.mean, self.rows, self.truncated) = (None, None, 0, 0);
        self.values = Tally::default();
    }
}

/// The refusal to discard work that may have cost days.
fn unfinished(options: &BuildOptions, expected: String, found: String) -> Error {
    Error::Incompatible {
        what: format!("the unfinished build in `{}`", options.out.display()),
        expected,
        found,
        remedy:
            "give the corpus and options of that build to go on with it, `--restart` to discard it, or another `--out`"
                .into(),
    }
}

/// Whether a file of unfinished work is not what it was: then the work is done again.
pub(super) fn is_damage(error: &Error) -> bool {
    use hindsearch_indexes::ErrorKind::{Corrupt, Incompatible, NotFound};
    matches!(error.kind(), Corrupt | Incompatible | NotFound)
}

impl Contract {
    fn describe(&self) -> String {
        let Self { program, card, fingerprint, element_type, vectors } = self;
        let origin = match vectors.as_slice() {
            [] => "embedded".into(),
            [first, ..] => format!("from `{}` ({} files)", first.path, vectors.len()),
        };
        format!(
            "model {} ({} {}, prefix {:?}, {:?} pooling, {} tokens), {origin}, {element_type}, {program}",
            card.id,
            fingerprint.passages.file,
            fingerprint.passages.blake3.get(..8).unwrap_or_default(),
            card.passage_prefix,
            card.pooling,
            card.max_length
        )
    }
}

fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>> {
    let input = |path: &PathBuf| {
        let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
        let changed = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Input {
            path: canonical(path).to_string_lossy().into_owned(),
            length: data.len(),
            changed: changed.map(|since| since.as_nanos()),
        })
    };
    paths.iter().map(input).collect()
}

/// `corpus.jsonl` and `./corpus.jsonl` are one file.
fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
