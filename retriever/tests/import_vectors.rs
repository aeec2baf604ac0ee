//! Vectors that exist are taken from files instead of embedding, and only with the passages that they belong to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::{
    ElementType, ErrorKind, ExportFormat, Flat, Generation, IndexKind, Interrupt, Matrix, SearchParams, Sharded,
    Vectors, export_vectors, read_npy, write_npy,
};
use hindsearch_retriever::build::{BuildOptions, BuildReport, IndexOptions, Stage, build};
use hindsearch_retriever::embed::{CardOverrides, EmbedOptions, Embedder, InputKind, ModelSource, Pooling};
use hindsearch_retriever::{Error, OpenOptions, Result, Retriever};
use serde_json::{Value, json};
use tempfile::TempDir;

const ROWS: usize = 300;

fn model() -> ModelSource {
    ModelSource::Folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tiny-bert"))
}

/// The text of a passage: all differ, so that a row in another place shows.
fn contents(row: usize) -> String {
    format!(
        "\"Topic {row}\"\n{} the river of town {row} {}",
        "many years before ".repeat(row % 7),
        "war ".repeat(row % 5)
    )
}

struct World {
    folder: TempDir,
}

impl World {
    fn new(rows: usize) -> Self {
        let world = Self { folder: TempDir::new().unwrap() };
        let line = |row| json!({ "id": format!("p{row}"), "contents": contents(row) }).to_string() + "\n";
        std::fs::write(world.path("corpus.jsonl"), (0..rows).map(line).collect::<String>()).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self, out: &str, vectors: &[&str]) -> BuildOptions {
        BuildOptions {
            corpus: vec![self.path("corpus.jsonl")],
            format: None,
            vectors: vectors.iter().map(|name| self.path(name)).collect(),
            out: self.path(out),
            model: model(),
            embed: EmbedOptions { threads: 1, ..EmbedOptions::default() },
            index: IndexOptions {
                kind: IndexKind::Flat,
                element_type: ElementType::F32,
                recall_floor: 0.0,
                connectivity: 16,
                expansion_add: 64,
            },
            restart: false,
            settings: Value::Null,
        }
    }

    fn import(&self, vectors: &[&str]) -> Result<BuildReport> {
        build(&self.options("imported", vectors), &|_, _| (), &Interrupt::new())
    }

    /// Writes rows as an array of NumPy's.
    fn write(&self, name: &str, rows: impl Iterator<Item = Vec<f32>>) {
        write_npy(&self.path(name), &Vectors::new(32, rows.flatten().collect()).unwrap()).unwrap();
    }

    /// Refused, in these words, and nothing is published.
    #[track_caller]
    fn refused(&self, vectors: &[&str], words: &[&str]) -> Error {
        let error = self.import(vectors).expect_err("a refusal");
        for word in words {
            assert!(error.to_string().contains(word), "no {word:?} in: {error}");
        }
        assert!(!self.path("imported").join("CURRENT").exists());
        error
    }
}

/// What the model makes of the first `rows` passages.
fn embedded(rows: usize, card: CardOverrides) -> Vec<Vec<f32>> {
    let embedder = Embedder::open(&model(), EmbedOptions { card, threads: 1, ..EmbedOptions::default() }).unwrap();
    let texts = (0..rows).map(contents).collect();
    embedder.submit(texts, InputKind::Passage).wait().unwrap().rows().map(<[f32]>::to_vec).collect()
}

fn usual(rows: usize) -> Vec<Vec<f32>> {
    embedded(rows, CardOverrides::default())
}

fn hits(index: &Path) -> Vec<(u64, f32)> {
    let retriever = Retriever::open(index, OpenOptions { model: Some(model()), ..OpenOptions::default() }).unwrap();
    let queries = ["the river of town 7", "Topic 250", "many years before the war"];
    let found = retriever.retrieve_texts(&queries, &SearchParams::top(10)).unwrap();
    found.into_iter().flatten().map(|hit| (hit.row, hit.score)).collect()
}

