//! The graph finds what exact search finds, for every row, under any load, or says why not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hindsearch_indexes::{
    ElementType, Error, ErrorKind, Flat, Hnsw, HnswBuilder, HnswOptions, HnswSummary, Index, Interrupt, Matrix,
    RecallTarget, SearchParams, Sharded, Vectors, choose_expansion, measure_recall,
};
use tempfile::TempDir;

const OPTIONS: HnswOptions = HnswOptions { expansion_search: 128, max_concurrency: 4 };

struct Built {
    folder: TempDir,
    matrix: Arc<Matrix>,
    summary: HnswSummary,
}

impl Built {
    fn new(vectors: &Vectors, threads: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let matrix = common::matrix(&folder.path().join("vectors"), vectors, ElementType::F16);
        let summary = build(&matrix, &folder.path().join("graph"), threads).unwrap();
        Self { folder, matrix, summary }
    }

    fn graph(&self) -> PathBuf {
        self.folder.path().join("graph")
    }

    fn open(&self) -> Hnsw {
        Hnsw::open(&self.graph(), Arc::clone(&self.matrix), OPTIONS).unwrap()
    }
}

fn build(matrix: &Matrix, path: &Path, threads: usize) -> Result<HnswSummary, Error> {
    HnswBuilder { threads, ..HnswBuilder::default() }.build(matrix, path, &|_| {}, &Interrupt::new())
}

#[test]
fn held_out_queries_find_what_exact_search_finds_with_the_same_scores() {
    let built = Built::new(&common::vectors(6000, 96, 40), 0);
    let (mut graph, exact) = (Sharded::single(built.open()), Flat::new(Arc::clone(&built.matrix)));
    let queries = common::vectors(200, 96, 41);
    let target = RecallTarget { top_k: 10, floor: 0.95 };
    let calibration = choose_expansion(&exact, &mut graph, &queries, target).unwrap();
    assert!(calibration.recall >= 0.95 && calibration.recall <= 1.0);
    assert!(graph.parts().all(|(_, graph)| graph.options().expansion_search == calibration.expansion_search));
    assert_eq!(measure_recall(&exact, &graph, &queries, 10).unwrap(), calibration.recall);
    assert_eq!(measure_recall(&exact, &exact, &queries, 10).unwrap(), 1.0);

    let params = SearchParams::top(10);
    let truth = exact.search(&queries, &SearchParams::top(6000)).unwrap();
    for (truth, hits) in truth.iter().zip(graph.search(&queries, &params).unwrap()) {
        assert!(hits.iter().all(|hit| truth.contains(hit)));
        assert!(hits.is_sorted_by(|a, b| (b.score, a.row) < (a.score, b.row)));
    }
}

#[test]
fn recall_below_the_floor_is_an_error() {
    let built = Built::new(&common::vectors(2000, 32, 42), 0);
    let (mut graph, exact) = (Sharded::single(built.open()), Flat::new(Arc::clone(&built.matrix)));
    let target = RecallTarget { top_k: 10, floor: 1.5 };
    let error = choose_expansion(&exact, &mut graph, &common::vectors(20, 32, 43), target).unwrap_err();
    assert!(matches!(error, Error::RecallBelowFloor { top_k: 10, .. }), "{error}");
}

#[test]
fn every_row_is_found_although_many_threads_built() {
    let vectors = common::vectors(6000, 48, 44);
    let built = Built::new(&vectors, 16);
    assert_eq!(built.summary.rows, 6000);
    let mut graph = built.open();
    graph.set_expansion_search(512);
    let hits = graph.search(&vectors, &SearchParams::top(10)).unwrap();
    let lost = (0..).zip(&hits).filter(|(row, hits)| !hits.iter().any(|hit| hit.row == *row)).count();
    assert_eq!(lost, 0, "after {} repairs", built.summary.repaired);
}

#[test]
fn there_are_always_exactly_min_k_n_hits() {
    for count in [0, 1, 3, 700] {
        let built = Built::new(&common::vectors(count, 16, 45), 2);
        let (graph, exact) = (built.open(), Flat::new(Arc::clone(&built.matrix)));
        for queries in [0, 1, 5] {
            let queries = common::vectors(queries, 16, 46);
            for top_k in [0, 1, count, count + 1, 1_000_000, usize::MAX] {
                let hits = graph.search(&queries, &SearchParams::top(top_k)).unwrap();
                assert_eq!(hits.len(), queries.len());
                assert!(hits.iter().all(|hits| hits.len() == count.min(top_k)));
                if count < 512 || top_k >= count {
                    assert_eq!(hits, exact.search(&queries, &SearchParams::top(top_k)).unwrap());
                }
            }
        }
    }
}

