//! An index grows and shrinks by new generations; what was there is neither written again nor found wrong.
//!
//! `GROWTH_STEPS` sets the number of steps of the random history, `GROWTH_SEED` its seed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hindsearch_indexes::{
    Deleted, Effort, ElementType, ErrorKind, FolderLock, Generation, GraphParams, Hit, HnswBuilder, Index, IndexKind,
    Interrupt, Manifest, Matrix, MatrixSpec, MatrixWriter, QuantizedBuilder, Result, SearchParams, ShardFiles, Staging,
    Vectors, collect, open_index,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use support::scratch;

const DIMENSIONS: usize = 24;
const SEED: u64 = 57;

/// Writes the files of one shard; the texts are no concern of an index.
fn write_shard(folder: &Path, number: usize, vectors: &Vectors, kind: IndexKind) {
    let files = ShardFiles { folder, number };
    let spec = MatrixSpec::new(DIMENSIONS, ElementType::F32);
    let mut writer = MatrixWriter::create(&files.path("vectors"), spec).expect("a writable folder");
    writer.append(vectors).expect("sound vectors");
    writer.finish().expect("a writable folder");
    for name in ["passages", "ids"] {
        fs::write(files.path(name), format!("{name} of shard {number}")).expect("a writable folder");
    }
    let matrix = Matrix::open(&files.path("vectors")).expect("sound vectors");
    match kind {
        IndexKind::Flat => (),
        IndexKind::Hnsw => {
            let builder = HnswBuilder { threads: 1, ..HnswBuilder::default() };
            builder.build(&matrix, &files.path("graph"), &|_| (), &Interrupt::new()).expect("a graph");
        }
        IndexKind::Quantized => {
            let builder = QuantizedBuilder::default();
            builder.build(&matrix, &files.path("codes"), &|_| (), &Interrupt::new()).expect("codes");
        }
    }
}

fn begin(root: &Path) -> Staging {
    FolderLock::acquire(root).and_then(Staging::create_or_resume).expect("a free index")
}

fn publish(staging: Staging, manifest: Manifest) -> Result<Generation> {
    let generation = staging.publish(manifest, &|_| (), &Interrupt::new());
    let root = generation.as_ref().map(|generation| generation.path().parent().expect("an index").to_path_buf());
    if let Ok(root) = root {
        collect(root, 0).expect("a sound disk");
    }
    generation
}

fn build(root: &Path, vectors: &Vectors, kind: IndexKind) -> Generation {
    let mut manifest = Manifest::new(kind, vectors.len() as u64, DIMENSIONS, ElementType::F32);
    if kind == IndexKind::Hnsw {
        manifest.graph = Some(GraphParams { connectivity: 16, expansion_add: 128, expansion_search: 64 });
    }
    let mut staging = begin(root);
    staging.restart().expect("a writable folder");
    write_shard(staging.path(), 1, vectors, kind);
    publish(staging, manifest).expect("a whole folder")
}

/// The next generation: all shards of the current one, perhaps with one more, and with these rows deleted.
fn grow(root: &Path, more: Option<&Vectors>, gone: &[u64]) -> Generation {
    let base = Generation::open_current(root).expect("an index");
    let mut manifest = Manifest { files: Vec::new(), ..base.manifest().clone() };
    let mut staging = begin(root);
    staging.carry(&base, |name| name != "deleted").expect("links");
    if let Some(vectors) = more {
        manifest.add_shard(vectors.len() as u64);
        write_shard(staging.path(), manifest.shards().len(), vectors, manifest.kind);
    }
    let before = base.manifest().read_deleted(base.path()).expect("a sound file");
    let mut deleted = before.map_or(Deleted::none(0), |deleted| (*deleted).clone()).grown(manifest.rows);
    gone.iter().for_each(|row| assert!(deleted.insert(*row), "{row} is there"));
    manifest.deleted = deleted.count();
    if manifest.deleted > 0 {
        fs::write(staging.path().join("deleted"), deleted.encode()).expect("a writable folder");
    }
    publish(staging, manifest).expect("a whole folder")
}

fn open(generation: &Generation) -> Box<dyn Index> {
    generation.verify(hindsearch_indexes::Depth::Full, &|_| (), &Interrupt::new()).expect("a sound generation");
    open_index(generation, Effort::Calibrated).expect("a sound index")
}

