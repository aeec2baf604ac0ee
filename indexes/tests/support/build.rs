//! A small build with checkpoints, and what must hold after it was cut short.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::storage::Storage;
use hindsearch_indexes::{
    Depth, ElementType, Error, FolderLock, Generation, GraphParams, IndexKind, Interrupt, Manifest, Result, Staging,
    shard_file,
};
use serde_json::{Value, json};

/// The files of a generation in the order in which the build writes them. After all but the last it saves its state.
pub const FILES: [&str; 4] = ["vectors", "passages", "ids", "graph"];

/// The bytes of a file in build `id`.
pub fn content(id: u64, file: &str) -> Vec<u8> {
    let line = format!("{file} of build {id}\n");
    line.repeat(20 + id as usize % 7).into_bytes()
}

/// A manifest with nothing special.
pub fn manifest(id: u64) -> Manifest {
    let mut manifest = Manifest::new(IndexKind::Hnsw, 10, 8, ElementType::F16);
    manifest.graph = Some(GraphParams { connectivity: 16, expansion_add: 128, expansion_search: 64 });
    manifest.attributes.insert("build".into(), json!(id));
    manifest.attributes.insert("shards".into(), json!([id]));
    manifest
}

/// The build that wrote each shard.
fn authors(manifest: &Manifest) -> Vec<u64> {
    let builds = manifest.attributes["shards"].as_array().expect("the list that the build wrote");
    builds.iter().map(|id| id.as_u64().expect("a number")).collect()
}

/// What must survive of an unfinished build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    #[default]
    Nothing,
    /// The state of this build with at least so many files.
    Files(u64, usize),
    /// No state of any build before this one.
    Restarted(u64),
}

/// What builds were told, which they may rely on.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// The last generation acknowledged, and its build.
    pub published: Option<(u64, u64)>,
    /// Publications begun and not acknowledged.
    pub attempts: Vec<(u64, u64)>,
    /// The state acknowledged since.
    pub need: Need,
}

/// Runs build `id`, taking up what is there if it is of the same build.
pub fn build(storage: Arc<dyn Storage>, root: &Path, id: u64, promises: &mut Promises) -> Result<Generation> {
    let (staging, done) = begin(FolderLock::acquire_on(storage.clone(), root)?, id, promises)?;
    finish(&*storage, staging, Work { id, done, shard: 1, manifest: manifest(id) }, promises)
}

/// Runs build `id`, which adds a shard to the current generation.
pub fn append(storage: Arc<dyn Storage>, root: &Path, id: u64, promises: &mut Promises) -> Result<Generation> {
    // Looked for before the lock as well, which would make the folder.
    Generation::open_current_on(storage.clone(), root)?;
    let lock = FolderLock::acquire_on(storage.clone(), root)?;
    let base = Generation::open_current_on(storage.clone(), root)?;
    let (mut staging, done) = begin(lock, id, promises)?;
    staging.carry(&base, |_| true)?;
    let mut manifest = Manifest { files: Vec::new(), ..base.manifest().clone() };
    let authors = [&authors(&manifest)[..], &[id]].concat();
    manifest.add_shard(10);
    manifest.attributes.insert("build".into(), json!(id));
    manifest.attributes.insert("shards".into(), json!(authors));
    finish(&*storage, staging, Work { id, done, shard: authors.len(), manifest }, promises)
}

/// What is left to be done.
struct Work {
    id: u64,
    /// Files written by an earlier process.
    done: usize,
    shard: usize,
    manifest: Manifest,
}

fn begin(lock: FolderLock, id: u64, promises: &mut Promises) -> Result<(Staging, usize)> {
    let mut staging = Staging::create_or_resume(lock)?;
    let mut done = 0;
    if let Some(state) = staging.read_state()? {
        let (build, files) = read_state(&state);
        if build == id {
            done = files;
        } else {
            promises.need = Need::Nothing;
            staging.restart()?;
            promises.need = Need::Restarted(id);
        }
    }
    Ok((staging, done))
}

fn finish(storage: &dyn Storage, staging: Staging, work: Work, promises: &mut Promises) -> Result<Generation> {
    let Work { id, done, shard, manifest } = work;
    for (number, file) in (1..).zip(FILES).skip(done) {
        let path = staging.path().join(shard_file(file, shard));
        storage.write(&path, &content(id, file)).map_err(Error::io("write", &path))?;
        if number < FILES.len() {
            staging.write_state(&json!({ "build": id, "files": number, "shard": shard }))?;
            promises.need = Need::Files(id, number);
        }
    }
    let number = staging.number();
    promises.attempts.push((number, id));
    let generation = staging.publish(manifest, &|_| (), &Interrupt::new())?;
    promises.published = Some((number, id));
    promises.need = Need::Nothing;
    Ok(generation)
}

fn read_state(state: &Value) -> (u64, usize) {
    let number = |key| state[key].as_u64().expect("the state that the build wrote");
    (number("build"), number("files") as usize)
}

