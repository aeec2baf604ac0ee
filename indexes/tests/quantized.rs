//! Codes nominate, rows decide: what a quantized index finds, for every query, at every effort, on every machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod support;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hindsearch_indexes::{
    Deleted, Effort, ElementType, Error, ErrorKind, Flat, Hit, Index, Interrupt, Kernel, LiveRows, Matrix, Progress,
    Quantized, QuantizedBuilder, SearchParams, Shard, Sharded, Synthetic, Vectors, calibrate, measure_recall,
};

use support::quantized::{Built, build};

/// All that a search may be asked for, with and without lists left out.
const EFFORTS: [Effort; 9] = [
    Effort::Calibrated,
    Effort::Recall(0.5),
    Effort::Exhaustive,
    Effort::Exact,
    Effort::Candidates(1),
    Effort::Candidates(100),
    Effort::Lists { probes: 1, candidates: 1 },
    Effort::Lists { probes: 3, candidates: 40 },
    Effort::Lists { probes: usize::MAX, candidates: usize::MAX },
];

fn params(top_k: usize, effort: Effort) -> SearchParams {
    SearchParams { effort, ..SearchParams::top(top_k) }
}

fn flat(built: &Built) -> Flat {
    Flat::new(Arc::clone(&built.matrix))
}

fn synthetic_rows(world: &Synthetic, count: u64) -> Vectors {
    let mut rows = vec![0.0; count as usize * world.dimensions()];
    world.rows(0..count, &mut rows);
    Vectors::new(world.dimensions(), rows).unwrap()
}

/// The queries from one number to before another.
fn some(queries: &Vectors, first: usize, end: usize) -> Vectors {
    let dimensions = queries.dimensions();
    Vectors::new(dimensions, queries.as_slice()[first * dimensions..end * dimensions].to_vec()).unwrap()
}

#[test]
fn exhaustive_search_is_nearly_exact() {
    for (dimensions, rows, least) in [(96, 20_000, 0.98), (384, 8_000, 0.98), (768, 6_000, 0.99)] {
        let world = Synthetic::new(5, dimensions).unwrap();
        let built = Built::new(&synthetic_rows(&world, rows), 160);
        let exhaustive = Sharded::single(built.open()).with_effort(Effort::Exhaustive);
        let recall = measure_recall(&flat(&built), &exhaustive, &world.queries(300).unwrap(), 10).unwrap();
        assert!(recall >= least, "{recall} of {rows} rows of {dimensions} values");
    }
}

#[test]
fn efforts_find_what_they_promise() {
    let world = Synthetic::new(5, 96).unwrap();
    let built = Built::new(&synthetic_rows(&world, 20_000), 160);
    let (exact, queries) = (flat(&built), world.queries(600).unwrap());
    let (held_out, others) = (some(&queries, 0, 300), some(&queries, 300, 600));

    let plain = Sharded::single(built.open());
    let calibration = calibrate(&exact, &plain, &held_out).unwrap();
    let index = || Quantized::open(&built.codes(), Arc::clone(&built.matrix), calibration.clone()).unwrap();
    let recall = |effort: Effort, queries: &Vectors| {
        measure_recall(&exact, &Sharded::single(index()).with_effort(effort), queries, 10).unwrap()
    };

    assert!(calibration.iter().any(|setting| setting.probes == index().lists()), "all lists were tried");
    for few in &calibration {
        for more in calibration.iter().filter(|more| more.probes >= few.probes && more.candidates >= few.candidates) {
            assert!(more.recall_10 >= few.recall_10 - 0.002, "more finds less: {more:?}, {few:?}");
        }
    }
    for wanted in [0.8, 0.95, Effort::DEFAULT_RECALL] {
        let setting = calibration.iter().find(|setting| setting.recall_10 >= wanted).unwrap();
        assert!(setting.probes < index().lists() || wanted > 0.9, "all lists are needed for {wanted}: {calibration:?}");
        // Where it was measured, to the last hit; elsewhere, as well as 3,000 hits tell.
        assert_eq!(recall(Effort::Recall(wanted), &held_out), setting.recall_10);
        let found = recall(Effort::Recall(wanted), &others);
        assert!(found >= wanted - 0.02, "an effort of {wanted} finds {found}");
    }
    assert_eq!(recall(Effort::Calibrated, &others), recall(Effort::Recall(Effort::DEFAULT_RECALL), &others));

    let truth = exact.search(&others, &SearchParams::top(10)).unwrap();
    // No measurement shows that nothing is ever missed, so all takes exact search.
    for effort in [Effort::Exact, Effort::Recall(1.0)] {
        assert_eq!(index().search(&others, &params(10, effort)).unwrap(), truth);
    }
}