fn export(index: &Path, out: &Path) {
    let matrix = Matrix::open(&Generation::open_current(index).unwrap().path().join("vectors")).unwrap();
    let index = Sharded::single(Flat::new(Arc::new(matrix)));
    export_vectors(&index, out, ExportFormat::of(out).unwrap(), &|_| (), &Interrupt::new()).unwrap();
}

#[test]
fn an_index_of_imported_vectors_answers_as_the_one_they_come_from() {
    let world = World::new(ROWS);
    build(&world.options("original", &[]), &|_, _| (), &Interrupt::new()).unwrap();
    for name in ["v.npy", "v.faiss"] {
        export(&world.path("original"), &world.path(name));
    }
    let (whole, npy) = (std::fs::read(world.path("v.faiss")).unwrap(), std::fs::read(world.path("v.npy")).unwrap());
    std::fs::write(world.path("part_aa"), &whole[..10_001]).unwrap();
    std::fs::write(world.path("part_ab"), &whole[10_001..]).unwrap();
    std::fs::write(world.path("v.memmap"), &npy[npy.len() - ROWS * 32 * 4..]).unwrap();
    let expected = hits(&world.path("original"));
    for files in [&["v.npy"][..], &["v.faiss"], &["part_aa", "part_ab"], &["v.memmap"]] {
        let report = world.import(files).unwrap();
        assert_eq!((report.imported, report.embedded), (ROWS as u64, 0));
        assert_eq!(hits(&world.path("imported")), expected, "{files:?}");
        export(&world.path("imported"), &world.path("again.npy"));
        assert_eq!(std::fs::read(world.path("again.npy")).unwrap(), npy, "{files:?}");
    }
}

#[test]
fn every_kind_and_element_type_takes_them_and_says_where_they_come_from() {
    let world = World::new(ROWS);
    world.write("v.npy", usual(ROWS).into_iter());
    for kind in [IndexKind::Flat, IndexKind::Hnsw] {
        for element_type in [ElementType::F32, ElementType::F16, ElementType::I8] {
            let mut options = world.options("imported", &["v.npy"]);
            (options.index.kind, options.index.element_type) = (kind, element_type);
            let report = build(&options, &|_, _| (), &Interrupt::new()).unwrap();
            let generation = Generation::open_current(&options.out).unwrap();
            let told = &generation.manifest().attributes["provenance"]["imported"];
            assert_eq!(told["format"], "NumPy array (f4)");
            assert_eq!(told["values"]["values"], ROWS as u64 * 32);
            assert!(told["pairing"]["least_cosine"].as_f64() > Some(0.9999), "{told}");
            assert_eq!(report.provenance.imported.unwrap().pairing.passages, 64);
            assert_eq!(hits(&options.out).len(), 30);
        }
    }
}

#[test]
fn what_was_taken_is_not_taken_again() {
    let world = World::new(3000);
    world.write("v.npy", usual(3000).into_iter());
    let (options, interrupt) = (world.options("imported", &["v.npy"]), Interrupt::new());
    let stop = |stage, progress: hindsearch_indexes::Progress| {
        if stage == Stage::Vectors && progress.done >= 1024 {
            interrupt.stop();
        }
    };
    build(&options, &stop, &interrupt).unwrap_err();
    let report = build(&options, &|_, _| (), &Interrupt::new()).unwrap();
    assert_eq!(report.imported, 3000 - 1024);
    assert_eq!(report.provenance.imported.unwrap().values.values, 3000 * 32);
    assert_eq!(read_npy(&world.path("v.npy")).unwrap().len(), 3000);
    export(&world.path("imported"), &world.path("again.npy"));
    assert_eq!(std::fs::read(world.path("again.npy")).unwrap(), std::fs::read(world.path("v.npy")).unwrap());
}

