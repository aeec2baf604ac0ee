//! What publishing gives, and what it says when it cannot.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hindsearch_indexes::storage::Disk;
use hindsearch_indexes::{
    ElementType, ErrorKind, FolderLock, Generation, IndexKind, Interrupt, Manifest, Progress, Recall, Result, Staging,
    collect,
};
use serde_json::json;

use support::build::{FILES, Promises, build, content, manifest};
use support::scratch;

fn staging(root: &Path) -> Staging {
    FolderLock::acquire(root).and_then(Staging::create_or_resume).expect("a writable folder")
}

fn fill(staging: &Staging) {
    for file in FILES {
        fs::write(staging.path().join(file), content(1, file)).expect("a writable folder");
    }
}

fn publish(staging: Staging, manifest: Manifest) -> Result<Generation> {
    staging.publish(manifest, &|_| (), &Interrupt::new())
}

#[test]
fn a_manifest_comes_back_as_it_was_given() {
    let root = scratch();
    let mut given = Manifest::new(IndexKind::Flat, 10, 768, ElementType::I8);
    given.recall = Some(Recall { top_k: 10, value: 0.1 + 0.2, queries: 100, floor: 0.95 });
    given.attributes.insert("corpus".into(), json!({ "checksum": "1\"\n}\n", "rows": u64::MAX, "share": 1e-7 }));
    let staging = staging(root.path());
    for file in IndexKind::Flat.files() {
        fs::write(staging.path().join(file), file).expect("a writable folder");
    }
    publish(staging, given.clone()).expect("a whole folder");

    let generation = Generation::open_current(root.path()).expect("an index");
    let manifest = generation.manifest();
    assert_eq!(generation.number(), 1);
    assert_eq!((&manifest.recall, &manifest.attributes), (&given.recall, &given.attributes));
    assert_eq!((manifest.rows, manifest.dimensions, manifest.element_type), (10, 768, ElementType::I8));
    assert_eq!(manifest.created.len(), "2026-01-31T12:00:00Z".len());
    let mut names: Vec<_> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ids", "passages", "vectors"]);
    let vectors = manifest.file("vectors").expect("a published file");
    assert_eq!((vectors.length, &*vectors.blake3), (7, blake3::hash(b"vectors").to_hex().as_str()));
}

#[test]
fn published_files_are_read_only_and_the_state_is_gone() {
    let root = scratch();
    let staging = staging(root.path());
    fill(&staging);
    staging.write_state(&json!({ "rows": 5 })).expect("a writable folder");
    let seen = Mutex::new(Vec::new());
    let on_progress = |progress: Progress| seen.lock().expect("no panic while held").push(progress);
    let generation = staging.publish(manifest(1), &on_progress, &Interrupt::new()).expect("a whole folder");
    for entry in fs::read_dir(generation.path()).expect("a folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o222, 0, "{:?} has mode {mode:o}", entry.file_name());
        assert_ne!(entry.file_name(), "build.json");
    }
    let total = FILES.iter().map(|file| content(1, file).len() as u64).sum();
    let last = seen.lock().expect("no panic while held").last().copied();
    assert_eq!(last, Some(Progress { done: total, total: Some(total) }));
}

#[test]
fn a_build_is_resumed_where_its_state_was_written() {
    let root = scratch();
    let first = staging(root.path());
    assert_eq!(first.read_state().expect("a readable folder"), None);
    fs::write(first.path().join("vectors"), "half").expect("a writable folder");
    first.write_state(&json!({ "rows": 5 })).expect("a writable folder");
    let (path, number) = (first.path().to_path_buf(), first.number());
    drop(first);

    let mut second = staging(root.path());
    assert_eq!((second.path(), second.number()), (&*path, number));
    assert_eq!(second.read_state().expect("a readable folder"), Some(json!({ "rows": 5 })));
    assert_eq!(fs::read(second.path().join("vectors")).expect("a file"), b"half");

    second.restart().expect("a writable folder");
    assert_eq!(second.read_state().expect("a readable folder"), None);
    assert_eq!(fs::read_dir(second.path()).expect("a folder").count(), 0);
}

#[test]
fn a_build_without_a_readable_state_starts_afresh() {
    let root = scratch();
    let damages: [&dyn Fn(&Path); 3] = [
        &|state| fs::remove_file(state).expect("a file"),
        &|state| fs::write(state, "{\"state\": {\"rows\"").expect("a file"),
        &|state| {
            let text = fs::read_to_string(state).expect("a file");
            fs::write(state, text.replace('5', "6")).expect("a file");
        },
    ];
    for damage in damages {
        let first = staging(root.path());
        fs::create_dir_all(first.path().join("shards/deep")).expect("a writable folder");
        fs::write(first.path().join("vectors"), "half").expect("a writable folder");
        first.write_state(&json!({ "rows": 5 })).expect("a writable folder");
        damage(&first.path().join("build.json"));
        drop(first);
        let second = staging(root.path());
        assert_eq!(second.read_state().expect("a readable folder"), None);
        assert_eq!(fs::read_dir(second.path()).expect("a folder").count(), 0);
    }
}

#[test]
fn a_failed_publication_can_be_repeated() {
    let root = scratch();
    let first = staging(root.path());
    fill(&first);
    first.write_state(&json!("all written")).expect("a writable folder");
    let interrupt = Interrupt::new();
    interrupt.stop();
    first.publish(manifest(1), &|_| (), &interrupt).expect_err("interrupted");
    let error = Generation::open_current(root.path()).expect_err("nothing is published").to_string();
    assert!(error.contains("has not finished"), "{error}");

    let second = staging(root.path());
    assert_eq!(second.read_state().expect("a readable folder"), Some(json!("all written")));
    publish(second, manifest(1)).expect("a whole folder");
}