#[test]
fn few_hits_are_found_as_surely_as_ten() {
    // Small ones, which mostly are searched exactly, and tight clusters, in which all rows look alike to the codes.
    for (rows, dimensions, spread) in [(500, 24, 0.4), (900, 96, 0.4), (1500, 384, 0.4), (6000, 96, 0.02)] {
        let centres = common::vectors(60, dimensions, 71);
        let near = |count: usize, seed| {
            let noise = common::vectors(count, dimensions, seed);
            let all = centres.rows().cycle().zip(noise.rows());
            let rows = all.flat_map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + spread * y).collect::<Vec<_>>());
            Vectors::new(dimensions, rows.collect()).unwrap()
        };
        let built = Built::new(&near(rows, 72), 100);
        let (exact, held_out, queries) = (flat(&built), near(200, 73), near(200, 74));
        let calibration = calibrate(&exact, &Sharded::single(built.open()), &held_out).unwrap();
        for top_k in [1, 3, 10] {
            let index = Quantized::open(&built.codes(), Arc::clone(&built.matrix), calibration.clone()).unwrap();
            let found = measure_recall(&exact, &Sharded::single(index), &queries, top_k).unwrap();
            assert!(found >= 0.9, "{found} of the {top_k} best of {rows} rows of {dimensions} values");
        }
    }
}

#[test]
fn absurdly_many_hits_are_all_rows() {
    let built = Built::new(&common::vectors(2000, 40, 75), 50);
    let queries = common::vectors(100, 40, 76);
    let calibration = calibrate(&flat(&built), &Sharded::single(built.open()), &queries).unwrap();
    let index = Quantized::open(&built.codes(), Arc::clone(&built.matrix), calibration).unwrap();
    let few = some(&queries, 0, 2);
    for top_k in [2001, usize::MAX / 300, usize::MAX / 3, usize::MAX] {
        for effort in [Effort::Calibrated, Effort::Recall(0.5), Effort::Candidates(20), Effort::Exhaustive] {
            let hits = index.search(&few, &params(top_k, effort)).unwrap();
            assert!(hits.iter().all(|hits| hits.len() == 2000), "{top_k} hits, {effort}");
        }
    }
}

#[test]
fn lists_do_not_depend_on_the_length_of_vectors() {
    let world = Synthetic::new(5, 96).unwrap();
    let rows = synthetic_rows(&world, 10_000);
    let queries = world.queries(200).unwrap();
    let recall = |length: f32| {
        let long = rows.as_slice().iter().map(|x| x * length).collect();
        let built = Built::new(&Vectors::new(96, long).unwrap(), 100);
        let lists = Sharded::single(built.open()).with_effort(Effort::Lists { probes: 8, candidates: 400 });
        measure_recall(&flat(&built), &lists, &queries, 10).unwrap()
    };
    let unit = recall(1.0);
    for length in [0.01, 10.0, 1e5] {
        let found = recall(length);
        assert!((found - unit).abs() < 0.03, "{found} of vectors of length {length}, {unit} of unit vectors");
    }
}

#[test]
fn all_kernels_give_the_same_estimates_and_hits() {
    for (dimensions, rows) in [(8, 1000), (33, 700), (100, 641), (768, 330)] {
        let built = Built::new(&common::vectors(rows, dimensions, 80), 40);
        // An odd number: kernels take two at once, and one at the end; and many, for which they prepare blocks.
        let queries = common::vectors(19, dimensions, 81);
        let with = |kernel| built.open().with_kernel(kernel);
        let bits = |kernel| {
            let estimates = with(kernel).estimates(&queries).unwrap();
            estimates.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let hits = |kernel| EFFORTS.map(|effort| with(kernel).search(&queries, &params(3, effort)).unwrap());
        assert!(bits(Kernel::Scalar).iter().all(|bits| f32::from_bits(*bits).is_finite()));
        for kernel in Kernel::available() {
            assert_eq!(bits(kernel), bits(Kernel::Scalar), "{kernel:?}, {dimensions} values");
            assert_eq!(hits(kernel), hits(Kernel::Scalar), "{kernel:?}, {dimensions} values");
        }
    }
}

#[test]
fn estimates_are_near_the_scores() {
    let built = Built::new(&common::vectors(2000, 128, 82), 100);
    let queries = common::vectors(20, 128, 83);
    let exact = flat(&built).search(&queries, &SearchParams::top(2000)).unwrap();
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0_f64);
    for (estimates, hits) in built.open().estimates(&queries).unwrap().iter().zip(&exact) {
        for hit in hits {
            let error = f64::from(estimates[hit.row as usize] - hit.score);
            (sum, squares, count) = (sum + error, squares + error * error, count + 1.0);
        }
    }
    // Without bias, and within the deviation of one bit a coordinate: about the root of (pi / 2 - 1) / 128, times the
    // lengths of the centred vectors.
    assert!((sum / count).abs() < 0.002, "a mean error of {}", sum / count);
    assert!((squares / count).sqrt() < 0.04, "a deviation of {}", (squares / count).sqrt());
}

