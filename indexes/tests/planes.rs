//! Sixteen-bit rows in two planes are found exactly, although kernels read one plane, and their files hold every row.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{
    Effort, ElementType, ErrorKind, Flat, Hit, Index, Interrupt, Layout, Matrix, MatrixSpec, MatrixWriter, Quantized,
    QuantizedBuilder, SearchParams, Vectors,
};

/// Rows of a group in the file, as FORMAT.md has it.
const GROUP: usize = 1024;
/// Row counts about the borders of groups.
const BORDERS: [usize; 9] =
    [1, 2, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP - 1, 2 * GROUP, 2 * GROUP + 1, 2 * GROUP + 500];

fn part(vectors: &Vectors, rows: Range<usize>) -> Vectors {
    let d = vectors.dimensions();
    Vectors::new(d, vectors.as_slice()[rows.start * d..rows.end * d].to_vec()).unwrap()
}

fn i16_matrix(folder: &Path, vectors: &Vectors) -> Arc<Matrix> {
    common::matrix(&folder.join("vectors"), vectors, ElementType::I16)
}

/// Checks hits of one query, a few and many against a plain sort, bit for bit.
fn assert_exact(matrix: &Arc<Matrix>, queries: &Vectors, top_k: usize, name: &str) {
    let index = Flat::new(Arc::clone(matrix));
    let expected: Vec<Vec<Hit>> = queries.rows().map(|query| common::brute_force(matrix, query, top_k)).collect();
    let all: Vec<u64> = (0..matrix.rows()).collect();
    for count in [1, 3, queries.len()] {
        let asked = part(queries, 0..count);
        let hits = index.search(&asked, &SearchParams { threads: 2, ..SearchParams::top(top_k) }).unwrap();
        assert_eq!(hits, expected[..count], "{name}, {count} queries");
        assert_eq!(index.search_rows(&asked, &all, top_k).unwrap(), hits, "{name}, rows by number");
    }
}

#[test]
fn rows_come_back_within_half_a_step_of_sixteen_bits() {
    for dimensions in [1, 7, 100, 768] {
        let folder = tempfile::tempdir().unwrap();
        let vectors = common::vectors(GROUP + 300, dimensions, 7);
        let mean = common::mean(&vectors);
        let matrix = i16_matrix(folder.path(), &vectors);
        let mut all = vec![0.0; vectors.as_slice().len()];
        matrix.widen(0..matrix.rows(), &mut all);
        for ((got, want), row) in all.chunks(dimensions).zip(vectors.rows()).zip(0..) {
            let scale = want.iter().zip(&mean).map(|(x, m)| (x - m).abs()).fold(0.0, f32::max) / 127.0;
            for (got, want) in got.iter().zip(want) {
                // Half a step, and the roundings of numbers up to 1.
                assert!((got - want).abs() <= scale / 512.0 * 1.001 + 2e-7, "{got} for {want} of {dimensions}");
            }
            assert_eq!(matrix.row(row), got, "row {row}");
        }
        // A range over the border of groups is the rows in it.
        let mut few = vec![0.0; 20 * dimensions];
        matrix.widen(GROUP as u64 - 10..GROUP as u64 + 10, &mut few);
        assert_eq!(few, all[(GROUP - 10) * dimensions..][..20 * dimensions]);
    }
}

#[test]
fn hits_are_those_of_a_plain_sort_in_any_dimensions() {
    for dimensions in [1, 7, 100, 768] {
        let folder = tempfile::tempdir().unwrap();
        let matrix = i16_matrix(folder.path(), &common::vectors(2 * GROUP + 77, dimensions, 10));
        assert_exact(&matrix, &common::vectors(20, dimensions, 11), 10, &format!("{dimensions} dimensions"));
    }
}

#[test]
fn rows_that_only_the_second_plane_tells_apart_are_ranked_by_it() {
    // Copies of one vector; noise of a fraction of a coarse step, then repeats of whole rows, which are ties.
    let one = common::vectors(1, 100, 12);
    let noise = common::vectors(GROUP + 200, 100, 13);
    let near = noise.as_slice().iter().zip(one.as_slice().iter().cycle()).map(|(noise, x)| x + noise * 2e-4);
    let near: Vec<f32> = near.collect();
    let data = [near.as_slice(), &near[..300 * 100]].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    // About zero, so that all rows have nearly the same scale and coarse codes.
    let mut writer = MatrixWriter::create(&path, MatrixSpec::new(100, ElementType::I16)).unwrap();
    writer.append(&Vectors::new(100, data).unwrap()).unwrap();
    writer.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    let coarse: Vec<&[u8]> = bytes[2 * 4096..].chunks(104).take(GROUP).map(|row| &row[4..]).collect();
    let equal = coarse.iter().filter(|codes| codes.iter().zip(coarse[0]).filter(|(a, b)| a != b).count() < 5);
    assert!(equal.count() > GROUP / 2, "the noise must be within the coarse codes");
    let matrix = Arc::new(Matrix::open(&path).unwrap());
    assert_exact(&matrix, &common::vectors(20, 100, 14), 25, "near copies");
}

