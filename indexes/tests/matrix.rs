//! A matrix file gives back what was written, and never less under its name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use hindsearch_indexes::{ElementType, Error, ErrorKind, Matrix, MatrixSpec, MatrixWriter, Vectors};

const TYPES: [ElementType; 4] = [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16];

#[test]
fn rows_come_back_within_the_precision_of_their_type() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(500, 37, 7);
    // Half a unit in the last place of f16 below 1; half a step of 1/127 of the largest distance from the mean.
    for (element_type, tolerance) in [(ElementType::F32, 0.0), (ElementType::F16, 2.5e-4), (ElementType::I8, 4e-3)] {
        let matrix = common::matrix(&folder.path().join(element_type.to_string()), &vectors, element_type);
        assert_eq!((matrix.rows(), matrix.dimensions(), matrix.element_type()), (500, 37, element_type));
        let mut all = vec![0.0; 500 * 37];
        matrix.widen(0..500, &mut all);
        for (got, want) in all.iter().zip(vectors.as_slice()) {
            assert!((got - want).abs() <= tolerance, "{element_type}: {got} for {want}");
        }
        assert_eq!(matrix.row(499), &all[499 * 37..]);
        let largest = all.chunks(37).map(|row| row.iter().map(|x| x * x).sum::<f32>().sqrt()).fold(0.0, f32::max);
        assert!((matrix.max_norm() - largest).abs() < 1e-5 && matrix.max_norm() >= largest - 1e-6);
    }
}

#[test]
fn rounding_to_eight_bits_leaves_the_product_with_the_mean_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(500, 96, 7);
    let mut mean = vec![0.0; 96];
    for row in vectors.rows() {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / 500.0);
    }
    let spec = MatrixSpec::new(96, ElementType::I8).with_mean(mean.clone());
    let mut writer = MatrixWriter::create(&folder.path().join("vectors"), spec).unwrap();
    writer.append(&vectors).unwrap();
    writer.finish().unwrap();
    let matrix = Matrix::open(&folder.path().join("vectors")).unwrap();
    let product = |row: &[f32]| row.iter().zip(&mean).map(|(x, m)| f64::from(*x) * f64::from(*m)).sum::<f64>();
    let (mut errors, mut nearest) = (0.0, 0.0);
    for (row, vector) in (0..).zip(vectors.rows()) {
        let stored = matrix.row(row);
        let largest = vector.iter().zip(&mean).map(|(x, m)| (x - m).abs()).fold(0.0, f32::max);
        let step = largest / 127.0;
        for (got, want) in stored.iter().zip(vector) {
            assert!((got - want).abs() <= step * 0.601, "{got} for {want}, {step} a step");
        }
        let rounded: Vec<f32> = vector.iter().zip(&mean).map(|(x, m)| ((x - m) / step).round() * step + m).collect();
        errors += (product(&stored) - product(vector)).powi(2);
        nearest += (product(&rounded) - product(vector)).powi(2);
    }
    assert!(errors < nearest / 100.0, "{errors} where each value goes to its nearest code: {nearest}");
}

#[test]
fn every_half_precision_number_comes_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let finite = (0..=u16::MAX).map(half::f16::from_bits).filter(|x| x.is_finite());
    let vectors = Vectors::new(64, finite.map(f32::from).collect()).unwrap();
    let matrix = common::matrix(&folder.path().join("vectors"), &vectors, ElementType::F16);
    let mut all = vec![0.0; vectors.as_slice().len()];
    matrix.widen(0..vectors.len() as u64, &mut all);
    assert_eq!(all, vectors.as_slice());
}

#[test]
fn an_interrupted_file_is_taken_up_at_its_checkpoint_and_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(300, 16, 3);
    let part = |rows: std::ops::Range<usize>| {
        Vectors::new(16, vectors.as_slice()[rows.start * 16..rows.end * 16].to_vec()).unwrap()
    };
    for element_type in TYPES {
        let whole = folder.path().join(format!("whole-{element_type}"));
        common::matrix(&whole, &vectors, element_type);
        let spec = MatrixSpec::new(16, element_type).with_mean(common::mean(&vectors));

        let path = folder.path().join(format!("parts-{element_type}"));
        let mut writer = MatrixWriter::create(&path, spec.clone()).unwrap();
        writer.append(&part(0..100)).unwrap();
        assert_eq!(writer.checkpoint().unwrap(), 100);
        writer.append(&part(100..180)).unwrap();
        drop(writer);
        assert_eq!(Matrix::open(&path).unwrap_err().kind(), ErrorKind::Corrupt);

        let mut writer = MatrixWriter::resume(&path, spec.clone(), 100).unwrap();
        assert_eq!(writer.rows(), 100);
        writer.append(&part(100..300)).unwrap();
        assert_eq!(writer.finish().unwrap(), 300);
        assert_eq!(fs::read(&path).unwrap(), fs::read(&whole).unwrap());

        let error = MatrixWriter::resume(&path, spec, 301).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

#[test]
fn an_empty_matrix_is_a_matrix() {
    let folder = tempfile::tempdir().unwrap();
    for element_type in TYPES {
        let empty = Vectors::new(5, Vec::new()).unwrap();
        let matrix = common::matrix(&folder.path().join(element_type.to_string()), &empty, element_type);
        assert_eq!((matrix.rows(), matrix.dimensions()), (0, 5));
    }
}

#[test]
fn a_file_cut_anywhere_or_with_a_changed_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    common::matrix(&path, &common::vectors(50, 8, 1), ElementType::I8);
    let whole = fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged");
    let refused = |bytes: &[u8]| {
        fs::write(&damaged, bytes).unwrap();
        matches!(Matrix::open(&damaged), Err(Error::Corrupt { .. } | Error::Incompatible { .. }))
    };
    assert!(!refused(&whole));
    for length in (0..whole.len()).step_by(301).chain([whole.len() - 1]) {
        assert!(refused(&whole[..length]), "cut to {length}");
    }
    assert!(refused(&[whole.as_slice(), &[0]].concat()), "one byte more");
    // The header page, then the mean on its own page: each byte in use, and some of the padding.
    for at in (0..64).chain((64..4096).step_by(61)).chain(4064..4096 + 64).chain((4160..8192).step_by(61)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(refused(&bytes), "bit flipped in byte {at}");
    }
}

#[test]
fn a_header_of_absurd_sizes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    common::matrix(&path, &common::vectors(2, 8, 1), ElementType::F32);
    let whole = fs::read(&path).unwrap();
    for (at, value) in [(16, u64::MAX), (16, 1 << 63), (24, u64::MAX), (24, 1 << 62), (24, u64::MAX / 32 + 1)] {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        // The checksum is made right, so that the sizes themselves are judged.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes[..4064]);
        let hash = hasher.finalize();
        bytes[4064..4096].copy_from_slice(hash.as_bytes());
        fs::write(&path, &bytes).unwrap();
        let error = Matrix::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn a_spec_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    for spec in [
        MatrixSpec::new(0, ElementType::F32),
        MatrixSpec::new(usize::MAX, ElementType::F32),
        MatrixSpec::new(8, ElementType::I8).with_mean(vec![0.5; 7]),
        MatrixSpec::new(8, ElementType::I8).with_mean(vec![f32::NAN; 8]),
    ] {
        let error = MatrixWriter::create(&path, spec.clone()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{spec:?}");
    }
}
