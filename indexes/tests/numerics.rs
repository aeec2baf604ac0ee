//! What is not a usable vector is refused, at the door, by name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use hindsearch_indexes::{ElementType, Error, ErrorKind, Flat, Index, MatrixSpec, MatrixWriter, SearchParams, Vectors};

const BAD: [(&str, f32); 3] = [("NaN", f32::NAN), ("inf", f32::INFINITY), ("-inf", f32::NEG_INFINITY)];

/// Five good vectors of four values, `bad` in the fourth.
fn five(bad: [f32; 4]) -> Vectors {
    let mut data = [1.0, 0.0, 0.0, 0.0].repeat(5);
    data[12..16].copy_from_slice(&bad);
    Vectors::new(4, data).unwrap()
}

fn unusable() -> Vec<(String, Vectors)> {
    let mut all: Vec<_> = BAD.map(|(name, x)| (name.to_string(), five([0.5, x, 0.5, 0.5]))).into();
    all.push(("length 0".into(), five([0.0; 4])));
    all.push(("length 2e-45".into(), five([f32::from_bits(1); 4])));
    all.push(("length 6e35".into(), five([3e35; 4])));
    all
}

#[test]
fn rows_that_are_no_vectors_are_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    for element_type in [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16] {
        let path = folder.path().join(element_type.to_string());
        let mut writer = MatrixWriter::create(&path, MatrixSpec::new(4, element_type)).unwrap();
        writer.append(&five([1.0; 4])).unwrap();
        for (name, bad) in unusable() {
            let error = writer.append(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with("row 8: "), "{error}");
            assert!(
                error.to_string().contains(name.split_once("e").map_or(name.as_str(), |(head, _)| head)),
                "{error}"
            );
        }
        let narrow = Vectors::new(3, vec![1.0; 6]).unwrap();
        assert_eq!(writer.append(&narrow).unwrap_err().to_string(), "row 5: expected 4 values, found 3 values");
        // Nothing of the refused batches is left.
        assert_eq!(writer.rows(), 5);
        assert_eq!(writer.finish().unwrap(), 5);
    }
}

#[test]
fn values_beyond_f16_are_refused_rather_than_stored_as_infinity() {
    let folder = tempfile::tempdir().unwrap();
    let spec = MatrixSpec::new(4, ElementType::F16);
    let mut writer = MatrixWriter::create(&folder.path().join("vectors"), spec).unwrap();
    let error = writer.append(&five([70_000.0, 0.0, 0.0, 0.0])).unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    assert_eq!(writer.rows(), 0);
    writer.append(&five([65_504.0, 0.0, 0.0, 0.0])).unwrap();
}

#[test]
fn queries_that_are_no_vectors_are_refused_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = common::matrix(&folder.path().join("vectors"), &five([0.0, 1.0, 0.0, 0.0]), ElementType::F32);
    let index = Flat::new(matrix);
    for (_, bad) in unusable() {
        for top_k in [0, 3] {
            let error = index.search(&bad, &SearchParams::top(top_k)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with("query 3: "), "{error}");
        }
    }
    let wide = Vectors::new(5, vec![1.0; 5]).unwrap();
    let error = index.search(&wide, &SearchParams::top(3)).unwrap_err();
    assert_eq!(error.to_string(), "query 0: expected 4 values, found 5 values");
}

#[test]
fn stored_values_that_are_no_numbers_are_an_error_and_never_a_score() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    let vectors = common::vectors(100, 16, 5);
    common::matrix(&path, &vectors, ElementType::F32);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + (70 * 16 + 3) * 4..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let index = Flat::new(std::sync::Arc::new(hindsearch_indexes::Matrix::open(&path).unwrap()));
    for queries in [1, 3, 20] {
        let queries = common::vectors(queries, 16, 6);
        let error = index.search(&queries, &SearchParams::top(2)).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains("row 70"), "{error}");
    }
}