/// The best of these rows by a plain sort of inner products in double precision.
fn truth(rows: &BTreeMap<u64, Vec<f32>>, query: &[f32], top_k: usize) -> Vec<Hit> {
    let score = |row: &[f32]| row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let mut hits: Vec<Hit> = rows.iter().map(|(&row, vector)| Hit { row, score: score(vector) as f32 + 0.0 }).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    hits.truncate(top_k);
    hits
}

fn rows_of<'a>(vectors: impl IntoIterator<Item = &'a Vectors>) -> BTreeMap<u64, Vec<f32>> {
    (0..).zip(vectors.into_iter().flat_map(Vectors::rows).map(<[f32]>::to_vec)).collect()
}

/// That `index` holds `rows` and nothing else; an approximate index finds nine of ten.
#[track_caller]
fn check(index: &dyn Index, rows: &BTreeMap<u64, Vec<f32>>, queries: &Vectors, exact: bool) {
    assert_eq!(index.len(), rows.len() as u64);
    for top_k in [1, 10, rows.len(), rows.len() + 1] {
        let found = index.search(queries, &SearchParams::top(top_k)).expect("an answer");
        let (mut wanted, mut good) = (0, 0);
        for (query, hits) in queries.rows().zip(&found) {
            let truth = truth(rows, query, top_k);
            assert_eq!(hits.len(), truth.len(), "min(top_k, rows) hits");
            assert!(hits.iter().all(|hit| rows.contains_key(&hit.row)), "a row that is deleted or never was");
            assert!(hits.is_sorted_by(|a, b| (b.score, a.row) < (a.score, b.row)));
            if exact {
                assert_eq!(*hits, truth);
            }
            wanted += truth.len();
            good += hits.iter().filter(|hit| truth.contains(hit)).count();
        }
        assert!(good * 10 >= wanted * 9, "{good} of {wanted} found");
    }
}

#[test]
fn all_shards_are_searched_as_one_and_deleted_rows_never_found() {
    let (first, second) = (common::vectors(3000, DIMENSIONS, 1), common::vectors(1000, DIMENSIONS, 2));
    let queries = common::vectors(20, DIMENSIONS, 3);
    for kind in [IndexKind::Flat, IndexKind::Hnsw, IndexKind::Quantized] {
        let exact = kind == IndexKind::Flat;
        let root = scratch();
        build(root.path(), &first, kind);
        let mut rows = rows_of([&first, &second]);
        check(&*open(&grow(root.path(), Some(&second), &[])), &rows, &queries, exact);

        // The best hits of all queries go, so that their places are taken by others.
        let mut gone: Vec<u64> = queries.rows().flat_map(|query| truth(&rows, query, 30)).map(|hit| hit.row).collect();
        gone.extend([0, 2999, 3000, 3999]);
        gone.sort_unstable();
        gone.dedup();
        rows.retain(|row, _| !gone.contains(row));
        check(&*open(&grow(root.path(), None, &gone)), &rows, &queries, exact);

        // Nearly all of it goes.
        let gone: Vec<u64> = rows.keys().copied().filter(|row| row % 500 != 7).collect();
        rows.retain(|row, _| row % 500 == 7);
        check(&*open(&grow(root.path(), None, &gone)), &rows, &queries, exact);
        let gone: Vec<u64> = rows.keys().copied().collect();
        let empty = open(&grow(root.path(), None, &gone));
        check(&*empty, &BTreeMap::new(), &queries, exact);
    }
}

#[test]
fn rows_asked_for_by_number_are_ranked_over_all_shards_and_deleted_ones_refused() {
    let (first, second) = (common::vectors(60, DIMENSIONS, 4), common::vectors(40, DIMENSIONS, 5));
    let root = scratch();
    build(root.path(), &first, IndexKind::Flat);
    grow(root.path(), Some(&second), &[]);
    let index = open(&grow(root.path(), None, &[5, 70]));
    let queries = common::vectors(3, DIMENSIONS, 6);
    let asked = [99, 3, 60, 59, 3];
    let mut rows = rows_of([&first, &second]);
    rows.retain(|row, _| asked.contains(row));
    for top_k in [0, 2, 4, 9] {
        let found = index.search_rows(&queries, &asked, top_k).expect("an answer");
        let expected: Vec<_> = queries.rows().map(|query| truth(&rows, query, top_k)).collect();
        assert_eq!(found, expected);
    }
    for row in [5, 70, 100, u64::MAX] {
        let error = index.search_rows(&queries, &[1, row], 2).expect_err("no such row");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&row.to_string()), "{error}");
    }
}