#[test]
fn a_row_whose_scale_hides_its_score_is_found() {
    // One value of each outlier is so large that coarse codes tell nothing of the others.
    let mut data = common::vectors(GROUP + 100, 32, 15).as_slice().to_vec();
    for row in (0..GROUP + 100).step_by(97) {
        data[row * 32] = 60.0 + row as f32;
    }
    let folder = tempfile::tempdir().unwrap();
    let matrix = i16_matrix(folder.path(), &Vectors::new(32, data).unwrap());
    // Queries that do not see the large value.
    let mut queries = common::vectors(20, 32, 16).as_slice().to_vec();
    queries.chunks_exact_mut(32).for_each(|query| query[0] = 0.0);
    let queries = Vectors::new(32, queries).unwrap();
    assert_exact(&matrix, &queries, 10, "outliers");
    // The coarse codes alone would give other hits, or the test proves nothing.
    let same = folder.path().join("i8");
    let coarse = common::matrix(&same, &whole(&matrix), ElementType::I8);
    let rows = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.row).collect::<Vec<_>>();
    let differ = |query| rows(common::brute_force(&coarse, query, 10)) != rows(common::brute_force(&matrix, query, 10));
    assert!(queries.rows().any(differ));
}

fn whole(matrix: &Matrix) -> Vectors {
    let mut all = vec![0.0; matrix.rows() as usize * matrix.dimensions()];
    matrix.widen(0..matrix.rows(), &mut all);
    Vectors::new(matrix.dimensions(), all).unwrap()
}

#[test]
fn the_fine_codes_reach_as_far_as_the_bound_says_and_the_row_is_found_all_the_same() {
    // Fine codes of 127 in every value, with the sign of the query: the most that the second plane can add.
    let scale = 1.0 / 128.0_f32;
    for dimensions in [1_usize, 7, 100, 768] {
        let query = vec![1.0 / (dimensions as f32).sqrt(); dimensions];
        let row = |steps: f32| {
            let mut row = vec![steps * scale / 256.0; dimensions];
            // The value that sets the scale, of which the query sees as much in all rows.
            row.push(127.0 * scale);
            row
        };
        // All have the coarse code 10; the fine one is 120 or 119 of most, 127 or 126 of the last ones.
        let mut data = Vec::new();
        (0..GROUP + 40).for_each(|at| data.extend(row(if at % 2 == 0 { 2680.0 } else { 2679.0 })));
        (0..10).for_each(|at| data.extend(row(if at % 2 == 0 { 2687.0 } else { 2686.0 })));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        let spec = MatrixSpec::new(dimensions + 1, ElementType::I16);
        let mut writer = MatrixWriter::create(&path, spec).unwrap();
        writer.append(&Vectors::new(dimensions + 1, data).unwrap()).unwrap();
        writer.finish().unwrap();
        let matrix = Arc::new(Matrix::open(&path).unwrap());
        let queries = [query.as_slice(), &[0.0]].concat().repeat(20);
        assert_exact(&matrix, &Vectors::new(dimensions + 1, queries).unwrap(), 8, &format!("{dimensions} values"));
    }
}

#[test]
fn an_interrupted_file_is_taken_up_at_any_row_about_the_borders_and_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(2 * GROUP + 700, 5, 3);
    let whole = folder.path().join("whole");
    common::matrix(&whole, &vectors, ElementType::I16);
    let whole = fs::read(&whole).unwrap();
    let spec = MatrixSpec::new(5, ElementType::I16).with_mean(common::mean(&vectors));
    let path = folder.path().join("parts");
    for kept in BORDERS {
        let mut writer = MatrixWriter::create(&path, spec.clone()).unwrap();
        writer.append(&part(&vectors, 0..kept)).unwrap();
        assert_eq!(writer.checkpoint().unwrap(), kept as u64);
        // Rows after the checkpoint are lost, whether they reached the file or not.
        writer.append(&part(&vectors, 0..150)).unwrap();
        if kept % 2 == 0 {
            writer.checkpoint().unwrap();
        }
        drop(writer);
        assert_eq!(Matrix::open(&path).unwrap_err().kind(), ErrorKind::Corrupt);

        let error = MatrixWriter::resume(&path, spec.clone(), 3 * GROUP as u64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let mut writer = MatrixWriter::resume(&path, spec.clone(), kept as u64).unwrap();
        assert_eq!(writer.rows(), kept as u64);
        // In steps that end within groups, each of them durable.
        let mut at = kept;
        while at < vectors.len() {
            let end = (at + 333).min(vectors.len());
            writer.append(&part(&vectors, at..end)).unwrap();
            assert_eq!(writer.checkpoint().unwrap(), end as u64);
            at = end;
        }
        writer.finish().unwrap();
        assert!(fs::read(&path).unwrap() == whole, "resumed after {kept} rows");

        // A finished file that is taken up with fewer rows is as if the others had never been.
        let fewer = folder.path().join("fewer");
        MatrixWriter::resume(&path, spec.clone(), kept as u64).unwrap().finish().unwrap();
        let rows = |path: &Path| {
            let matrix = Matrix::open(path).unwrap();
            assert_eq!(matrix.rows(), kept as u64);
            fs::read(path).unwrap()
        };
        let mut anew = MatrixWriter::create(&fewer, spec.clone()).unwrap();
        anew.append(&part(&vectors, 0..kept)).unwrap();
        anew.finish().unwrap();
        assert!(rows(&path) == rows(&fewer), "cut to {kept} rows");
    }
}