#[test]
fn answers_do_not_depend_on_threads_batches_or_the_order_of_queries() {
    let built = Built::new(&common::vectors(6000, 48, 84), 60);
    let index = built.open();
    // More than are searched together.
    let queries = common::vectors(300, 48, 85);
    let backwards = Vectors::new(48, queries.rows().rev().flatten().copied().collect()).unwrap();
    for effort in [Effort::Exhaustive, Effort::Lists { probes: 5, candidates: 60 }, Effort::Exact] {
        let search = |queries: &Vectors, threads| {
            index.search(queries, &SearchParams { threads, ..params(10, effort) }).unwrap()
        };
        let together = search(&queries, 1);
        for threads in [2, 8, 0] {
            assert_eq!(search(&queries, threads), together, "{effort}, {threads} threads");
        }
        let mut reversed = search(&backwards, 2);
        reversed.reverse();
        assert_eq!(reversed, together, "{effort}, backwards");
        for size in [1, 7] {
            let parts = (0..300).step_by(size).map(|first| some(&queries, first, (first + size).min(300)));
            let split: Vec<_> = parts.flat_map(|part| search(&part, 2)).collect();
            assert_eq!(split, together, "{effort}, {size} at once");
        }
    }
}

/// Hits in order, each with the score of its row, as many as asked for.
fn check_hits(matrix: &Matrix, query: &[f32], hits: &[Hit], wanted: usize) {
    assert_eq!(hits.len(), wanted);
    assert!(hits.is_sorted_by(|a, b| (b.score, a.row) < (a.score, b.row)), "{hits:?}");
    for hit in hits.iter().take(20) {
        let sums = matrix.row(hit.row).iter().zip(query).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        assert!((f64::from(hit.score) - sums).abs() <= 1e-6 * sums.abs().max(1e-12), "{hit:?}, {sums}");
    }
}

#[test]
fn there_are_always_exactly_min_k_n_hits_and_none_is_deleted() {
    let built = Built::new(&common::vectors(3000, 16, 86), 30);
    let queries = common::vectors(3, 16, 87);
    type Keep = fn(u64) -> bool;
    let keeps: [(&str, Keep); 4] =
        [("all", |_| true), ("two of three", |row| row % 3 != 1), ("a few", |row| row % 400 == 7), ("none", |_| false)];
    for (name, keep) in keeps {
        let mut deleted = Deleted::none(3000);
        (0..3000).filter(|row| !keep(*row)).for_each(|row| assert!(deleted.insert(row)));
        let live = LiveRows::of(Shard { number: 1, first_row: 0, rows: 3000 }, Some(&Arc::new(deleted)));
        let count = live.count() as usize;
        let exact = Flat::of_live(Arc::clone(&built.matrix), live.clone());
        let calibration = calibrate(&flat(&built), &Sharded::single(built.open()), &queries).unwrap();
        for calibration in [Vec::new(), calibration] {
            let index = Quantized::open_live(&built.codes(), Arc::clone(&built.matrix), live.clone(), calibration);
            let index = index.unwrap();
            assert_eq!(index.len(), count as u64);
            for effort in EFFORTS {
                for top_k in [0, 1, 10, count.saturating_sub(1), count, count + 1, 1_000_000] {
                    let found = index.search(&queries, &params(top_k, effort)).unwrap();
                    assert_eq!(found.len(), queries.len());
                    for (query, hits) in queries.rows().zip(&found) {
                        check_hits(&built.matrix, query, hits, count.min(top_k));
                        assert!(hits.iter().all(|hit| keep(hit.row)), "{name} of the rows are there: {effort}");
                    }
                    if effort == Effort::Exact || top_k >= count {
                        assert_eq!(found, exact.search(&queries, &SearchParams::top(top_k)).unwrap());
                    }
                }
            }
        }
    }
}