/// Reads a whole file.
pub fn read(storage: &dyn Storage, path: PathBuf) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    storage.open(&path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Compares the index with what was promised; the error says which promise is broken. This takes up the build, so
/// `storage` should be a copy.
pub fn check_promises(storage: &Arc<dyn Storage>, root: &Path, promises: &Promises) -> Result<(), String> {
    let current = check_current(storage, root, promises)?;
    check_state(storage, root, promises, current)
}

/// Checks the promises, and that the next build goes well and leaves nothing behind.
pub fn check(storage: Arc<dyn Storage>, root: &Path, promises: &Promises) -> Result<(), String> {
    check_promises(&storage, root, promises)?;

    let id = 1_000;
    let finished = build(storage.clone(), root, id, &mut Promises::default());
    let number = finished.map_err(|e| format!("the next build fails: {e}"))?.number();
    hindsearch_indexes::collect_on(storage.clone(), root, 0).map_err(|e| format!("collecting fails: {e}"))?;
    let generation = format!("gen-{number:06}");
    let names = names(&*storage, root)?;
    if names != ["CURRENT", "LOCK", &generation] {
        return Err(format!("{names:?} are left after generation {number}"));
    }
    let files = self::names(&*storage, &root.join(generation))?;
    if files != ["graph", "ids", "manifest.json", "passages", "vectors"] {
        return Err(format!("the new generation holds {files:?}"));
    }
    Ok(())
}

fn names(storage: &dyn Storage, folder: &Path) -> Result<Vec<String>, String> {
    let entries = storage.list(folder).map_err(|e| e.to_string())?;
    let mut names: Vec<_> = entries.into_iter().map(|e| e.name.to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The current generation is the last acknowledged one or a later attempt, whole.
fn check_current(storage: &Arc<dyn Storage>, root: &Path, promises: &Promises) -> Result<Option<(u64, u64)>, String> {
    let generation = match Generation::open_current_on(storage.clone(), root) {
        Ok(generation) => generation,
        Err(Error::NotFound { .. }) if promises.published.is_none() => return Ok(None),
        Err(e) => return Err(format!("the index does not open: {e}")),
    };
    generation
        .verify(Depth::Full, &|_| (), &Interrupt::new())
        .map_err(|e| format!("the index opens, but is damaged: {e}"))?;
    let id = generation.manifest().attributes["build"].as_u64().expect("the number that the build wrote");
    for (shard, author) in (1..).zip(authors(generation.manifest())) {
        for file in FILES {
            let name = shard_file(file, shard);
            let bytes = read(&**storage, generation.path().join(&name)).map_err(|e| e.to_string())?;
            if bytes != content(author, file) {
                return Err(format!("`{name}` of generation {} is not that of build {author}", generation.number()));
            }
        }
    }
    let found = (generation.number(), id);
    let acknowledged = promises.published == Some(found);
    let newer = promises.published.is_none_or(|(number, _)| found.0 > number);
    if acknowledged || newer && promises.attempts.contains(&found) {
        return Ok(Some(found));
    }
    Err(format!("generation and build {found:?} is current; {:?} was acknowledged", promises.published))
}

/// What was taken over from the current generation is whole, or not there.
fn check_carried(storage: &dyn Storage, root: &Path, staging: &Staging, shard: usize) -> Result<(), String> {
    for name in (1..shard).flat_map(|shard| FILES.map(|file| shard_file(file, shard))) {
        let line = read(storage, root.join("CURRENT")).map_err(|e| e.to_string())?;
        let current = root.join(String::from_utf8_lossy(&line).trim_end());
        let (Ok(carried), Ok(whole)) = (read(storage, staging.path().join(&name)), read(storage, current.join(&name)))
        else {
            continue;
        };
        if carried != whole {
            return Err(format!("`{name}` was taken over in part"));
        }
    }
    Ok(())
}

/// An acknowledged state is there, and so are the files that any state speaks of.
fn check_state(
    storage: &Arc<dyn Storage>,
    root: &Path,
    promises: &Promises,
    current: Option<(u64, u64)>,
) -> Result<(), String> {
    let lock = FolderLock::acquire_on(storage.clone(), root).map_err(|e| format!("locking fails: {e}"))?;
    let staging = Staging::create_or_resume(lock).map_err(|e| format!("resuming fails: {e}"))?;
    let saved = staging.read_state().map_err(|e| e.to_string())?;
    let state = saved.as_ref().map(read_state);
    if let Some(((id, files), saved)) = state.zip(saved) {
        let shard = saved["shard"].as_u64().expect("the shard that the build wrote") as usize;
        check_carried(&**storage, root, &staging, shard)?;
        for file in &FILES[..files] {
            let bytes = read(&**storage, staging.path().join(shard_file(file, shard)))
                .map_err(|e| format!("`{file}` of {state:?}: {e}"))?;
            if bytes != content(id, file) {
                return Err(format!("the state speaks of {files} files of build {id}, but `{file}` is damaged"));
            }
        }
    }
    let kept = match promises.need {
        Need::Nothing => true,
        // The build that wrote it has become current without being told.
        Need::Files(id, _) if current.is_some_and(|now| Some(now) != promises.published && now.1 == id) => true,
        Need::Files(id, files) => state.is_some_and(|state| state.0 == id && state.1 >= files),
        Need::Restarted(id) => state.is_none_or(|state| state.0 == id),
    };
    if kept { Ok(()) } else { Err(format!("the state is {state:?}, but {:?} was promised", promises.need)) }
}