#[test]
fn files_of_old_shards_are_the_same_files_and_stay_read_only() {
    let root = scratch();
    let inode = |generation: &Generation, name: &str| {
        let facts = fs::metadata(generation.path().join(name)).expect("a published file");
        assert_eq!(facts.mode() & 0o222, 0, "{name} is read-only");
        facts.ino()
    };
    let first = build(root.path(), &common::vectors(50, DIMENSIONS, 7), IndexKind::Flat);
    let second = grow(root.path(), Some(&common::vectors(20, DIMENSIONS, 8)), &[1]);
    let third = grow(root.path(), None, &[2, 60]);
    for name in IndexKind::Flat.files() {
        assert_eq!(inode(&first, name), inode(&second, name), "{name}");
        assert_eq!(inode(&first, name), inode(&third, name), "{name}");
        let later = format!("{name}.2");
        assert_eq!(inode(&second, &later), inode(&third, &later), "{later}");
        assert_eq!(first.manifest().file(name), third.manifest().file(name), "its hashes are carried over");
    }
    assert_ne!(inode(&second, "deleted"), inode(&third, "deleted"));
    let shape = |generation: &Generation| {
        let manifest = generation.manifest();
        (manifest.rows, manifest.shard_rows.clone(), manifest.deleted, manifest.live_rows())
    };
    assert_eq!(shape(&first), (50, vec![], 0, 50));
    assert_eq!(shape(&third), (70, vec![50, 20], 3, 67));

    // A build that goes on makes its own files writable, and no others.
    let mut staging = begin(root.path());
    staging.carry(&third, |_| true).expect("links");
    fs::write(staging.path().join("vectors.3"), "half").expect("a writable folder");
    staging.write_state(&serde_json::json!({ "rows": 5 })).expect("a writable folder");
    drop(staging);
    let staging = begin(root.path());
    assert_eq!(staging.read_state().expect("a state"), Some(serde_json::json!({ "rows": 5 })));
    let mode = |name: &str| fs::metadata(staging.path().join(name)).expect("a staged file").mode() & 0o222;
    assert_eq!((mode("vectors"), mode("ids.2")), (0, 0));
    assert_ne!(mode("vectors.3"), 0);
}

#[test]
fn readers_of_an_old_generation_keep_their_answers() {
    let root = scratch();
    let vectors = common::vectors(800, DIMENSIONS, 9);
    let queries = common::vectors(10, DIMENSIONS, 10);
    let old = build(root.path(), &vectors, IndexKind::Hnsw);
    let index = open(&old);
    let before = index.search(&queries, &SearchParams::top(10)).expect("an answer");
    let best: Vec<u64> =
        before.iter().map(|hits| hits[0].row).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let newer = grow(root.path(), Some(&common::vectors(300, DIMENSIONS, 11)), &best);
    let rebuilt = build(root.path(), &common::vectors(30, DIMENSIONS, 12), IndexKind::Flat);
    for generation in [&old, &newer] {
        assert!(generation.path().is_dir(), "generation {} is in use", generation.number());
        generation.verify(hindsearch_indexes::Depth::Full, &|_| (), &Interrupt::new()).expect("it is in use");
    }
    assert_eq!(index.search(&queries, &SearchParams::top(10)).expect("an answer"), before);
    let (old, newer) = (old.path().to_path_buf(), {
        drop(old);
        newer
    });
    collect(root.path(), 0).expect("a sound disk");
    assert!(!old.exists(), "nobody reads it");
    // Files that it shared with the one that went.
    newer.verify(hindsearch_indexes::Depth::Full, &|_| (), &Interrupt::new()).expect("it is in use");
    assert_eq!(Generation::open_current(root.path()).expect("an index").number(), rebuilt.number());
}

