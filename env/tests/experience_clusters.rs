//! Clusters of vectors: those that scikit-learn makes, of the size that was asked for, within a bound of memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use hindsearch_env::experience::Tree;
use hindsearch_indexes::Vectors;
use serde::Deserialize;

/// Made by `golden/make_ward.py` with scikit-learn.
const GOLDEN: &str = include_str!("golden/ward.json");

#[derive(Deserialize)]
struct Case {
    name: String,
    dimensions: usize,
    vectors: Vec<f32>,
    heights: Vec<f64>,
    cuts: Vec<Cut>,
}

#[derive(Deserialize)]
struct Cut {
    threshold: f64,
    labels: Vec<usize>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(GOLDEN).unwrap()
}

fn tree(case: &Case, most: usize) -> Tree {
    Tree::ward(&Vectors::new(case.dimensions, case.vectors.clone()).unwrap(), most)
}

#[test]
fn clusters_and_merge_heights_are_those_of_scikit_learn() {
    for case in cases() {
        let tree = tree(&case, usize::MAX);
        let heights = tree.heights();
        assert_eq!(heights.len(), case.heights.len());
        for (ours, theirs) in heights.iter().zip(&case.heights) {
            assert!((ours - theirs).abs() <= 1e-9 * theirs.max(1.0), "{}: {ours} for {theirs}", case.name);
        }
        for cut in &case.cuts {
            let labels: BTreeSet<usize> = cut.labels.iter().copied().collect();
            let members = |label: &usize| (0..cut.labels.len()).filter(|&row| cut.labels[row] == *label).collect();
            let theirs: BTreeSet<Vec<usize>> = labels.iter().map(members).collect();
            let ours: BTreeSet<Vec<usize>> = tree.cut(cut.threshold).into_iter().collect();
            assert_eq!(ours, theirs, "{} at {}", case.name, cut.threshold);
        }
    }
}

#[test]
fn a_calibrated_threshold_gives_clusters_of_five_to_twenty() {
    for case in cases() {
        let tree = tree(&case, usize::MAX);
        let clusters = tree.cut(tree.calibrated(10));
        let mean = case.heights.len() as f64 / clusters.len() as f64;
        assert!((5.0..=20.0).contains(&mean), "{}: {mean}", case.name);
    }
    let few = Vectors::new(2, vec![1.0, 0.0, 0.0, 1.0, 0.6, 0.8]).unwrap();
    let tree = Tree::ward(&few, usize::MAX);
    assert_eq!(tree.cut(tree.calibrated(10)), [[0, 1, 2]]);
    assert_eq!(tree.cut(tree.calibrated(1)), [[0], [1], [2]]);
}

#[test]
fn a_bound_on_memory_splits_by_nearness_and_loses_nobody() {
    let case = &cases()[0];
    let bounded = tree(case, 25);
    let clusters = bounded.cut(0.9);
    let mut all: Vec<usize> = clusters.concat();
    all.sort_unstable();
    assert_eq!(all, (0..60).collect::<Vec<_>>());
    assert!(bounded.cut(f64::INFINITY).iter().all(|part| part.len() <= 25));
    // Groups that lie apart are found all the same.
    let whole = tree(case, usize::MAX).cut(1.5);
    let kept = whole.iter().filter(|cluster| bounded.cut(1.5).contains(cluster)).count();
    assert!(kept >= 4, "{kept} of {}", whole.len());
    let equal = Vectors::new(2, [1.0, 0.0].repeat(100)).unwrap();
    assert!(Tree::ward(&equal, 10).cut(0.5).iter().all(|part| part.len() <= 10));
}

#[test]
fn few_vectors_make_no_fuss() {
    for count in 0..3 {
        let tree = Tree::ward(&Vectors::new(2, [1.0, 0.0].repeat(count)).unwrap(), 8);
        assert_eq!(tree.cut(tree.calibrated(10)).len(), count.min(1));
    }
}