#[test]
fn a_file_cut_at_any_page_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors");
    for rows in [1, GROUP, GROUP + 1] {
        common::matrix(&path, &common::vectors(rows, 64, 1), ElementType::I16);
        let whole = fs::read(&path).unwrap();
        let refused = |length: usize| {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(length as u64).unwrap();
            Matrix::open(&path).is_err_and(|error| error.kind() == ErrorKind::Corrupt)
        };
        assert!(!refused(whole.len()));
        assert!(refused(whole.len() + 1) && refused(whole.len() - 1));
        for length in (0..whole.len()).step_by(4096).rev() {
            assert!(refused(length), "{rows} rows cut to {length} of {}", whole.len());
        }
    }
}

#[test]
fn the_length_of_a_file_is_known_before_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for rows in [0, 1, GROUP, GROUP + 1] {
        let matrix = i16_matrix(folder.path(), &common::vectors(rows, 7, 1));
        let length = fs::metadata(matrix.path()).unwrap().len();
        let flat = Layout::Flat.footprint(ElementType::I16, rows as u64, 7);
        assert_eq!(flat.file("vectors") + flat.file("second plane"), length, "{rows} rows");
        assert_eq!(flat.file("second plane"), rows as u64 * 7);
        assert_eq!(Layout::Quantized.footprint(ElementType::I16, rows as u64, 7).file("vectors"), length);
    }
}

#[test]
fn a_scale_that_is_no_number_is_an_error_and_never_a_score() {
    let folder = tempfile::tempdir().unwrap();
    let path = i16_matrix(folder.path(), &common::vectors(100, 16, 5)).path().to_path_buf();
    let mut bytes = fs::read(&path).unwrap();
    bytes[2 * 4096 + 70 * 20..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let index = Flat::new(Arc::new(Matrix::open(&path).unwrap()));
    for queries in [1, 20] {
        let error = index.search(&common::vectors(queries, 16, 6), &SearchParams::top(2)).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("row 70"), "{error}");
    }
}

#[test]
fn copies_have_the_same_bytes_and_rows_of_other_types_are_coded_anew() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = common::vectors(2 * GROUP + 300, 12, 9);
    let from = i16_matrix(folder.path(), &vectors);
    let copied = |name: &str, from: &Matrix, spec: &MatrixSpec, parts: &[Range<u64>]| {
        let path = folder.path().join(name);
        let mut writer = MatrixWriter::create(&path, spec.clone()).unwrap();
        parts.iter().for_each(|rows| writer.copy(from, rows.clone()).unwrap());
        writer.finish().unwrap();
        Matrix::open(&path).unwrap()
    };
    let rows = from.rows();
    let copy = copied("copy", &from, from.spec(), &[0..5, 5..GROUP as u64 + 9, GROUP as u64 + 9..rows]);
    assert!(fs::read(copy.path()).unwrap() == fs::read(from.path()).unwrap());

    // Rows that change their place in a group keep their bytes.
    let kept = copied("kept", &from, from.spec(), &[3..GROUP as u64 - 1, GROUP as u64 + 7..rows]);
    for (at, row) in (3..GROUP as u64 - 1).chain(GROUP as u64 + 7..rows).enumerate() {
        assert_eq!(kept.row(at as u64), from.row(row));
    }

    let plain = common::matrix(&folder.path().join("f32"), &vectors, ElementType::F32);
    let coded = copied("coded", &plain, from.spec(), &[0..9, 9..rows]);
    assert!(fs::read(coded.path()).unwrap() == fs::read(from.path()).unwrap());
}

#[test]
fn an_approximate_index_over_two_planes_gives_the_scores_of_exact_search() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = i16_matrix(folder.path(), &common::vectors(4 * GROUP, 64, 17));
    let codes = folder.path().join("codes");
    QuantizedBuilder::default().build(&matrix, &codes, &|_| {}, &Interrupt::new()).unwrap();
    let index = Quantized::open(&codes, Arc::clone(&matrix), Vec::new()).unwrap();
    let queries = common::vectors(50, 64, 18);
    let params = SearchParams { effort: Effort::Exhaustive, ..SearchParams::top(10) };
    let mut found = 0;
    for (query, hits) in queries.rows().zip(index.search(&queries, &params).unwrap()) {
        let exact = common::brute_force(&matrix, query, 10);
        found += hits.iter().filter(|hit| exact.contains(hit)).count();
    }
    assert!(found >= 490, "{found} of 500");
}
