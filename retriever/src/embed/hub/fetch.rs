//! Fetches a model into the hub's cache: resumable, checked, and visible only when whole.
//!
//! The cache has the layout of the hub's own tools: `blobs/<etag>`, `snapshots/<commit>/<file>` as links to blobs, and
//! `refs/<revision>` with a commit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use hindsearch_indexes::{Interrupt, OnProgress, Progress};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::client::{Client, Failure, Patience, RemoteFile, Repository};
use super::{HubSettings, is_id, is_revision};
use crate::embed::graph::Precision;
use crate::embed::model_dir::{GRAPH_FOLDERS, GRAPH_NAMES};
use crate::{Error, Result};

/// The files beside the graph that this crate reads; only the tokenizer must be there.
const FILES: [&str; 7] = [
    "tokenizer.json",
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer_config.json",
];

/// How to fetch.
pub struct Fetch<'a> {
    /// Where to, and where from.
    pub settings: &'a HubSettings,
    /// The graphs wanted; `None` for the most precise.
    pub precisions: &'a [Option<Precision>],
    /// Told about bytes.
    pub progress: OnProgress<'a>,
    /// Looked at after each block.
    pub interrupt: &'a Interrupt,
}

/// Fetches the model `id` at `revision` and gives its snapshot folder. What is already there is not fetched again.
///
/// # Errors
/// [`Error::Unavailable`] when the hub refuses, cannot be reached or sends bytes that differ from their hash;
/// [`Error::NotFound`] when it lacks a file. What was fetched so far stays for the next try.
pub fn fetch(id: &str, revision: &str, how: &Fetch<'_>) -> Result<PathBuf> {
    if how.settings.offline {
        return Err(Error::Unavailable {
            what: format!("model `{id}`"),
            found: "it is not in the cache, and `HF_HUB_OFFLINE` forbids the network".into(),
            remedy: "unset `HF_HUB_OFFLINE`, or give a model folder instead".into(),
        });
    }
    if !is_id(id) || !is_revision(revision) {
        return Err(Error::InvalidInput {
            what: "model".into(),
            expected: "`owner/name` and a branch, tag or commit".into(),
            found: format!("`{id}` at `{revision}`"),
        });
    }
    let client = Client::new(how.settings);
    let repository = client.repository(id, revision)?;
    let commit = &repository.commit;
    if !is_revision(commit) {
        return Err(client.unavailable(id, format!("the commit `{commit}`, which cannot be a folder")));
    }
    let names = wanted(id, &repository, how.precisions)?;
    let files = names.iter().map(|name| client.remote_file(id, commit, name)).collect::<Result<Vec<_>>>()?;
    let cache = how.settings.model_folder(id);
    let snapshot = cache.join("snapshots").join(commit);
    let total = files.iter().map(|file| file.size).sum();
    let mut watch = Watch { done: 0, total, tell: how.progress, interrupt: how.interrupt };
    for file in &files {
        let blob = cache.join("blobs").join(&file.etag);
        fetch_blob(&client, file, &blob, &mut watch)?;
        link(&blob, &snapshot, &file.name)?;
    }
    if commit != revision {
        write_whole(&cache.join("refs").join(revision), commit.as_bytes())?;
    }
    Ok(snapshot)
}

/// The names of the files to fetch.
fn wanted(id: &str, repository: &Repository, precisions: &[Option<Precision>]) -> Result<Vec<String>> {
    let has = |name: &str| repository.files().any(|file| file == name);
    let missing = |what: String, there: &dyn Fn(&str) -> bool| {
        let there: Vec<&str> = repository.files().filter(|file| there(file)).collect();
        Error::NotFound {
            what: format!("{what} in model `{id}`"),
            remedy: format!(
                "the hub has `{}`; choose another model, or export this one into a folder",
                there.join("`, `")
            ),
        }
    };
    if !has("tokenizer.json") {
        return Err(missing("`tokenizer.json`".into(), &|file| file.contains("token")));
    }
    let mut names: Vec<String> = FILES.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect();
    for &precision in precisions {
        let fitting = GRAPH_NAMES.iter().filter(|(_, hint)| precision.is_none_or(|precision| precision == *hint));
        let graph = fitting
            .flat_map(|(name, _)| GRAPH_FOLDERS.map(|folder| format!("{folder}{name}")))
            .find(|name| has(name))
            .ok_or_else(|| {
                let what = precision.map_or("an ONNX graph".into(), |p| format!("an ONNX graph of precision {p}"));
                missing(what, &|file| file.ends_with(".onnx"))
            })?;
        // Weights of large graphs lie in `model.onnx_data` or `model.onnx.data`, perhaps with a number behind.
        let data = [format!("{graph}_data"), format!("{graph}.data")];
        let rest =
            |file: &str| data.iter().find_map(|start| file.strip_prefix(&**start).map(|rest| !rest.contains('/')));
        names.extend(repository.files().filter(|file| rest(file) == Some(true)).map(str::to_owned));
        names.push(graph);
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Counts bytes, tells about them, and looks whether to stop.
struct Watch<'a> {
    done: u64,
    total: u64,
    tell: OnProgress<'a>,
    interrupt: &'a Interrupt,
}

impl Watch<'_> {
    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        (self.tell)(Progress { done: self.done, total: Some(self.total) });
    }
}

