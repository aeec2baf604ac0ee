//! Damage to a published generation is found and named: at opening where it could crash a search, by a full
//! verification elsewhere. The damage here is to the manifest, to `CURRENT`, and to files as the manifest knows them.

mod support;

use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::storage::Disk;
use hindsearch_indexes::{
    Depth, Error, ErrorKind, FolderLock, Generation, Interrupt, Report, Result, Staging, collect, verify,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

use support::build::{FILES, Promises, build, manifest};
use support::scratch;

const SEED: u64 = 9;
const MIB: u64 = 1 << 20;

/// An index with files of a few pages, and a way to damage and mend it.
struct Patient {
    root: TempDir,
    generation: PathBuf,
}

impl Patient {
    fn new() -> Self {
        let root = scratch();
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let lock = FolderLock::acquire(root.path()).expect("a writable folder");
        let staging = Staging::create_or_resume(lock).expect("a writable folder");
        for (pages, file) in (3..).zip(FILES) {
            let mut bytes = vec![0; pages * 4096 + 123];
            rng.fill_bytes(&mut bytes);
            fs::write(staging.path().join(file), bytes).expect("a writable folder");
        }
        let generation = staging.publish(manifest(1), &|_| (), &Interrupt::new()).expect("a whole folder");
        let generation = generation.path().to_path_buf();
        Self { root, generation }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.generation.join(name)
    }

    /// Opens the index and looks at all of it.
    fn open(&self, depth: Depth) -> Result<Report> {
        Generation::open_current(self.root.path())?.verify(depth, &|_| (), &Interrupt::new())
    }

    /// What is said of the index while `file` holds other bytes.
    fn with<T>(&self, file: &Path, bytes: &[u8], look: impl FnOnce() -> T) -> T {
        let sound = fs::read(file).expect("a readable file");
        overwrite(file, bytes);
        let answer = look();
        overwrite(file, &sound);
        answer
    }
}

fn overwrite(file: &Path, bytes: &[u8]) {
    fs::set_permissions(file, Permissions::from_mode(0o644)).expect("a file of ours");
    fs::write(file, bytes).expect("a writable file");
}

/// The facts of a report of damage.
fn damage<T: std::fmt::Debug>(result: Result<T>) -> (PathBuf, String, String) {
    match result {
        Err(Error::Corrupt { path, expected, found }) => (path, expected, found),
        other => panic!("expected a report of damage, got {other:?}"),
    }
}

#[test]
fn every_truncation_is_refused_at_opening() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    for name in FILES {
        let file = patient.file(name);
        let sound = fs::read(&file).expect("a readable file");
        let pages = (0..sound.len()).step_by(4096);
        let random: Vec<usize> = (0..200).map(|_| rng.random_range(0..sound.len())).collect();
        for length in pages.chain(random) {
            let opened = patient.with(&file, &sound[..length], || Generation::open_current(patient.root.path()));
            let expected = format!("a file of {} bytes", sound.len());
            assert_eq!(damage(opened), (file.clone(), expected, format!("{length} bytes")));
        }
        fs::remove_file(&file).expect("a file of ours");
        let opened = Generation::open_current(patient.root.path());
        assert_eq!(damage(opened), (file.clone(), format!("a file of {} bytes", sound.len()), "no file".into()));
        fs::write(&file, sound).expect("a writable folder");
    }
    let file = patient.file("manifest.json");
    let sound = fs::read(&file).expect("a readable file");
    for length in 0..sound.len() {
        let opened = patient.with(&file, &sound[..length], || Generation::open_current(patient.root.path()));
        assert_eq!(damage(opened).0, file);
    }
    patient.open(Depth::Full).expect("all is mended");
}

#[test]
fn every_flipped_bit_is_found() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let files = [&FILES[..], &["manifest.json"]].concat();
    for round in 0..1_000 {
        let name = files[round % files.len()];
        let file = patient.file(name);
        let mut bytes = fs::read(&file).expect("a readable file");
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        let depth = if matches!(name, "vectors" | "passages" | "ids") { Depth::Full } else { Depth::Structure };
        let (path, expected, found) = damage(patient.with(&file, &bytes, || patient.open(depth)));
        assert_eq!(path, file, "byte {at} of `{name}`");
        assert_ne!(expected, found);
    }
}

#[test]
fn every_flipped_bit_of_the_manifest_is_refused_at_opening() {
    let patient = Patient::new();
    let file = patient.file("manifest.json");
    let sound = fs::read(&file).expect("a readable file");
    for bit in 0..8 * sound.len() {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let opened = patient.with(&file, &bytes, || Generation::open_current(patient.root.path()));
        assert_eq!(damage(opened).0, file, "bit {bit}");
    }
}