#[test]
fn rows_of_other_files_are_not_mixed_in() {
    let world = World::new(3000);
    world.write("v.npy", usual(3000).into_iter());
    let interrupt = Interrupt::new();
    let stop = |stage, progress: hindsearch_indexes::Progress| {
        if stage == Stage::Vectors && progress.done >= 1024 {
            interrupt.stop();
        }
    };
    build(&world.options("imported", &["v.npy"]), &stop, &interrupt).unwrap_err();
    std::fs::copy(world.path("v.npy"), world.path("w.npy")).unwrap();
    world.refused(&["w.npy"], &["unfinished build", "v.npy", "w.npy", "--restart"]);
    world.refused(&[], &["unfinished build", "embedded", "v.npy"]);
}

#[test]
fn another_number_of_rows_or_values_is_refused_with_both() {
    let world = World::new(ROWS);
    world.write("less.npy", usual(ROWS - 1).into_iter());
    world.refused(&["less.npy"], &["300 rows", "299 rows of 32 values", "less.npy"]);
    write_npy(&world.path("wide.npy"), &Vectors::new(64, vec![0.125; 64 * ROWS]).unwrap()).unwrap();
    world.refused(&["wide.npy"], &["32 values a row", "64", "--model"]);
}

#[test]
fn rows_of_other_passages_are_refused_with_where_they_are() {
    let world = World::new(ROWS);
    let usual = usual(ROWS + 1);
    world.write("shifted.npy", usual[1..].iter().cloned());
    let error = world.refused(
        &["shifted.npy"],
        &["row 0", "`p0`", "the vector of row 37 is in row 36", "shifted by -1 from the first row on"],
    );
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    // One passage more in the middle.
    world.write("later.npy", usual[..200].iter().chain(&usual[201..]).cloned());
    world.refused(
        &["later.npy"],
        &["the vector of row 225 is in row 224: rows are shifted by -1 from a row after 187 on"],
    );
    // The last row alone shows that one is missing near the end.
    world.write("last.npy", usual[..298].iter().chain(&usual[299..]).cloned());
    world.refused(&["last.npy"], &["row 299", "1 of 64 sampled rows differ"]);
    world.write("reversed.npy", usual[..ROWS].iter().rev().cloned());
    world.refused(&["reversed.npy"], &["in another order"]);
}

#[test]
fn vectors_made_in_another_way_are_refused_with_that_way() {
    let world = World::new(ROWS);
    let with = |card| embedded(ROWS, card).into_iter();
    world.write("p.npy", with(CardOverrides { passage_prefix: Some("passage: ".into()), ..Default::default() }));
    world.refused(&["p.npy"], &["--set model.passage_prefix=\"passage: \"", "row 0"]);
    world.write("cls.npy", with(CardOverrides { pooling: Some(Pooling::Cls), ..Default::default() }));
    world.refused(&["cls.npy"], &["--set model.pooling=cls"]);
    let other = (0..ROWS).map(|row| (0..32).map(|i| ((row * 37 + i * 11) % 17) as f32 - 8.0).collect());
    world.write("other.npy", other);
    world.refused(&["other.npy"], &["no neighbouring row", "--model", "tiny-bert"]);
}

#[test]
fn lengths_that_would_rank_otherwise_are_refused() {
    let world = World::new(ROWS);
    let scaled = |by: fn(usize) -> f32| {
        let rows = usual(ROWS).into_iter().enumerate();
        rows.map(move |(row, vector)| vector.into_iter().map(|x| x * by(row)).collect())
    };
    // As half precision leaves them.
    world.write("near.npy", scaled(|row| if row % 2 == 0 { 1.001 } else { 0.999 }));
    world.import(&["near.npy"]).unwrap();
    std::fs::remove_dir_all(world.path("imported")).unwrap();
    world.write("long.npy", scaled(|_| 3.0));
    world.refused(&["long.npy"], &["length 3.0000", "numpy.linalg.norm"]);
    // Rows that are not in the sample.
    world.write("some.npy", scaled(|row| if row == 3 { 0.5 } else { 1.0 }));
    world.refused(&["some.npy"], &["row 3", "length 0.5", "numpy.linalg.norm"]);
    world.write("nan.npy", scaled(|row| if row == 3 { f32::NAN } else { 1.0 }));
    world.refused(&["nan.npy"], &["nan.npy`, row 3", "finite"]);
}
