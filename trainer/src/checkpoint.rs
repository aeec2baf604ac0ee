//! What must be on disk for a run to go on as if it had never stopped?
//!
//! ```text
//! checkpoints/
//!   step-000042/
//!     tensors-00001.safetensors   weights and the optimizer's moments, f32, in parts of about 2 GiB
//!     state.json                  the rest: counters, positions
//!     manifest.json               length and BLAKE3 of each file, sealed with its own checksum
//!   step-000045.tmp/              being written, or left behind by a kill; never read
//! ```
//!
//! A checkpoint is written and synced under the name with `.tmp`, then renamed; the folder is synced before an older one goes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::sealed;
use hindsearch_indexes::storage::{Disk, EntryKind, Files, Storage, parent};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Result};

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const STATE: &str = "state.json";
const TEMPORARY: &str = ".tmp";
/// Bytes of a part, unless the caller says otherwise.
const PART: usize = 2 << 30;
/// No sound manifest is longer.
const LONGEST_MANIFEST: u64 = 16 << 20;

/// The values of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorData<'a> {
    /// Its dimensions; the product of them is the number of values.
    pub shape: Vec<usize>,
    /// The values, row by row.
    pub values: Cow<'a, [f32]>,
}

/// Everything that a run goes on from.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint<'a> {
    /// Steps made.
    pub step: u64,
    /// Weights and moments by name. Their bits come back as they were, also those of NaN and of -0.
    pub tensors: BTreeMap<String, TensorData<'a>>,
    /// The rest.
    pub state: Value,
}

/// A checkpoint that is passed over, and why.
#[derive(Debug)]
pub struct Skipped {
    /// Its folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The checkpoints of one run. The caller holds the run's lock.
#[derive(Debug)]
pub struct Checkpoints {
    files: Files,
    folder: PathBuf,
    keep: usize,
    part: usize,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    step: u64,
    files: Vec<Entry>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    length: u64,
    blake3: String,
}

impl Checkpoints {
    /// Those in `folder`, of which the newest `keep` stay.
    pub fn new(folder: impl Into<PathBuf>, keep: NonZero<usize>) -> Self {
        Self::new_on(Arc::new(Disk), folder, keep)
    }

    /// [`new`](Self::new) on another storage.
    pub fn new_on(storage: Arc<dyn Storage>, folder: impl Into<PathBuf>, keep: NonZero<usize>) -> Self {
        Self { files: Files::new(storage), folder: folder.into(), keep: keep.get(), part: PART }
    }

    /// The tensors in parts of at most so many bytes, which is also the memory that writing and reading takes beside the tensors
    /// themselves. A larger tensor has a part of its own.
    pub fn with_parts_of(self, bytes: usize) -> Self {
        Self { part: bytes, ..self }
    }

