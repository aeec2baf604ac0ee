//! Vectors like an embedder's: unit length, in a narrow cone, in clusters.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part, and fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{ElementType, Hit, Matrix, MatrixSpec, MatrixWriter, Vectors};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// `count` vectors about a few hundred centres that share a mean; the same for the same seed.
pub fn vectors(count: usize, dimensions: usize, seed: u64) -> Vectors {
    let mut shared = ChaCha8Rng::seed_from_u64(1);
    let mean = gaussian(&mut shared, dimensions, 1.5);
    let centres: Vec<Vec<f32>> = (0..300).map(|_| gaussian(&mut shared, dimensions, 0.7)).collect();
    let mut own = ChaCha8Rng::seed_from_u64(seed);
    let mut data = Vec::with_capacity(count * dimensions);
    for _ in 0..count {
        let centre = &centres[own.random_range(0..centres.len())];
        let noise = gaussian(&mut own, dimensions, 0.4);
        data.extend(unit((0..dimensions).map(|i| mean[i] + centre[i] + noise[i]).collect()));
    }
    Vectors::new(dimensions, data).unwrap()
}

fn gaussian(random: &mut impl Rng, dimensions: usize, spread: f32) -> Vec<f32> {
    // The sum of twelve uniform values is close enough to normal.
    (0..dimensions).map(|_| spread * ((0..12).map(|_| random.random::<f32>()).sum::<f32>() - 6.0)).collect()
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / norm).collect()
}

/// Writes `vectors` to `path` and opens them.
pub fn matrix(path: &Path, vectors: &Vectors, element_type: ElementType) -> Arc<Matrix> {
    let spec = MatrixSpec::new(vectors.dimensions(), element_type).with_mean(mean(vectors));
    let mut writer = MatrixWriter::create(path, spec).unwrap();
    writer.append(vectors).unwrap();
    writer.finish().unwrap();
    Arc::new(Matrix::open(path).unwrap())
}

pub fn mean(vectors: &Vectors) -> Vec<f32> {
    let mut mean = vec![0.0; vectors.dimensions()];
    for row in vectors.rows() {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / vectors.len() as f32);
    }
    mean
}

/// The best `top_k` rows by a plain sort of inner products in double precision.
pub fn brute_force(matrix: &Matrix, query: &[f32], top_k: usize) -> Vec<Hit> {
    let score = |row| matrix.row(row).iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    // Adding zero turns -0 into 0, as in the library.
    let hit = |row| Hit { row, score: score(row) as f32 + 0.0 };
    let mut hits: Vec<Hit> = (0..matrix.rows()).map(hit).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    hits.truncate(top_k);
    hits
}
