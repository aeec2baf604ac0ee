//! Exact search is exact, and its answer depends on nothing but the query and the rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use hindsearch_indexes::{ElementType, Flat, Hit, Index, Matrix, SearchParams, Vectors};
use proptest::prelude::*;
use tempfile::TempDir;

const TYPES: [ElementType; 4] = [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16];

fn flat(vectors: &Vectors, element_type: ElementType) -> (TempDir, Arc<Matrix>, Flat) {
    let folder = tempfile::tempdir().unwrap();
    let matrix = common::matrix(&folder.path().join("vectors"), vectors, element_type);
    (folder, Arc::clone(&matrix), Flat::new(matrix))
}

fn rows(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.row).collect()
}

fn one(queries: &Vectors, query: usize) -> Vectors {
    Vectors::new(queries.dimensions(), queries.rows().nth(query).unwrap().to_vec()).unwrap()
}

#[test]
fn hits_are_those_of_a_plain_sort() {
    let queries = common::vectors(40, 96, 11);
    for element_type in TYPES {
        let (_folder, matrix, index) = flat(&common::vectors(3000, 96, 10), element_type);
        let hits = index.search(&queries, &SearchParams::top(10)).unwrap();
        for (query, hits) in queries.rows().zip(&hits) {
            let expected = common::brute_force(&matrix, query, 10);
            assert_eq!(rows(hits), rows(&expected), "{element_type}");
            for (got, want) in hits.iter().zip(&expected) {
                assert!((got.score - want.score).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn rows_closer_than_a_fast_sum_can_tell_are_ranked_all_the_same() {
    // Copies of one vector, each value off by about the spacing of single-precision numbers.
    let one = common::vectors(1, 768, 12);
    let noise = common::vectors(2000, 768, 13);
    let data = noise.as_slice().iter().zip(one.as_slice().iter().cycle()).map(|(noise, x)| x + noise * 2e-6);
    let (_folder, matrix, index) = flat(&Vectors::new(768, data.collect()).unwrap(), ElementType::F32);
    for count in [1, 20] {
        let queries = common::vectors(count, 768, 14);
        let hits = index.search(&queries, &SearchParams::top(10)).unwrap();
        for (query, hits) in queries.rows().zip(&hits) {
            assert_eq!(hits, &common::brute_force(&matrix, query, 10));
        }
    }
}

#[test]
fn one_query_or_many_and_any_threads_give_the_same_bits() {
    // Odd sizes: a partial tile, a partial panel, values left over after whole registers.
    let queries = common::vectors(300, 101, 21);
    for element_type in TYPES {
        let (_folder, _, index) = flat(&common::vectors(7001, 101, 20), element_type);
        let search = |queries: &Vectors, threads| {
            index.search(queries, &SearchParams { threads, ..SearchParams::top(7) }).unwrap()
        };
        let together = search(&queries, 1);
        assert_eq!(together, search(&queries, 8));
        assert_eq!(together, search(&queries, 0));
        for query in (0..300).step_by(37) {
            assert_eq!(together[query..=query], search(&one(&queries, query), 2), "{element_type}");
        }
        let few = Vectors::new(101, queries.as_slice()[..3 * 101].to_vec()).unwrap();
        assert_eq!(together[..3], search(&few, 3));
    }
}

#[test]
fn there_are_always_exactly_min_k_n_hits() {
    for count in [0, 1, 5, 97] {
        for element_type in TYPES {
            let (_folder, _, index) = flat(&common::vectors(count, 8, 2), element_type);
            assert_eq!((index.len(), index.dimensions()), (count as u64, 8));
            for queries in [0, 1, 5, 30] {
                let queries = common::vectors(queries, 8, 3);
                for top_k in [0, 1, count, count + 1, 1_000_000, usize::MAX] {
                    let hits = index.search(&queries, &SearchParams::top(top_k)).unwrap();
                    assert_eq!(hits.len(), queries.len());
                    for hits in hits {
                        assert_eq!(hits.len(), count.min(top_k));
                        let mut distinct = rows(&hits);
                        distinct.sort_unstable();
                        distinct.dedup();
                        assert_eq!(distinct.len(), hits.len());
                        assert!(distinct.iter().all(|row| *row < count as u64));
                    }
                }
            }
        }
    }
}

#[test]
fn equal_scores_are_ordered_by_row() {
    // Three different vectors, a thousand times each.
    let three = common::vectors(3, 24, 4);
    let vectors = Vectors::new(24, three.as_slice().repeat(1000)).unwrap();
    for element_type in TYPES {
        let (_folder, _, index) = flat(&vectors, element_type);
        for count in [1, 20] {
            let queries = Vectors::new(24, three.as_slice()[24..48].repeat(count)).unwrap();
            let hits = index.search(&queries, &SearchParams { threads: 4, ..SearchParams::top(5) }).unwrap();
            for hits in hits {
                assert_eq!(rows(&hits), [1, 4, 7, 10, 13], "{element_type}");
            }
        }
    }
}

#[test]
fn the_element_type_hardly_changes_the_hits() {
    let vectors = common::vectors(4000, 128, 30);
    let queries = common::vectors(50, 128, 31);
    let search = |element_type| {
        let (_folder, _, index) = flat(&vectors, element_type);
        index.search(&queries, &SearchParams::top(10)).unwrap()
    };
    let exact = search(ElementType::F32);
    for (element_type, least) in [(ElementType::F16, 0.995), (ElementType::I8, 0.96), (ElementType::I16, 0.998)] {
        let hits = search(element_type);
        let found: usize = exact
            .iter()
            .zip(&hits)
            .map(|(exact, hits)| rows(exact).iter().filter(|row| rows(hits).contains(row)).count())
            .sum();
        assert!(found as f64 / 500.0 >= least, "{element_type}: {found} of 500");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Near-ties are where a shortcut would show: values from a small grid make many of them.
    #[test]
    fn grids_full_of_near_ties_are_searched_exactly(
        data in prop::collection::vec(-3i8..=3, 40..800),
        queries in prop::collection::vec(-3i8..=3, 4..80),
        top_k in 1usize..20,
        kind in 0usize..4,
    ) {
        let grid = |values: &[i8]| {
            let data: Vec<f32> = values.chunks_exact(4)
                .filter(|row| row.iter().any(|x| *x != 0))
                .flatten()
                .map(|x| f32::from(*x) * 0.1)
                .collect();
            Vectors::new(4, data).unwrap()
        };
        let (vectors, queries) = (grid(&data), grid(&queries));
        let (_folder, matrix, index) = flat(&vectors, TYPES[kind]);
        let hits = index.search(&queries, &SearchParams::top(top_k)).unwrap();
        for (query, hits) in queries.rows().zip(hits) {
            prop_assert_eq!(&hits, &common::brute_force(&matrix, query, top_k));
        }
    }
}