/// Brings the file's bytes to `blob`, by way of `<blob>.incomplete`, which a later try continues.
fn fetch_blob(client: &Client<'_>, file: &RemoteFile, blob: &Path, watch: &mut Watch<'_>) -> Result<()> {
    let partial = PathBuf::from(format!("{}.incomplete", blob.display()));
    let folder = blob.parent().unwrap_or(blob);
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    if blob.is_file() {
        watch.add(file.size);
        return Ok(());
    }
    let mut target =
        OpenOptions::new().read(true).append(true).create(true).open(&partial).map_err(Error::io("open", &partial))?;
    // Another process may fetch the same file: wait for it, then look again.
    target.lock().map_err(Error::io("lock", &partial))?;
    if blob.is_file() {
        watch.add(file.size);
        return Ok(());
    }
    let mut tries = Patience::default();
    let mut length = length_of(&target, &partial)?.min(file.size);
    watch.add(length);
    while length < file.size {
        watch.interrupt.check()?;
        let failure = match client.get(&file.url, length) {
            Ok(response) => {
                let resumed = response.status() == 206;
                if !resumed && length > 0 {
                    target.set_len(0).map_err(Error::io("truncate", &partial))?;
                    watch.done -= length;
                }
                let start = if resumed { length } else { 0 };
                let body = response.into_body().into_reader().take(file.size - start);
                let failure = copy(body, &mut target, &partial, watch)?;
                let reached = length_of(&target, &partial)?;
                if reached > length {
                    tries = Patience::default();
                }
                length = reached;
                failure
            }
            Err(failure) => Some(failure),
        };
        if length < file.size {
            let failure = failure.unwrap_or_else(|| Failure::passing(format!("{length} of {} bytes", file.size)));
            if !failure.again || !tries.wait() {
                return Err(client.failed(&file.url, failure));
            }
        }
    }
    check(&mut target, file, &partial)?.map_err(|found| client.unavailable(&file.url, found))?;
    target.sync_all().map_err(Error::io("sync", &partial))?;
    fs::rename(&partial, blob).map_err(Error::io("rename", &partial))
}

/// Appends `body` to `target`. A broken transfer is a [`Failure`], a broken disk an error.
fn copy(mut body: impl Read, target: &mut File, path: &Path, watch: &mut Watch<'_>) -> Result<Option<Failure>> {
    let mut block = vec![0u8; 1 << 16];
    loop {
        watch.interrupt.check()?;
        let length = match body.read(&mut block) {
            Ok(0) => return Ok(None),
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Ok(Some(Failure::passing(e.to_string()))),
        };
        target.write_all(&block[..length]).map_err(Error::io("write", path))?;
        watch.add(length as u64);
    }
}

/// Compares the bytes with the hash that the hub announced. A file that differs is removed and the difference given.
fn check(target: &mut File, file: &RemoteFile, path: &Path) -> Result<Result<(), String>> {
    let found = match file.etag.len() {
        64 => hash::<Sha256>(target, b"").map_err(Error::io("read", path))?,
        40 => hash::<Sha1>(target, format!("blob {}\0", file.size).as_bytes()).map_err(Error::io("read", path))?,
        // Another server's tag says nothing about the content.
        _ => return Ok(Ok(())),
    };
    if found == file.etag.to_lowercase() {
        return Ok(Ok(()));
    }
    fs::remove_file(path).map_err(Error::io("remove", path))?;
    Ok(Err(format!("damaged bytes: the hash {} was announced, {found} arrived", file.etag)))
}

fn hash<D: Digest>(file: &mut File, header: &[u8]) -> io::Result<String> {
    let mut digest = D::new();
    digest.update(header);
    file.rewind()?;
    let mut block = vec![0u8; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => break,
            length => digest.update(&block[..length]),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes `snapshot/name` a relative link to `blob`, as the hub's own tools do.
fn link(blob: &Path, snapshot: &Path, name: &str) -> Result<()> {
    let pointer = snapshot.join(name);
    if pointer.is_file() {
        return Ok(());
    }
    let folder = pointer.parent().unwrap_or(snapshot);
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let temporary = pointer.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let up = "../".repeat(1 + Path::new(name).components().count());
    let target = Path::new(&up).join("blobs").join(blob.file_name().unwrap_or_default());
    #[cfg(unix)]
    std::os::unix::fs::symlink(&target, &temporary).map_err(Error::io("link", &temporary))?;
    #[cfg(not(unix))]
    fs::copy(blob, &temporary).map(|_| drop(target)).map_err(Error::io("copy", blob))?;
    fs::rename(&temporary, &pointer).map_err(Error::io("rename", &temporary))
}

/// Writes a small file so that nobody sees half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, bytes).map_err(Error::io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("rename", &temporary))
}

fn length_of(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(Error::io("read", path))?.len())
}
