//! What is measured is what is there: the truth, the work, the sizes of files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::sync::Arc;

use hindsearch_indexes::measure::{Bench, Bound, Limits, Settings, Source, Subject, Truth, efforts};
use hindsearch_indexes::{
    Effort, ElementType, Error, Flat, Forecast, Hit, Index, IndexKind, Interrupt, Layout, Matrix, SearchParams,
    Synthetic, mixed_rows,
};

const KINDS: [IndexKind; 3] = [IndexKind::Flat, IndexKind::Hnsw, IndexKind::Quantized];
const LIMITS: Limits = Limits { cores: 2, core_bandwidth: 1e10, bandwidth: 2e10, pair_ns: Some(5.0) };

fn layout(kind: IndexKind) -> Layout {
    Layout::of(kind, 16)
}

#[test]
fn the_truth_of_streamed_vectors_is_what_an_exact_index_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (vectors, queries) = (common::vectors(1500, 40, 7), common::vectors(300, 40, 8));
    let exact = Flat::new(common::matrix(&folder.path().join("vectors"), &vectors, ElementType::F32));
    let of_index = Truth::of_index(&exact, &queries, 1).unwrap();
    // Blocks that are no multiple of anything.
    for (rows, threads) in [(1500, 1), (701, 2), (97, 4)] {
        let mut parts = vectors.as_slice().chunks(rows * 40);
        let next = |block: &mut Vec<f32>| {
            block.extend(parts.next().into_iter().flatten());
            Ok(())
        };
        assert_eq!(Truth::of_vectors(&queries, threads, next).unwrap(), of_index, "{rows} rows, {threads} threads");
    }
}

#[test]
fn recall_is_the_share_of_true_rows_and_forgives_ties() {
    let folder = tempfile::tempdir().unwrap();
    // Every row twice: the copy of a true row is as true.
    let half = common::vectors(200, 16, 3);
    let twice = [half.as_slice(), half.as_slice()].concat();
    let vectors = hindsearch_indexes::Vectors::new(16, twice).unwrap();
    let queries = common::vectors(20, 16, 4);
    let exact = Flat::new(common::matrix(&folder.path().join("vectors"), &vectors, ElementType::F32));
    let truth = Truth::of_index(&exact, &queries, 1).unwrap();
    let found = exact.search(&queries, &SearchParams::top(10)).unwrap();
    assert_eq!(truth.recall(&found, 10), 1.0);
    let copies = |hit: &Hit| Hit { row: (hit.row + 200) % 400, ..*hit };
    let copied: Vec<Vec<Hit>> = found.iter().map(|hits| hits.iter().map(copies).collect()).collect();
    assert_eq!((truth.recall(&copied, 10), truth.recall(&copied, 1)), (1.0, 1.0));
    let half_found: Vec<Vec<Hit>> = found.iter().map(|hits| hits[..5].to_vec()).collect();
    assert_eq!((truth.recall(&half_found, 10), truth.recall(&half_found, 3)), (0.5, 1.0));
    assert_eq!(truth.recall(&vec![Vec::new(); 20], 10), 0.0);
}

#[test]
fn exact_search_is_measured_as_exact_with_its_bytes_and_comparisons() {
    let folder = tempfile::tempdir().unwrap();
    let synthetic = Synthetic::new(3, 32).unwrap();
    let queries = synthetic.queries(300).unwrap();
    let source = Source::Synthetic(synthetic, 2000);
    let interrupt = Interrupt::new();
    let subject = Subject {
        work: folder.path().into(),
        source: &source,
        kind: IndexKind::Flat,
        element_type: ElementType::F32,
        threads: 1,
    };
    let (index, _) = subject.open(&|_| (), &interrupt).unwrap();
    let truth = subject.truth(&queries, &|_| (), &interrupt).unwrap();
    let settings = Settings { threads: 1, singles: 3, rounds: 1 };
    let bench = Bench { queries: &queries, truth: &truth, limits: LIMITS, settings, interrupt: &interrupt };
    let measured = bench.measure(&*index, Effort::Calibrated).unwrap();
    assert_eq!((measured.recall_1, measured.recall_3, measured.recall_10), (1.0, 1.0, 1.0));
    let work = measured.batch.work.unwrap();
    assert_eq!((work.pairs, work.bytes), (2000.0, 2000.0 * 32.0 * 4.0 / 256.0));
    // Shares follow from the counted work and the rate.
    let rate = measured.batch.qps;
    assert_eq!(measured.batch.bandwidth_share, Some(rate * work.bytes / LIMITS.core_bandwidth));
    let kernel = measured.batch.kernel_share.unwrap();
    assert!((kernel - rate * work.pairs * 5e-9).abs() < 1e-9 * kernel, "{kernel}");
    assert_eq!(measured.batch.bound == Bound::Latency, kernel < 0.4);
    assert!(measured.single.p50_ms > 0.0 && measured.single.p99_ms >= measured.single.p50_ms);
    assert_eq!(measured.hits.len(), 300);
}