#[test]
fn every_flipped_bit_of_current_is_refused() {
    let patient = Patient::new();
    let file = patient.root.path().join("CURRENT");
    let sound = fs::read(&file).expect("a readable file");
    assert_eq!(sound, b"gen-000001\n");
    for bit in 0..8 * sound.len() {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let opened = patient.with(&file, &bytes, || Generation::open_current(patient.root.path()));
        let (path, ..) = damage(opened);
        assert!(path == file || path.file_name() != patient.generation.file_name(), "bit {bit}: {}", path.display());
    }
}

#[test]
fn every_lost_page_is_found() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    for round in 0..600 {
        let name = FILES[round % FILES.len()];
        let file = patient.file(name);
        let mut bytes = fs::read(&file).expect("a readable file");
        let start = 4096 * rng.random_range(0..bytes.len() / 4096);
        let page = &mut bytes[start..start + 4096];
        if round < 300 {
            page.fill(0)
        } else {
            rng.fill_bytes(page)
        };
        assert_eq!(damage(patient.with(&file, &bytes, || patient.open(Depth::Full))).0, file);
    }
}

#[test]
fn damage_in_a_long_file_is_placed() {
    let folder = scratch();
    let staging = FolderLock::acquire(folder.path()).and_then(Staging::create_or_resume).expect("a writable folder");
    for file in FILES {
        fs::write(staging.path().join(file), file).expect("a writable folder");
    }
    let long = File::create(staging.path().join("passages")).expect("a writable folder");
    long.set_len(130 * MIB).expect("a file with a hole");
    let generation = staging.publish(manifest(1), &|_| (), &Interrupt::new()).expect("a whole folder");
    let entry = generation.manifest().file("passages").expect("a published file");
    assert_eq!((entry.length, entry.chunks.len()), (130 * MIB, 3));
    assert_eq!(entry.chunks[1], blake3::hash(&vec![0; 64 << 20]).to_hex().as_str());

    let path = generation.path().join("passages");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a file of ours");
    let mut file = File::options().write(true).open(&path).expect("a writable file");
    file.seek(SeekFrom::Start(129 * MIB)).and_then(|_| file.write_all(b"!")).expect("a writable file");
    let (_, expected, _) = damage(generation.verify(Depth::Full, &|_| (), &Interrupt::new()));
    assert!(expected.starts_with(&format!("bytes {}..{} of BLAKE3", 128 * MIB, 130 * MIB)), "{expected}");
    generation.verify(Depth::Structure, &|_| (), &Interrupt::new()).expect("the structure is sound");

    let interrupt = Interrupt::new();
    interrupt.stop();
    let stopped = generation.verify(Depth::Full, &|_| (), &interrupt);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
}

/// Seals a manifest as `FORMAT.md` says, whatever it claims.
fn seal(manifest: &Value) -> Vec<u8> {
    let body = serde_json::to_string_pretty(manifest).expect("a JSON value");
    let checksum = blake3::hash(body.as_bytes()).to_hex();
    let open = body.strip_suffix("\n}").expect("an object with members");
    format!("{open},\n  \"checksum\": \"{checksum}\"\n}}\n").into_bytes()
}

/// The manifest without its checksum.
fn unsealed(file: &Path) -> Value {
    let mut manifest: Value = serde_json::from_slice(&fs::read(file).expect("a readable file")).expect("JSON");
    manifest.as_object_mut().expect("an object").remove("checksum").expect("a checksum");
    manifest
}

#[test]
fn absurd_claims_are_refused() {
    let patient = Patient::new();
    let file = patient.file("manifest.json");
    let sound = unsealed(&file);
    patient.with(&file, &seal(&sound), || patient.open(Depth::Full)).expect("the test seals as the program does");

    let absurd = [
        ("/rows", json!(u64::MAX)),
        ("/rows", json!(1_u64 << 63)),
        ("/rows", json!(-1)),
        ("/rows", json!(1e300)),
        ("/dimensions", json!(0)),
        ("/dimensions", json!(u64::MAX)),
        ("/dimensions", json!(1_u64 << 62)),
        ("/kind", json!("flat")),
        ("/kind", json!("tree")),
        ("/element_type", json!("f8")),
        ("/metric", json!("hamming")),
        ("/graph", json!(null)),
        ("/files", json!([])),
        ("/files", json!(null)),
        ("/files/0/length", json!(u64::MAX)),
        ("/files/0/length", json!(1_u64 << 63)),
        ("/files/0/length", json!(i64::MAX)),
        ("/files/0/length", json!(-5)),
        ("/files/0/length", json!(0)),
        ("/files/0/chunk_length", json!(0)),
        ("/files/0/chunk_length", json!(1)),
        ("/files/0/chunk_length", json!(u64::MAX)),
        ("/files/0/chunks", json!([])),
        ("/files/0/chunks/0", json!("")),
        ("/files/0/chunks/0", json!("é".repeat(32))),
        ("/files/0/blake3", json!("0".repeat(63))),
        ("/files/0/name", json!("")),
        ("/files/0/name", json!(".")),
        ("/files/0/name", json!("../../CURRENT")),
        ("/files/0/name", json!("/etc/passwd")),
        ("/files/0/name", json!("a/b")),
        ("/files/0/name", json!("a\u{0}b")),
        ("/files/0/name", json!("manifest.json")),
        ("/files/0/name", json!("ids")),
        ("/files/0/name", json!("other")),
    ];
    for (pointer, claim) in absurd {
        let mut manifest = sound.clone();
        *manifest.pointer_mut(pointer).expect("a member") = claim.clone();
        let opened = patient.with(&file, &seal(&manifest), || Generation::open_current(patient.root.path()));
        assert_eq!(damage(opened).0, file, "{pointer} = {claim}");
    }
    let deep = b"[".repeat(100_000);
    let huge = vec![b' '; 17 << 20];
    let text = |middle: &[u8]| {
        let body = [b"{\"format\": 1, \"x\": ", middle].concat();
        let checksum = blake3::hash(&[&body[..], b"\n}"].concat()).to_hex();
        [&body[..], b",\n  \"checksum\": \"", checksum.as_bytes(), b"\"\n}\n"].concat()
    };
    for bytes in [text(&deep), text(&huge), huge, deep.to_vec(), Vec::new(), b"\xff\xfe".to_vec()] {
        let opened = patient.with(&file, &bytes, || Generation::open_current(patient.root.path()));
        assert_eq!(damage(opened).0, file);
    }
}

