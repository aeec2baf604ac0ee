//! How far a build is, and whether its work belongs to the build that is asked for now.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hindsearch_indexes::{ElementType, Staging, Tally};
use serde::{Deserialize, Serialize};

use super::{Gate, Run, Stage};
use crate::corpus::{CorpusReader, CorpusStore, CorpusSummary, Source};
use crate::embed::{Fingerprint, ModelCard};
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
pub(super) struct Contract {
    program: String,
    #[serde(default)]
    task: Task,
    card: ModelCard,
    fingerprint: Fingerprint,
    element_type: ElementType,
    /// The files that vectors come from; none where they are embedded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vectors: Vec<Input>,
}

/// What is being done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// A new index.
    #[default]
    Build,
    /// A further shard for this generation.
    Append(u64),
    /// This generation with fewer rows.
    Delete(u64),
    /// One shard of the rows of these indexes, each with its generation.
    Copy(Vec<(String, u64)>),
}

/// Whose unfinished work may be gone on with.
pub(super) struct Wanted<'a> {
    pub out: &'a Path,
    pub contract: Contract,
    /// Discard work under another contract.
    pub restart: bool,
}

/// What a text store is written from.
pub(super) struct Material<'a> {
    /// The input files.
    pub inputs: Vec<Input>,
    /// Begins to read.
    pub open: Box<dyn Fn() -> Result<Box<dyn Source + 'a>> + 'a>,
}

/// An input file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
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
    pub fn resume(wanted: Wanted<'_>, staging: &mut Staging) -> Result<Self> {
        let Wanted { out, contract, restart } = wanted;
        let stored: Option<Self> = staging.read_state()?.and_then(|state| serde_json::from_value(state).ok());
        if let Some(stored) = &stored
            && stored.contract != contract
            && stored.rows > 0
            && !restart
        {
            return Err(Error::Incompatible {
                what: format!("the unfinished build in `{}`", out.display()),
                expected: contract.describe(),
                found: format!("vectors of {} passages with {}", stored.rows, stored.contract.describe()),
                remedy:
                    "give the options of that build to go on with it, `--restart` to discard it, or another `--out`"
                        .into(),
            });
        }
        match stored.filter(|stored| stored.contract == contract && !restart) {
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
    pub fn store_corpus(&mut self, run: &Run<'_>, material: &Material<'_>) -> Result<CorpusStore> {
        let shown = |progress| (run.on_stage)(Stage::Corpus, progress);
        let known = self.corpus.clone();
        if let Some(staged) = &known {
            let same = self.inputs == material.inputs
                || CorpusSummary::read(&mut *(material.open)()?, &shown, run.interrupt)? == *staged;
            if !same && self.rows > 0 {
                return Err(unfinished(
                    run.out,
                    "this corpus".into(),
                    format!("vectors of {} passages of another", self.rows),
                ));
            }
            if same && let Some(store) = self.staged_store(run, staged)? {
                self.inputs.clone_from(&material.inputs);
                self.save(&run.staging)?;
                return Ok(store);
            }
        }
        let summary = CorpusStore::write(&mut *(material.open)()?, run.files(), &shown, run.interrupt)?;
        if known.is_some_and(|known| known != summary) {
            self.forget_vectors();
        }
        (self.inputs, self.corpus) = (material.inputs.clone(), Some(summary));
        self.save(&run.staging)?;
        CorpusStore::open(run.files())
    }

    /// The staged text store, if every row of it is that of the `staged` corpus.
    fn staged_store(&self, run: &Run<'_>, staged: &CorpusSummary) -> Result<Option<CorpusStore>> {
        let opened = CorpusStore::open(run.files());
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
fn unfinished(out: &Path, expected: String, found: String) -> Error {
    Error::Incompatible {
        what: format!("the unfinished build in `{}`", out.display()),
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
    pub fn new(task: Task, card: &ModelCard, fingerprint: &Fingerprint, element_type: ElementType) -> Self {
        Self {
            program: concat!("hindsearch ", env!("CARGO_PKG_VERSION")).into(),
            task,
            card: card.clone(),
            fingerprint: fingerprint.clone(),
            element_type,
            vectors: Vec::new(),
        }
    }

    /// The same for vectors that come from these files, if there are any.
    pub fn with_vectors(self, files: &[PathBuf]) -> Result<Self> {
        Ok(Self { vectors: files.iter().map(|path| input(path)).collect::<Result<_>>()?, ..self })
    }

    fn describe(&self) -> String {
        let Self { program, task, card, fingerprint, element_type, vectors } = self;
        let task = match task {
            Task::Build => String::new(),
            Task::Append(base) => format!("an append to generation {base}, "),
            Task::Delete(base) => format!("a deletion from generation {base}, "),
            Task::Copy(sources) => format!("copies of {} indexes, ", sources.len()),
        };
        let origin = match vectors.as_slice() {
            [] => "embedded".into(),
            [first, ..] => format!("from `{}` ({} files)", first.path, vectors.len()),
        };
        format!(
            "{task}model {} ({} {}, prefix {:?}, {:?} pooling, {} tokens), {origin}, {element_type}, {program}",
            card.id,
            fingerprint.passages.file,
            fingerprint.passages.blake3.get(..8).unwrap_or_default(),
            card.passage_prefix,
            card.pooling,
            card.max_length
        )
    }
}

/// The files of a corpus as they are now.
pub(super) fn inputs(corpus: &[PathBuf]) -> Result<Vec<Input>> {
    CorpusReader::files(corpus)?.iter().map(|path| input(path)).collect()
}

fn input(path: &Path) -> Result<Input> {
    let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let changed = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Input {
        path: canonical(path).to_string_lossy().into_owned(),
        length: data.len(),
        changed: changed.map(|since| since.as_nanos()),
    })
}

/// `corpus.jsonl` and `./corpus.jsonl` are one file.
fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