#[test]
fn more_effort_finds_no_less_and_every_kind_offers_some() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::Vectors(common::vectors(3000, 24, 5));
    let queries = common::vectors(100, 24, 6);
    let interrupt = Interrupt::new();
    for kind in KINDS {
        let element_type = ElementType::F16;
        let work = folder.path().into();
        let subject = Subject { work, source: &source, kind, element_type, threads: 1 };
        let (index, _) = subject.open(&|_| (), &interrupt).unwrap();
        let truth = subject.truth(&queries, &|_| (), &interrupt).unwrap();
        let settings = Settings { threads: 1, singles: 1, rounds: 1 };
        let bench = Bench { queries: &queries, truth: &truth, limits: LIMITS, settings, interrupt: &interrupt };
        let recalls: Vec<f64> =
            efforts(kind, 3000, 24).iter().map(|effort| bench.measure(&*index, *effort).unwrap().recall_10).collect();
        assert!(recalls.last() >= recalls.first() && recalls.last() > Some(&0.98), "{kind}: {recalls:?}");
    }
}

#[test]
fn a_built_index_is_kept_and_that_of_other_vectors_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let open = |seed| {
        let source = Source::Synthetic(Synthetic::new(seed, 16).unwrap(), 500);
        let subject = Subject {
            work: folder.path().into(),
            source: &source,
            kind: IndexKind::Flat,
            element_type: ElementType::F16,
            threads: 1,
        };
        subject.open(&|_| (), &interrupt).map(|(_, built)| built)
    };
    let first = open(1).unwrap();
    assert_eq!((first.rows, first.dimensions), (500, 16));
    assert_eq!(open(1).unwrap(), first, "built again");
    let refusal = open(2).unwrap_err();
    assert!(matches!(refusal, Error::Incompatible { .. }), "{refusal}");
}

#[test]
fn footprints_are_the_lengths_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    for (rows, dimensions) in [(4000, 48), (1000, 384)] {
        let source = Source::Synthetic(Synthetic::new(1, dimensions).unwrap(), rows);
        for (kind, element_type) in [
            (IndexKind::Flat, ElementType::F32),
            (IndexKind::Flat, ElementType::F16),
            (IndexKind::Flat, ElementType::I8),
            (IndexKind::Hnsw, ElementType::F16),
        ] {
            let work = folder.path().join(format!("{rows}"));
            let subject = Subject { work: work.clone(), source: &source, kind, element_type, threads: 1 };
            subject.open(&|_| (), &interrupt).unwrap();
            let footprint = layout(kind).footprint(element_type, rows, dimensions);
            let length = |name: &str| {
                fs::metadata(work.join(format!("{kind}-{element_type}")).join(name)).map_or(0, |file| file.len())
            };
            assert_eq!(footprint.file("vectors"), length("vectors"), "{kind} {element_type}");
            // How many nodes have further layers is chance; some pages come with the graph.
            let (planned, real) = (footprint.file("graph") as f64, length("graph") as f64);
            assert!((planned - real).abs() <= 0.02 * real + 4.0 * 4096.0, "graph: {planned}, is {real}");
        }
    }
}

// By FORMAT.md: 96 bytes of code, 4 of factors, a row number of 4, 16 of ids; lists of 160 rows, each with a centroid's code
// and row and a place in the directory; sections in whole pages.
#[test]
fn twenty_one_million_rows_fit_into_two_gigabytes_and_a_quarter() {
    let footprint = Layout::Quantized.footprint(ElementType::I8, 21_015_324, 768);
    let lists = 21_015_324_u64.div_ceil(160);
    let blocks = |slots: u64| slots.div_ceil(64) * 64 * 100;
    let sections = [768 * 4, 4 * 96, (lists + 1) * 8, blocks(lists), lists * (768 + 4), blocks(21_015_324)];
    let pages = sections.map(|bytes| bytes.next_multiple_of(4096));
    assert_eq!(footprint.file("codes"), 4096 + pages.iter().sum::<u64>());
    assert!(footprint.memory() < 2_600_000_000);
    assert_eq!(footprint.file("row numbers"), 21_015_324 * 4);
    assert_eq!(footprint.file("vectors"), 4096 + 4096 + 21_015_324 * (768 + 4));
    assert_eq!(footprint.disk(), footprint.memory() + footprint.page_cache());
}

#[test]
fn forecasts_follow_from_bytes_and_comparisons() {
    let flat = Forecast::new(Layout::Flat, ElementType::F16, 1_000_000, 768, &LIMITS);
    let [exact] = &flat.gears[..] else { panic!("one gear: {:?}", flat.gears) };
    // 1.536 GB at 20 GB/s; a million comparisons of 5 ns on two cores.
    assert!((exact.single_ms - 76.8).abs() < 0.1, "{}", exact.single_ms);
    assert!((exact.batch_qps - 400.0).abs() < 1.0, "{}", exact.batch_qps);
    for kind in [Layout::Flat, layout(IndexKind::Hnsw), Layout::Quantized] {
        let small = Forecast::new(kind, ElementType::I8, 100_000, 768, &LIMITS);
        let large = Forecast::new(kind, ElementType::I8, 21_015_324, 768, &LIMITS);
        assert!(large.build_seconds > small.build_seconds);
        for (small, large) in small.gears.iter().zip(&large.gears) {
            assert!(large.single_ms >= small.single_ms && large.batch_qps <= small.batch_qps, "{kind} {}", small.name);
        }
    }
}

#[test]
fn queries_made_of_rows_are_near_them_and_are_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(300, 16, 3);
    let matrix: Arc<Matrix> = common::matrix(&folder.path().join("vectors"), &vectors, ElementType::F32);
    let queries = mixed_rows(&matrix, 50).unwrap();
    assert_eq!((queries.len(), &mixed_rows(&matrix, 50).unwrap()), (50, &queries));
    assert!(queries.rows().all(|query| vectors.rows().all(|row| row != query)));
}