#[test]
fn copies_do_not_hide_each_other_or_anyone_else() {
    // Three vectors 400 times each, exactly and then almost, among others.
    let three = common::vectors(3, 24, 47);
    let others = common::vectors(600, 24, 60);
    for noise in [0.0, 1e-5, 1e-3, 1e-2] {
        let noisy = common::vectors(1200, 24, 61);
        let copies = three.as_slice().repeat(400);
        let copies = copies.iter().zip(noisy.as_slice()).map(|(x, other)| x + noise * other);
        let vectors = Vectors::new(24, copies.chain(others.as_slice().iter().copied()).collect()).unwrap();
        let built = Built::new(&vectors, 4);
        let (graph, exact) = (built.open(), Flat::new(Arc::clone(&built.matrix)));
        if noise == 0.0 {
            assert_eq!(built.summary.copies, 3 * 399);
            let params = SearchParams::top(5);
            assert_eq!(graph.search(&three, &params).unwrap(), exact.search(&three, &params).unwrap());
        }
        let recall = measure_recall(&exact, &graph, &common::vectors(100, 24, 62), 10).unwrap();
        // Within a clump the codes hardly tell rows apart; an island of lost rows would cost far more.
        assert!(recall > 0.9, "recall {recall} with noise {noise}");
    }
}

#[test]
fn answers_do_not_depend_on_threads_or_batches() {
    let built = Built::new(&common::vectors(3000, 32, 48), 0);
    let graph = built.open();
    let queries = common::vectors(60, 32, 49);
    let search =
        |queries: &Vectors, threads| graph.search(queries, &SearchParams { threads, ..SearchParams::top(5) }).unwrap();
    let together = search(&queries, 1);
    assert_eq!(together, search(&queries, 8));
    for (query, hits) in queries.rows().zip(&together) {
        assert_eq!(&search(&Vectors::new(32, query.to_vec()).unwrap(), 1)[0], hits);
    }
}

#[test]
fn more_callers_than_contexts_wait_and_none_fails() {
    let built = Built::new(&common::vectors(2000, 16, 50), 0);
    let graph = built.open();
    assert_eq!(graph.max_concurrency(), 4);
    let queries = common::vectors(50, 16, 51);
    let expected = graph.search(&queries, &SearchParams::top(3)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..256 {
            scope.spawn(|| {
                let hits = graph.search(&queries, &SearchParams { threads: 1, ..SearchParams::top(3) });
                assert_eq!(hits.unwrap(), expected);
            });
        }
    });
}

#[test]
fn what_is_no_query_is_refused() {
    let built = Built::new(&common::vectors(1000, 4, 52), 0);
    let graph = built.open();
    for bad in [f32::NAN, f32::INFINITY, 0.0] {
        let queries = Vectors::new(4, vec![bad; 4]).unwrap();
        assert_eq!(graph.search(&queries, &SearchParams::top(3)).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let wide = common::vectors(1, 5, 53);
    assert_eq!(graph.search(&wide, &SearchParams::top(3)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_stopped_build_leaves_no_graph_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = common::matrix(&folder.path().join("vectors"), &common::vectors(3000, 16, 54), ElementType::F32);
    let path = folder.path().join("graph");
    let interrupt = Interrupt::new();
    let stop_later = |progress: hindsearch_indexes::Progress| {
        if progress.done > 1000 {
            interrupt.stop();
        }
    };
    let error = HnswBuilder::default().build(&matrix, &path, &stop_later, &interrupt).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(!path.exists());

    let most = AtomicU64::new(0);
    let count = |progress: hindsearch_indexes::Progress| {
        assert_eq!(progress.total, Some(6000));
        most.fetch_max(progress.done, Ordering::Relaxed);
    };
    HnswBuilder::default().build(&matrix, &path, &count, &Interrupt::new()).unwrap();
    assert_eq!(most.into_inner(), 6000);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_cut_file_or_a_changed_footer_is_refused() {
    let built = Built::new(&common::vectors(600, 8, 55), 2);
    let whole = fs::read(built.graph()).unwrap();
    let damaged = built.folder.path().join("damaged");
    let refused = |bytes: &[u8]| {
        fs::write(&damaged, bytes).unwrap();
        let opened = Hnsw::open(&damaged, Arc::clone(&built.matrix), OPTIONS);
        matches!(opened, Err(Error::Corrupt { .. } | Error::Incompatible { .. }))
    };
    assert!(!refused(&whole));
    for length in (0..whole.len()).step_by(2003).chain([whole.len() - 1]) {
        assert!(refused(&whole[..length]), "cut to {length}");
    }
    // The mean and the last page: each byte in use, and some of the padding.
    let mean_at = whole.len() - 8192;
    for at in
        (mean_at..mean_at + 32).chain((mean_at + 32..whole.len()).step_by(61)).chain(whole.len() - 32..whole.len())
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(refused(&bytes), "bit flipped in byte {at}");
    }
}

#[test]
fn the_graph_of_another_matrix_is_refused() {
    let built = Built::new(&common::vectors(600, 8, 56), 2);
    for (rows, dimensions) in [(601, 8), (600, 9)] {
        let other = built.folder.path().join("other");
        let other = common::matrix(&other, &common::vectors(rows, dimensions, 57), ElementType::F32);
        let error = Hnsw::open(&built.graph(), other, OPTIONS).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = common::matrix(&folder.path().join("vectors"), &common::vectors(10, 4, 58), ElementType::F32);
    for builder in [
        HnswBuilder { connectivity: 0, ..HnswBuilder::default() },
        HnswBuilder { connectivity: usize::MAX, ..HnswBuilder::default() },
        HnswBuilder { expansion_add: 0, ..HnswBuilder::default() },
        HnswBuilder { expansion_add: usize::MAX, ..HnswBuilder::default() },
    ] {
        let error = builder.build(&matrix, &folder.path().join("graph"), &|_| {}, &Interrupt::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