#[test]
fn a_list_of_deleted_rows_that_is_damaged_or_of_another_index_is_refused() {
    let root = scratch();
    build(root.path(), &common::vectors(100, DIMENSIONS, 13), IndexKind::Flat);
    let generation = grow(root.path(), None, &[3, 64, 99]);
    let read = |rows, count| Deleted::read(generation.path(), rows, count);
    assert_eq!(read(100, 3).expect("as written").live_from(60).take(4).collect::<Vec<_>>(), [60, 61, 62, 63]);
    for (rows, count) in [(101, 3), (100, 2), (0, 0), (u64::MAX, 3)] {
        assert_eq!(read(rows, count).expect_err("another index").kind(), ErrorKind::Corrupt);
    }
    let bytes = fs::read(generation.path().join("deleted")).expect("a published file");
    // As FORMAT.md says: bit r mod 8 of byte r / 8.
    let set: Vec<(usize, u8)> =
        (0..).zip(&bytes[4096..]).filter(|(_, byte)| **byte != 0).map(|(at, b)| (at, *b)).collect();
    assert_eq!((bytes.len(), set), (4096 + 16, vec![(0, 1 << 3), (8, 1), (12, 1 << 3)]));
    let other = scratch();
    let damaged = |bytes: &[u8]| {
        fs::write(other.path().join("deleted"), bytes).expect("a writable folder");
        Deleted::read(other.path(), 100, 3)
    };
    damaged(&bytes).expect("a copy is as good");
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        damaged(&bytes).expect_err("a flipped bit");
    }
    for length in (0..bytes.len()).step_by(512) {
        damaged(&bytes[..length]).expect_err("a cut file");
    }
    damaged(&[&bytes[..], &[0; 8]].concat()).expect_err("a longer file");

    // A list that is sound, in an index that claims another number.
    let mut staging = begin(root.path());
    staging.carry(&generation, |_| true).expect("links");
    let manifest = Manifest { deleted: 2, files: Vec::new(), ..generation.manifest().clone() };
    let wrong = publish(staging, manifest).expect("whole files");
    let error = open_index(&wrong, Effort::Calibrated).err().expect("a contradiction");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("2 of 100 rows deleted"), "{error}");
}

/// A random history against a map and a full sort, in the manner of a model test: each step appends, deletes, compacts,
/// searches or opens the index anew.
#[test]
fn any_history_of_growth_answers_as_a_sorted_map_does() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seed, steps) = (number("GROWTH_SEED").unwrap_or(SEED), number("GROWTH_STEPS").unwrap_or(400));
    let seen = format!("GROWTH_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let root = scratch();
    let vectors = common::vectors(40, DIMENSIONS, seed);
    let mut rows = rows_of([&vectors]);
    let mut next = 40;
    build(root.path(), &vectors, IndexKind::Flat);
    let mut index = open(&Generation::open_current(root.path()).expect("an index"));
    for step in 0..steps {
        match rng.random_range(0..100) {
            0..12 => {
                let more = common::vectors(rng.random_range(1..30), DIMENSIONS, rng.random());
                // Some of the old rows are replaced at once.
                let gone: Vec<u64> = rows.keys().copied().filter(|_| rng.random_bool(0.05)).collect();
                rows.retain(|row, _| !gone.contains(row));
                rows.extend((next..).zip(more.rows().map(<[f32]>::to_vec)));
                next += more.len() as u64;
                index = open(&grow(root.path(), Some(&more), &gone));
            }
            12..24 => {
                let gone: Vec<u64> = rows.keys().copied().filter(|_| rng.random_bool(0.2)).collect();
                rows.retain(|row, _| !gone.contains(row));
                index = open(&grow(root.path(), None, &gone));
            }
            24..28 if !rows.is_empty() => {
                let kept: Vec<f32> = rows.values().flatten().copied().collect();
                let kept = Vectors::new(DIMENSIONS, kept).expect("whole rows");
                (rows, next) = (rows_of([&kept]), kept.len() as u64);
                index = open(&build(root.path(), &kept, IndexKind::Flat));
            }
            28 => {
                // Work that a dead process has left, and an index opened anew.
                let mut staging = begin(root.path());
                staging.carry(&Generation::open_current(root.path()).expect("an index"), |_| true).expect("links");
                fs::write(staging.path().join("vectors.99"), "half").expect("a writable folder");
                drop(staging);
                index = open(&Generation::open_current(root.path()).expect("an index"));
            }
            _ => {}
        }
        let queries = common::vectors(2, DIMENSIONS, rng.random());
        let top_k = rng.random_range(0..12);
        let found = index.search(&queries, &SearchParams::top(top_k)).expect("an answer");
        let expected: Vec<_> = queries.rows().map(|query| truth(&rows, query, top_k)).collect();
        assert_eq!(found, expected, "step {step} of {seen}");
        assert_eq!(index.len(), rows.len() as u64, "step {step} of {seen}");
    }
}
