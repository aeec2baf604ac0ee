//! FORMAT.md says enough: a reader in another language, written from that page, finds the same bits.
//!
//! The reader is `reader/read_index.py`. It runs in the interpreter that `PYTHON` names, else in that of the environment
//! that the Python package's tests leave in `.cache/venv`, else in `python3`, and needs NumPy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hindsearch_indexes::{Effort, ElementType, Hit, Index, Matrix, Quantized, SearchParams, open_index, write_npy};
use serde::Deserialize;

use support::quantized::publish;

const TOP_K: usize = 7;

/// What the reader prints, by query.
#[derive(Deserialize)]
struct Answer {
    scores: Vec<Vec<f32>>,
    estimates: Vec<Vec<f32>>,
    hits: Vec<Vec<(u64, f32)>>,
}

#[test]
fn another_reader_gives_the_same_scores_estimates_and_hits() {
    let Some(python) = python() else { return };
    for (element_type, rows, dimensions) in [
        (ElementType::F32, 700, 40),
        (ElementType::F16, 901, 100),
        (ElementType::I8, 333, 8),
        (ElementType::I16, 1500, 36),
        (ElementType::F32, 9, 33),
    ] {
        let name = format!("{rows} rows of {dimensions} values, {element_type}");
        let root = support::scratch();
        let (vectors, queries) = (common::vectors(rows, dimensions, 70), common::vectors(5, dimensions, 71));
        let generation = publish(root.path(), &vectors, element_type, &queries);
        let at = root.path().join("queries.npy");
        write_npy(&at, &queries).unwrap();
        let answer = read(&python, root.path(), &at);

        let matrix = Arc::new(Matrix::open(&generation.path().join("vectors")).unwrap());
        let codes = Quantized::open(&generation.path().join("codes"), matrix, Vec::new()).unwrap();
        assert_eq!(bits(&answer.estimates), bits(&codes.estimates(&queries).unwrap()), "estimates of {name}");
        let exact = SearchParams { effort: Effort::Exact, ..SearchParams::top(rows) };
        let mut scores = vec![vec![0.0; rows]; queries.len()];
        for (scores, hits) in scores.iter_mut().zip(codes.search(&queries, &exact).unwrap()) {
            hits.iter().for_each(|hit| scores[hit.row as usize] = hit.score);
        }
        assert_eq!(bits(&answer.scores), bits(&scores), "scores of {name}");
        let index = open_index(&generation, Effort::Exhaustive).unwrap();
        let hits = |hits: Vec<(u64, f32)>| hits.into_iter().map(|(row, score)| Hit { row, score }).collect::<Vec<_>>();
        let found: Vec<_> = answer.hits.into_iter().map(hits).collect();
        assert_eq!(found, index.search(&queries, &SearchParams::top(TOP_K)).unwrap(), "hits of {name}");
    }
}

/// An interpreter with NumPy; the test is left out where there is none.
fn python() -> Option<PathBuf> {
    let of_package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/venv/bin/python");
    let given = std::env::var_os("PYTHON").map(PathBuf::from);
    let python = given.or(of_package.exists().then_some(of_package)).unwrap_or("python3".into());
    let found = Command::new(&python).args(["-c", "import numpy"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("left out: `{}` is not there or has no NumPy; `PYTHON` names another interpreter", python.display());
    None
}

fn read(python: &Path, index: &Path, queries: &Path) -> Answer {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reader/read_index.py");
    let output = Command::new(python).arg(script).arg(index).arg(queries).arg(TOP_K.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bits(all: &[Vec<f32>]) -> Vec<Vec<u32>> {
    all.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
}