#[test]
fn the_smallest_indexes_are_searched_as_any_other() {
    for count in [0, 1, 2, 63, 64, 65] {
        for rows_per_list in [1, 10, 160, 0, usize::MAX] {
            let built = Built::new(&common::vectors(count, 24, 88), rows_per_list);
            let (index, exact) = (built.open(), flat(&built));
            for queries in [0, 1, 3] {
                let queries = common::vectors(queries, 24, 89);
                assert_eq!(index.estimates(&queries).unwrap().len(), queries.len());
                for top_k in [0, 1, count, count + 1, 1_000_000] {
                    for effort in EFFORTS {
                        let found = index.search(&queries, &params(top_k, effort)).unwrap();
                        assert_eq!(found.len(), queries.len());
                        let wanted = count.min(top_k);
                        queries.rows().zip(&found).for_each(|(query, hits)| {
                            check_hits(&built.matrix, query, hits, wanted);
                        });
                        if effort == Effort::Exact {
                            assert_eq!(found, exact.search(&queries, &params(top_k, effort)).unwrap());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn equal_rows_are_ranked_by_row_at_every_effort() {
    let three = common::vectors(3, 24, 90);
    // Each 400 times, in turns.
    let vectors = Vectors::new(24, three.as_slice().repeat(400)).unwrap();
    for (vectors, step) in [(vectors, 3), (Vectors::new(24, some(&three, 0, 1).as_slice().repeat(1000)).unwrap(), 1)] {
        let built = Built::new(&vectors, 50);
        let index = built.open();
        let query = some(&three, 0, 1);
        for effort in EFFORTS {
            for top_k in [1, 10, 90] {
                let hits = index.search(&query, &params(top_k, effort)).unwrap().remove(0);
                let rows: Vec<u64> = hits.iter().map(|hit| hit.row).collect();
                assert_eq!(rows, (0..top_k as u64).map(|at| at * step).collect::<Vec<_>>(), "{effort}");
            }
        }
    }
}

#[test]
fn rows_of_any_length_and_direction_are_coded() {
    let unit = common::vectors(2000, 40, 91);
    let scaled = |scale: &dyn Fn(usize) -> f32| {
        let rows = unit.rows().enumerate().flat_map(|(at, row)| row.iter().map(move |x| (at, *x)));
        Vectors::new(40, rows.map(|(at, x)| x * scale(at)).collect()).unwrap()
    };
    let queries = common::vectors(30, 40, 92);
    type Scale<'a> = &'a dyn Fn(usize) -> f32;
    let scales: [(&str, Scale<'_>); 4] = [
        ("short", &|_| 1e-10),
        ("long", &|_| 1e10),
        ("there and back", &|at| if at % 2 == 0 { 1.0 } else { -1.0 }),
        ("short and long", &|at| if at % 2 == 0 { 1e-10 } else { 1e10 }),
    ];
    for (name, scale) in scales {
        let built = Built::new(&scaled(scale), 50);
        let exhaustive = Sharded::single(built.open()).with_effort(Effort::Exhaustive);
        let recall = measure_recall(&flat(&built), &exhaustive, &queries, 10).unwrap();
        assert!(recall >= 0.95, "{name} vectors: {recall}");
        for effort in EFFORTS {
            for (query, hits) in queries.rows().zip(built.open().search(&queries, &params(10, effort)).unwrap()) {
                check_hits(&built.matrix, query, &hits, 10);
            }
        }
    }
}

#[test]
fn a_query_at_the_mean_or_as_near_as_numbers_go_is_answered() {
    let mut axis = vec![0.0; 24];
    axis[0] = 1.0;
    let built = Built::new(&Vectors::new(24, axis.repeat(300)).unwrap(), 50);
    for tiny in [0.0, f32::from_bits(1), 1e-40, f32::MIN_POSITIVE, 1e-30] {
        let mut query = axis.clone();
        query[3] = tiny;
        let query = Vectors::new(24, query).unwrap();
        for kernel in Kernel::available() {
            let index = built.open().with_kernel(kernel);
            assert!(index.estimates(&query).unwrap().concat().iter().all(|estimate| *estimate == 1.0));
            for effort in EFFORTS {
                let hits = index.search(&query, &params(3, effort)).unwrap().remove(0);
                assert_eq!(hits, [0, 1, 2].map(|row| Hit { row, score: 1.0 }), "{effort}");
            }
        }
    }
}

#[test]
fn what_is_no_query_is_refused() {
    let built = Built::new(&common::vectors(1000, 8, 93), 50);
    let index = built.open();
    let mut bad: Vec<Vectors> = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1e30]
        .map(|value| Vectors::new(8, [vec![0.5; 8], vec![value; 8]].concat()).unwrap())
        .into();
    bad.extend([common::vectors(1, 7, 94), common::vectors(8, 1, 94)]);
    for queries in bad {
        for effort in EFFORTS {
            let error = index.search(&queries, &params(3, effort)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{effort}: {error}");
        }
        assert_eq!(index.estimates(&queries).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_stopped_build_leaves_no_usable_file_and_the_next_one_succeeds() {
    let folder = support::scratch();
    let vectors = common::vectors(4000, 16, 95);
    let matrix = common::matrix(&folder.path().join("vectors"), &vectors, ElementType::F32);
    let path = folder.path().join("codes");
    let builder = QuantizedBuilder { rows_per_list: 20, ..QuantizedBuilder::default() };
    let open = || Quantized::open(&path, Arc::clone(&matrix), Vec::new());
    // While lists are trained, while rows are coded, while they are written; and over a finished file.
    for stop_at in [1, 3000, 4100, 7900, 8000] {
        let interrupt = Interrupt::new();
        let stop_later = |progress: hindsearch_indexes::Progress| {
            if progress.done >= stop_at {
                interrupt.stop();
            }
        };
        let error = builder.build(&matrix, &path, &stop_later, &interrupt).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(open().is_err(), "stopped at {stop_at}");
    }
    let most = AtomicU64::new(0);
    let count = |progress: hindsearch_indexes::Progress| {
        assert_eq!(progress.total, Some(12_000));
        most.fetch_max(progress.done, Ordering::Relaxed);
    };
    builder.build(&matrix, &path, &count, &Interrupt::new()).unwrap();
    assert_eq!(most.into_inner(), 12_000);
    open().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["codes", "vectors"]);
}

#[test]
fn the_same_rows_give_the_same_bytes_on_any_number_of_threads() {
    // Lists of two rows are so many that they are looked for by cells.
    for (rows, dimensions, rows_per_list, element_type) in
        [(5000, 40, 160, ElementType::F16), (3000, 24, 50, ElementType::I16), (9000, 16, 2, ElementType::F32)]
    {
        let folder = support::scratch();
        let vectors = common::vectors(rows, dimensions, 96);
        let matrix = common::matrix(&folder.path().join("vectors"), &vectors, element_type);
        let bytes = [1, 2, 8].map(|threads| {
            let path = folder.path().join(threads.to_string());
            build(&matrix, &path, rows_per_list, threads);
            fs::read(path).unwrap()
        });
        assert!(bytes[0] == bytes[1] && bytes[0] == bytes[2], "{rows} rows in lists of {rows_per_list}");
    }
}

#[test]
fn progress_ascends_to_its_total_on_any_number_of_threads() {
    let folder = support::scratch();
    let matrix = common::matrix(&folder.path().join("vectors"), &common::vectors(9000, 16, 98), ElementType::F32);
    for threads in [1, 4] {
        let seen = Mutex::new(Vec::new());
        let show = |step: Progress| seen.lock().unwrap().push((step.done, step.total));
        let builder = QuantizedBuilder { rows_per_list: 20, threads };
        builder.build(&matrix, &folder.path().join("codes"), &show, &Interrupt::new()).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.is_sorted() && seen.iter().all(|(_, total)| *total == Some(27_000)), "{threads} threads");
        assert_eq!((seen[0].0, seen.last().unwrap().0), (0, 27_000));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_open_index_holds_no_descriptors() {
    let built = Built::new(&common::vectors(1000, 16, 99), 50);
    let before = fs::read_dir("/proc/self/fd").unwrap().count();
    let open: Vec<Quantized> = (0..200).map(|_| built.open()).collect();
    // Other tests of this process may hold a few at the moment.
    assert!(fs::read_dir("/proc/self/fd").unwrap().count() < before + 100, "{} indexes", open.len());
}

#[test]
fn a_file_has_the_length_that_its_shape_says() {
    let built = Built::new(&common::vectors(1000, 33, 97), 40);
    let shape = hindsearch_indexes::CodesShape { dimensions: 33, rows: 1000, slots: 1000, lists: 25 };
    assert_eq!(fs::metadata(built.codes()).unwrap().len(), shape.file_bytes().unwrap());
    assert_eq!(built.open().lists(), 25);
}

#[test]
fn the_codes_of_another_matrix_are_refused() {
    let built = Built::new(&common::vectors(600, 8, 98), 50);
    for (rows, dimensions) in [(601, 8), (600, 9)] {
        let other = built.folder.path().join("other");
        let other = common::matrix(&other, &common::vectors(rows, dimensions, 99), ElementType::F32);
        let error = Quantized::open(&built.codes(), other, Vec::new()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    }
}