    /// Writes a checkpoint, and then removes those of later steps, which are of a future that did not happen, and the oldest.
    /// It is durable when this returns. Gives its folder.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when a tensor's shape and values disagree, or when a sound checkpoint of this step with other
    /// contents is there; [`Error::Io`]. What was there before is then still there.
    pub fn save(&self, checkpoint: &Checkpoint<'_>) -> Result<PathBuf> {
        let (files, step) = (&self.files, checkpoint.step);
        let parts = parts(&checkpoint.tensors, self.part)?;
        files.create_folder(&self.folder)?;
        // Whoever made it may have died before this.
        files.sync(parent(&self.folder))?;
        self.sweep()?;
        let target = self.folder.join(name(step));
        let staging = self.folder.join(name(step) + TEMPORARY);
        files.create_folder(&staging)?;
        let mut manifest = Manifest { format: FORMAT, step, files: Vec::new() };
        for (number, part) in (1..).zip(&parts) {
            let views = part.iter().map(|(name, tensor)| Ok((*name, view(name, tensor)?)));
            let views: Vec<_> = views.collect::<Result<_>>()?;
            let bytes = safetensors::serialize(views, None).map_err(|error| invalid(step, error))?;
            manifest.files.push(self.write(&staging, format!("tensors-{number:05}.safetensors"), &bytes)?);
        }
        let state = serde_json::to_vec_pretty(&checkpoint.state).map_err(|error| invalid(step, error))?;
        manifest.files.push(self.write(&staging, STATE.into(), &state)?);
        let bytes = sealed::seal(&manifest).map_err(|error| invalid(step, error))?;
        self.write(&staging, MANIFEST.into(), &bytes)?;
        files.sync(&staging)?;

        if files.stat(&target)?.is_some() {
            match self.load(step) {
                Ok((_, found)) if found == manifest => {
                    self.discard(&staging)?;
                    return Ok(target);
                }
                Ok(_) => {
                    self.discard(&staging)?;
                    return Err(Error::invalid(
                        format!("checkpoint of step {step}"),
                        "a step that has none yet",
                        format!("another one in `{}`; go on from it, or remove it", target.display()),
                    ));
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                // Damaged: the new one takes its place.
                Err(_) => self.retire(&target)?,
            }
        }
        files.rename(&staging, &target)?;
        files.sync(&self.folder)?;
        let (older, newer): (Vec<u64>, Vec<u64>) =
            self.steps()?.into_iter().filter(|&other| other != step).partition(|&other| other < step);
        for old in newer.iter().chain(older.iter().rev().skip(self.keep - 1)) {
            self.retire(&self.folder.join(name(*old)))?;
        }
        Ok(target)
    }

    /// The newest checkpoint whose bytes are those that were written. Those that were not finished or are damaged are told and
    /// passed over. `None` for a run that has saved nothing yet.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there are checkpoints and all are damaged; [`Error::Io`] when one cannot be read.
    pub fn latest(&self, on_skip: &dyn Fn(&Skipped)) -> Result<Option<Checkpoint<'static>>> {
        for name in self.names()?.iter().filter(|name| name.ends_with(TEMPORARY)) {
            on_skip(&Skipped { path: self.folder.join(name), why: "it was not finished, or was being removed".into() });
        }
        let steps = self.steps()?;
        if !steps.is_empty() {
            // Whoever saved the last one may have died before the last sync, and the run will go on from it now.
            self.files.sync(&self.folder)?;
        }
        for step in steps.iter().rev() {
            match self.load(*step) {
                Ok((checkpoint, _)) => return Ok(Some(checkpoint)),
                Err(error @ Error::File { .. }) => {
                    on_skip(&Skipped { path: self.folder.join(name(*step)), why: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        Err(Error::NotFound {
            what: format!("a sound checkpoint in `{}`", self.folder.display()),
            remedy: format!("all {} are damaged: restore one from a copy, or begin a new run", steps.len()),
        })
    }

    /// A checkpoint, read and compared with its manifest.
    fn load(&self, step: u64) -> Result<(Checkpoint<'static>, Manifest)> {
        let folder = self.folder.join(name(step));
        let path = folder.join(MANIFEST);
        let Some((bytes, true)) = self.files.read(&path, LONGEST_MANIFEST)? else {
            return Err(Error::file(&path, "the manifest of a checkpoint", "none, or one that is too long"));
        };
        let manifest: Manifest = sealed::parse(&path, &sealed::unseal(&path, &bytes)?, "a manifest")?;
        if (manifest.format, manifest.step) != (FORMAT, step) {
            let found = format!("format {}, step {}", manifest.format, manifest.step);
            return Err(Error::file(&path, format!("format {FORMAT}, step {step}"), found));
        }
        let mut tensors = BTreeMap::new();
        let mut state = None;
        for entry in &manifest.files {
            if !is_own(&entry.name) {
                let found = format!("`{}`", entry.name.escape_debug());
                return Err(Error::file(&path, "files of a checkpoint", found));
            }
            let path = folder.join(&entry.name);
            let bytes = self.read(&path, entry)?;
            if entry.name == STATE {
                state = Some(sealed::parse(&path, &bytes, "JSON")?);
            } else {
                unpack(&path, &bytes, &mut tensors)?;
            }
        }
        let state = state.ok_or_else(|| Error::file(&path, format!("a file `{STATE}`"), "none"))?;
        Ok((Checkpoint { step, tensors, state }, manifest))
    }

    /// The bytes of a file, if they are those of the manifest.
    fn read(&self, path: &Path, entry: &Entry) -> Result<Vec<u8>> {
        let expected = || format!("{} bytes of BLAKE3 `{}`", entry.length, entry.blake3);
        let (bytes, whole) =
            self.files.read(path, entry.length)?.ok_or_else(|| Error::file(path, expected(), "no file"))?;
        if !whole || bytes.len() as u64 != entry.length {
            let more = if whole { "" } else { "more than " };
            return Err(Error::file(path, expected(), format!("{more}{} bytes", bytes.len())));
        }
        let found = blake3::hash(&bytes).to_hex();
        if found.as_str() != entry.blake3 {
            return Err(Error::file(path, expected(), format!("BLAKE3 `{found}`")));
        }
        Ok(bytes)
    }

    fn write(&self, folder: &Path, name: String, bytes: &[u8]) -> Result<Entry> {
        let path = folder.join(&name);
        self.files.write(&path, bytes)?;
        self.files.sync(&path)?;
        Ok(Entry { name, length: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() })
    }

    /// Removes a checkpoint in such a way that a part of it is never seen under its name.
    fn retire(&self, folder: &Path) -> Result<()> {
        let going = folder.with_added_extension(TEMPORARY.trim_start_matches('.'));
        // A name taken by the checkpoint that is to come.
        let going = if self.files.stat(&going)?.is_some() { folder.with_added_extension("old.tmp") } else { going };
        self.files.rename(folder, &going)?;
        self.discard(&going)
    }

    fn discard(&self, folder: &Path) -> Result<()> {
        self.files.clear(folder)?;
        Ok(self.files.remove(folder)?)
    }

    /// Removes what kills left behind.
    fn sweep(&self) -> Result<()> {
        for name in self.names()?.iter().filter(|name| name.ends_with(TEMPORARY)) {
            self.discard(&self.folder.join(name))?;
        }
        Ok(())
    }

    /// The folders that are or were to be checkpoints.
    fn names(&self) -> Result<Vec<String>> {
        if self.files.stat(&self.folder)?.is_none() {
            return Ok(Vec::new());
        }
        let entries = self.files.list(&self.folder)?.into_iter();
        let folders = entries.filter(|(name, kind)| *kind == EntryKind::Folder && name.starts_with("step-"));
        Ok(folders.map(|(name, _)| name).collect())
    }

    /// The steps that have a checkpoint, ascending.
    fn steps(&self) -> Result<BTreeSet<u64>> {
        let step = |text: &String| text.strip_prefix("step-")?.parse().ok().filter(|&step| name(step) == *text);
        Ok(self.names()?.iter().filter_map(step).collect())
    }
}

fn name(step: u64) -> String {
    format!("step-{step:06}")
}

/// Whether a file has a name that a checkpoint gives; others may lead out of its folder.
fn is_own(name: &str) -> bool {
    let number = name.strip_prefix("tensors-").and_then(|rest| rest.strip_suffix(".safetensors"));
    name == STATE || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn invalid(step: u64, error: impl ToString) -> Error {
    Error::invalid(format!("checkpoint of step {step}"), "what can be written", error.to_string())
}

type Part<'a, 'b> = Vec<(&'a str, &'a TensorData<'b>)>;

/// The tensors in order, cut where a part is full. At least one part.
fn parts<'a, 'b>(tensors: &'a BTreeMap<String, TensorData<'b>>, limit: usize) -> Result<Vec<Part<'a, 'b>>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Part::new(), 0);
    for (name, tensor) in tensors {
        let more = size_of_val(&*tensor.values);
        if bytes + more > limit && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        view(name, tensor)?;
        part.push((name, tensor));
        bytes += more;
    }
    parts.push(part);
    Ok(parts)
}

fn view<'a>(name: &str, tensor: &'a TensorData<'_>) -> Result<TensorView<'a>> {
    // Safetensors are little-endian, as are all machines that this crate is built for.
    TensorView::new(Dtype::F32, tensor.shape.clone(), bytemuck::cast_slice(&tensor.values)).map_err(|_| {
        let expected = format!("as many values as its shape {:?} says", tensor.shape);
        Error::invalid(format!("tensor `{name}`"), expected, format!("{} values", tensor.values.len()))
    })
}

fn unpack(path: &Path, bytes: &[u8], tensors: &mut BTreeMap<String, TensorData<'static>>) -> Result<()> {
    let unreadable = |error: &dyn ToString| Error::file(path, "safetensors of f32", error.to_string());
    let read = SafeTensors::deserialize(bytes).map_err(|error| unreadable(&error))?;
    for (name, view) in read.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(unreadable(&format!("`{name}` of {:?}", view.dtype())));
        }
        let (values, _) = view.data().as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        tensors.insert(name.to_owned(), TensorData { shape: view.shape().to_vec(), values: values.into() });
    }
    Ok(())
}
