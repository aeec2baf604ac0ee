//! Synthetic vectors: the same bytes however they are asked for, and the shape of text embeddings.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use hindsearch_indexes::{ElementType, Error, Flat, Index, SearchParams, Synthetic, Vectors};

fn rows(synthetic: &Synthetic, from: u64, to: u64) -> Vec<f32> {
    let mut out = vec![0.0; (to - from) as usize * synthetic.dimensions()];
    synthetic.rows(from..to, &mut out);
    out
}

#[test]
fn rows_are_the_same_bytes_for_any_blocking_and_thread() {
    for dimensions in [8, 30, 96, 384] {
        let synthetic = Synthetic::new(5, dimensions).unwrap();
        let whole = rows(&synthetic, 0, 100);
        assert_eq!([rows(&synthetic, 0, 1), rows(&synthetic, 1, 38), rows(&synthetic, 38, 100)].concat(), whole);
        // Taken up later, by another program, on many threads.
        let again = Synthetic::new(5, dimensions).unwrap();
        let parts: Vec<f32> = std::thread::scope(|scope| {
            let again = &again;
            let workers: Vec<_> =
                (0..4).map(|part| scope.spawn(move || rows(again, part * 25, part * 25 + 25))).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(parts, whole, "{dimensions} dimensions");
    }
}

#[test]
fn far_rows_cost_no_more_than_near_ones_and_are_others() {
    let synthetic = Synthetic::new(5, 16).unwrap();
    let far = rows(&synthetic, 21_015_323, 21_015_324);
    assert!(rows(&synthetic, 0, 1000).chunks_exact(16).all(|row| row != far));
    assert_ne!(rows(&Synthetic::new(6, 16).unwrap(), 0, 1), rows(&synthetic, 0, 1), "seeds");
}

#[test]
fn the_first_queries_are_the_same_whatever_their_count() {
    let synthetic = Synthetic::new(5, 16).unwrap();
    let (few, many) = (synthetic.queries(3).unwrap(), synthetic.queries(9).unwrap());
    assert_eq!(few.as_slice(), &many.as_slice()[..3 * 16]);
    assert!(rows(&synthetic, 0, 9).chunks_exact(16).zip(many.rows()).all(|(row, query)| row != query));
}

#[test]
fn all_vectors_have_length_one() {
    for dimensions in [8, 31, 384] {
        let synthetic = Synthetic::new(2, dimensions).unwrap();
        let vectors = [rows(&synthetic, 0, 300), synthetic.queries(50).unwrap().as_slice().to_vec()].concat();
        for row in vectors.chunks_exact(dimensions) {
            let length = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
            assert!((length - 1.0).abs() < 1e-5, "{length}");
        }
    }
}

#[test]
fn fewer_than_eight_dimensions_are_refused() {
    assert!(matches!(Synthetic::new(1, 7), Err(Error::InvalidInput { .. })));
}

// The table of real embeddings that the constants were fitted to, with 1,000 rows of 768 values: the squared length of
// the mean 0.80 to 0.82, participation 96 to 143, deviations of the cosine of the 1st, 3rd, 10th and 100th row from that
// of any row 3.7 to 4.0, 3.0, 2.4 and 1.27, intrinsic dimension of the 20 nearest 52 to 56.
#[test]
fn one_thousand_rows_have_the_geometry_of_text_embeddings() {
    let geometry = Geometry::measure(1000);
    geometry.expect("mean", geometry.mean_square, 0.79..0.81);
    geometry.expect("participation", geometry.participation, 125.0..150.0);
    for (found, wanted) in geometry.z.iter().zip([3.95, 3.0, 2.39, 1.27]) {
        geometry.expect("deviations", *found, wanted - 0.15..wanted + 0.15);
    }
    geometry.expect("intrinsic dimension", geometry.intrinsic, 50.0..62.0);
}

// More rows bring nearer neighbours, as MiniLM's vectors of 28,000 passages do: 6.1, 5.2, 4.5, 3.2; dimension 26.
#[test]
fn more_rows_bring_nearer_neighbours() {
    let geometry = Geometry::measure(28_000);
    for (found, wanted) in geometry.z.iter().zip([6.87, 5.6, 4.15, 2.83]) {
        geometry.expect("deviations", *found, wanted - 0.35..wanted + 0.35);
    }
    geometry.expect("intrinsic dimension", geometry.intrinsic, 25.0..32.0);
}

#[derive(Debug)]
struct Geometry {
    mean_square: f64,
    /// The square of the sum of the covariance's eigenvalues over the sum of their squares.
    participation: f64,
    /// Of the cosines of a query, that at a rank less the mean, in standard deviations.
    z: [f64; 4],
    /// By maximum likelihood (Levina and Bickel 2004) from the distances to the 20 nearest rows.
    intrinsic: f64,
}

impl Geometry {
    fn measure(count: usize) -> Self {
        let synthetic = Synthetic::new(1, 768).unwrap();
        let vectors = Vectors::new(768, rows(&synthetic, 0, count as u64)).unwrap();
        let queries = synthetic.queries(300).unwrap();
        let mean = common::mean(&vectors);
        let (mut z, mut intrinsic) = ([0.0; 4], Vec::new());
        let some = Vectors::new(768, vectors.as_slice()[..1000 * 768].to_vec()).unwrap();
        for (nearest, any) in scores(&vectors, &queries, 100).into_iter().zip(scores(&some, &queries, 1000)) {
            let average = any.iter().sum::<f64>() / 1000.0;
            let variance = any.iter().map(|score| (score - average).powi(2)).sum::<f64>() / 1000.0;
            for (z, rank) in z.iter_mut().zip([1, 3, 10, 100]) {
                *z += (nearest[rank - 1] - average) / variance.sqrt() / queries.len() as f64;
            }
            let distance = |rank: usize| (2.0 - 2.0 * nearest[rank]).sqrt();
            intrinsic.push(-19.0 / (0..19).map(|rank| (distance(rank) / distance(19)).ln()).sum::<f64>());
        }
        intrinsic.sort_by(f64::total_cmp);
        Self {
            mean_square: mean.iter().map(|x| f64::from(*x).powi(2)).sum(),
            participation: participation(&vectors, &mean),
            z,
            intrinsic: intrinsic[intrinsic.len() / 2],
        }
    }

    fn expect(&self, what: &str, found: f64, wanted: std::ops::Range<f64>) {
        assert!(wanted.contains(&found), "{what}: {found}, wanted {wanted:?}; {self:?}");
    }
}

/// By query, the cosines of the `top_k` nearest rows, highest first.
fn scores(vectors: &Vectors, queries: &Vectors, top_k: usize) -> Vec<Vec<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let index = Flat::new(common::matrix(&folder.path().join("vectors"), vectors, ElementType::F32));
    let found = index.search(queries, &SearchParams::top(top_k)).unwrap();
    found.into_iter().map(|hits| hits.into_iter().map(|hit| f64::from(hit.score)).collect()).collect()
}

/// From the Gram matrix of the first thousand rows: it has the covariance's eigenvalues.
fn participation(vectors: &Vectors, mean: &[f32]) -> f64 {
    let centred: Vec<Vec<f32>> =
        vectors.rows().take(1000).map(|row| row.iter().zip(mean).map(|(x, mean)| x - mean).collect()).collect();
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    let trace: f64 = centred.iter().map(|row| f64::from(dot(row, row))).sum();
    let squares: f64 = centred.iter().flat_map(|a| centred.iter().map(|b| f64::from(dot(a, b)).powi(2))).sum();
    trace * trace / squares
}