#[test]
fn shards_and_deletions_that_contradict_the_rest_are_refused() {
    let patient = Patient::new();
    let file = patient.file("manifest.json");
    let sound = unsealed(&file);
    let contradictions = [
        // There is no `vectors.2`.
        ("shards", json!([5, 5])),
        ("shards", json!([10])),
        ("shards", json!([5, 4])),
        ("shards", json!([10, 0])),
        ("shards", json!([-1, 11])),
        ("shards", json!([u64::MAX, 11])),
        ("shards", json!(10)),
        ("shards", json!(vec![1; 100_000])),
        // There is no `deleted`.
        ("deleted", json!(3)),
        ("deleted", json!(11)),
        ("deleted", json!(u64::MAX)),
        ("deleted", json!(-1)),
    ];
    let with = |member: &str, claim: &Value| {
        let mut manifest = sound.clone();
        manifest.as_object_mut().expect("an object").insert(member.into(), claim.clone());
        manifest
    };
    let named = |name: &str| {
        let mut manifest = sound.clone();
        let mut entry = manifest["files"][0].clone();
        entry["name"] = name.into();
        fs::write(patient.file(name), fs::read(patient.file("graph")).expect("a file")).expect("a writable folder");
        manifest["files"].as_array_mut().expect("a list").push(entry);
        manifest
    };
    let claims = contradictions.iter().map(|(member, claim)| with(member, claim));
    for manifest in claims.chain(["graph.2", "deleted", "other.3"].map(named)) {
        let opened = patient.with(&file, &seal(&manifest), || Generation::open_current(patient.root.path()));
        assert_eq!(damage(opened).0, file, "{manifest}");
    }
}

#[test]
fn another_format_version_is_incompatible_and_says_so() {
    let patient = Patient::new();
    let file = patient.file("manifest.json");
    // A later format may have other members.
    let later = seal(&json!({ "format": 2, "novelty": true }));
    let error = patient.with(&file, &later, || Generation::open_current(patient.root.path())).expect_err("format 2");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let message = error.to_string();
    assert!(message.contains("expected format 1, found format 2"), "{message}");
}

#[test]
fn swapped_files_are_refused() {
    let patient = Patient::new();
    let mut promises = Promises::default();
    let newer = build(Arc::new(Disk), patient.root.path(), 7, &mut promises).expect("a sound disk");
    for name in ["ids", "graph", "vectors", "passages"] {
        let other = fs::read(patient.file(name)).expect("a readable file");
        let file = newer.path().join(name);
        assert_eq!(damage(patient.with(&file, &other, || Generation::open_current(patient.root.path()))).0, file);
    }
    let other = fs::read(patient.file("manifest.json")).expect("a readable file");
    let file = newer.path().join("manifest.json");
    damage(patient.with(&file, &other, || Generation::open_current(patient.root.path())));
}

#[test]
fn a_generation_is_verified_by_its_folder_too() {
    let patient = Patient::new();
    let quiet = Interrupt::new();
    let full = verify(&patient.generation, Depth::Full, &|_| (), &quiet).expect("a sound generation");
    let total: u64 = FILES.iter().map(|name| fs::metadata(patient.file(name)).expect("a file").len()).sum();
    assert_eq!(full, Report { files: 4, hashed: 4, bytes: total });
    let structure = verify(&patient.generation, Depth::Structure, &|_| (), &quiet).expect("a sound generation");
    assert_eq!((structure.files, structure.hashed), (4, 1));
    let nothing = verify(patient.root.path(), Depth::Full, &|_| (), &quiet).expect_err("no generation");
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
    assert!(collect(patient.root.path(), 0).expect("a sound index").is_empty());
}