#[test]
fn an_incomplete_folder_is_not_published() {
    let root = scratch();
    type Spoil<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Spoil); 4] = [
        ("a file `ids`", &|folder| fs::remove_file(folder.join("ids")).expect("a file")),
        ("`vectors.tmp`", &|folder| fs::write(folder.join("vectors.tmp"), "").expect("a folder")),
        ("`shards`", &|folder| fs::create_dir(folder.join("shards")).expect("a folder")),
        ("a plain file name", &|folder| fs::write(folder.join("two words"), "").expect("a folder")),
    ];
    for (fault, spoil) in cases {
        let staging = staging(root.path());
        fill(&staging);
        spoil(staging.path());
        let error = publish(staging, manifest(1)).expect_err(fault);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(fault), "{error}");
    }
    let contradictions: [fn(&mut Manifest); 4] = [
        |manifest| manifest.dimensions = 0,
        |manifest| manifest.rows = u64::MAX,
        |manifest| manifest.graph = None,
        |manifest| manifest.recall = Some(Recall { top_k: 10, value: f64::NAN, queries: 1, floor: 0.5 }),
    ];
    for spoil in contradictions {
        let staging = staging(root.path());
        fill(&staging);
        let mut manifest = manifest(1);
        spoil(&mut manifest);
        assert_eq!(publish(staging, manifest).expect_err("a contradiction").kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(Generation::open_current(root.path()).expect_err("no index").kind(), ErrorKind::NotFound);
}

#[test]
fn collecting_spares_the_current_the_kept_and_the_used() {
    let root = scratch();
    let make = |id| build(Arc::new(Disk), root.path(), id, &mut Promises::default()).expect("a sound disk");
    let used = make(1);
    for id in 2..=5 {
        drop(make(id));
    }
    assert_eq!(collect(root.path(), 1).expect("a sound disk"), [2, 3]);
    used.verify(hindsearch_indexes::Depth::Full, &|_| (), &Interrupt::new()).expect("it is in use");
    drop(used);
    assert_eq!(collect(root.path(), 1).expect("a sound disk"), [1]);
    assert_eq!(collect(root.path(), 0).expect("a sound disk"), [4]);
    assert!(collect(root.path(), 0).expect("a sound disk").is_empty());
    assert_eq!(Generation::open_current(root.path()).expect("an index").number(), 5);
}

#[test]
fn collecting_waits_for_no_build() {
    let root = scratch();
    build(Arc::new(Disk), root.path(), 1, &mut Promises::default()).expect("a sound disk");
    let _lock = FolderLock::acquire(root.path()).expect("a free lock");
    assert_eq!(collect(root.path(), 0).expect_err("a build runs").kind(), ErrorKind::Locked);
}

#[test]
fn missing_parents_are_made() {
    let root = scratch();
    let deep = root.path().join("a/b/wiki");
    let staging = staging(&deep);
    fill(&staging);
    publish(staging, manifest(1)).expect("a whole folder");
    assert_eq!(Generation::open_current(&deep).expect("an index").number(), 1);
}

#[test]
fn a_file_in_the_way_is_named() {
    let root = scratch();
    let file = root.path().join("notes.txt");
    fs::write(&file, "mine").expect("a writable folder");
    for path in [file.clone(), file.join("wiki"), file.join("a/b")] {
        let error = FolderLock::acquire(&path).expect_err("a file is in the way");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("`{}`", file.display())), "{error}");
        assert_eq!(Generation::open_current(&path).expect_err("no index").kind(), ErrorKind::NotFound);
        assert_eq!(collect(&path, 0).expect_err("no index").kind(), ErrorKind::NotFound);
    }
    assert_eq!(fs::read(&file).expect("a file"), b"mine");
}

#[test]
fn a_place_without_an_index_says_what_is_there() {
    let root = scratch();
    let cases = [(root.path().join("nowhere"), "nothing there"), (root.path().into(), "a folder without `CURRENT`")];
    for (path, found) in cases {
        let error = Generation::open_current(&path).expect_err("no index");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(found), "{error}");
        assert!(error.to_string().contains("build one with"), "{error}");
        assert_eq!(collect(&path, 0).expect_err("no index").kind(), ErrorKind::NotFound);
    }
    assert!(!root.path().join("nowhere").exists(), "looking makes no folder");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let root = scratch();
    let sealed = root.path().join("sealed");
    fs::create_dir(&sealed).expect("a writable folder");
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o555)).expect("a folder of ours");
    // The superuser may write everywhere but in a file system of the kernel.
    let place = if fs::write(sealed.join("probe"), "").is_ok() { Path::new("/sys/kernel") } else { &*sealed };
    if !place.is_dir() {
        return;
    }
    for path in [place.to_path_buf(), place.join("wiki")] {
        let error = FolderLock::acquire(&path).expect_err("no write permission");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&place.display().to_string()), "{error}");
        assert!(error.to_string().contains("choose another place"), "{error}");
    }
}

#[test]
fn a_damaged_current_is_mended_by_the_next_build() {
    let root = scratch();
    build(Arc::new(Disk), root.path(), 1, &mut Promises::default()).expect("a sound disk");
    fs::write(root.path().join("CURRENT"), "rubbish").expect("a file");
    assert_eq!(Generation::open_current(root.path()).expect_err("rubbish").kind(), ErrorKind::Corrupt);
    assert_eq!(collect(root.path(), 0).expect_err("rubbish").kind(), ErrorKind::Corrupt);
    let generation = build(Arc::new(Disk), root.path(), 2, &mut Promises::default()).expect("a sound disk");
    assert_eq!(generation.number(), 2);
    assert_eq!(Generation::open_current(root.path()).expect("an index").number(), 2);
}
