//! Quantized indexes, built and published.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::{
    Depth, ElementType, FolderLock, Generation, IndexKind, Interrupt, Manifest, Matrix, MatrixSpec, MatrixWriter,
    Quantized, QuantizedBuilder, Sharded, Staging, Vectors, calibrate,
};
use tempfile::TempDir;

/// A matrix and its codes.
pub struct Built {
    pub folder: TempDir,
    pub matrix: Arc<Matrix>,
}

impl Built {
    /// Codes `vectors` in lists of so many rows, in the mean.
    pub fn new(vectors: &Vectors, rows_per_list: usize) -> Self {
        let folder = super::scratch();
        let matrix = matrix(&folder.path().join("vectors"), vectors, ElementType::F32);
        let built = Self { folder, matrix };
        build(&built.matrix, &built.codes(), rows_per_list, 0);
        built
    }

    /// The file of codes.
    pub fn codes(&self) -> PathBuf {
        self.folder.path().join("codes")
    }

    pub fn open(&self) -> Quantized {
        Quantized::open(&self.codes(), Arc::clone(&self.matrix), Vec::new()).unwrap()
    }
}

pub fn build(matrix: &Matrix, path: &Path, rows_per_list: usize, threads: usize) {
    QuantizedBuilder { rows_per_list, threads }.build(matrix, path, &|_| (), &Interrupt::new()).unwrap();
}

fn matrix(path: &Path, vectors: &Vectors, element_type: ElementType) -> Arc<Matrix> {
    let dimensions = vectors.dimensions();
    let mut mean = vec![0.0; dimensions];
    for row in vectors.rows() {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / vectors.len() as f32);
    }
    let mut writer = MatrixWriter::create(path, MatrixSpec::new(dimensions, element_type).with_mean(mean)).unwrap();
    writer.append(vectors).unwrap();
    writer.finish().unwrap();
    Arc::new(Matrix::open(path).unwrap())
}

/// Publishes an index in `root`, calibrated on `queries`; the texts are no concern of it.
pub fn publish(root: &Path, vectors: &Vectors, element_type: ElementType, queries: &Vectors) -> Generation {
    let staging = FolderLock::acquire(root).and_then(Staging::create_or_resume).unwrap();
    let matrix = matrix(&staging.path().join("vectors"), vectors, element_type);
    build(&matrix, &staging.path().join("codes"), 50, 0);
    for name in ["passages", "ids"] {
        fs::write(staging.path().join(name), name).unwrap();
    }
    let mut manifest = Manifest::new(IndexKind::Quantized, matrix.rows(), matrix.dimensions(), element_type);
    let exact = Sharded::open_flat(staging.path(), &manifest).unwrap();
    let codes = Sharded::open_codes(staging.path(), &manifest).unwrap();
    manifest.calibration = calibrate(&exact, &codes, queries).unwrap();
    let generation = staging.publish(manifest, &|_| (), &Interrupt::new()).unwrap();
    generation.verify(Depth::Full, &|_| (), &Interrupt::new()).unwrap();
    generation
}
