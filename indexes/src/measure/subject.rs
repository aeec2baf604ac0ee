//! Which index is measured, where no corpus was indexed: one built of vectors alone, kept for the next time.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::workers::run_workers;
use crate::{
    ElementType, Error, Flat, Hnsw, HnswBuilder, HnswOptions, Index, IndexKind, Interrupt, Matrix, MatrixSpec,
    MatrixWriter, OnProgress, Progress, Quantized, QuantizedBuilder, Result, Synthetic, Vectors, WholeFile,
};

use super::{Truth, cpu_time};

/// Rows in memory at a time.
const BLOCK: usize = 16_384;
/// Rows whose mean centres the codes.
const MEAN_ROWS: usize = 16_384;
/// What a built index tells of itself.
const REPORT: &str = "built.json";

/// Vectors to build an index of.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub enum Source {
    /// The first rows of a synthetic world.
    Synthetic(Synthetic, u64),
    /// Vectors in memory.
    Vectors(Vectors),
}

impl Source {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Synthetic(_, rows) => *rows,
            Self::Vectors(vectors) => vectors.len() as u64,
        }
    }

    /// Values in a row.
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Synthetic(synthetic, _) => synthetic.dimensions(),
            Self::Vectors(vectors) => vectors.dimensions(),
        }
    }

    /// The rows from `first` on, at most 16,384 of them, in `block`; none behind the last.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn read(&self, first: u64, block: &mut Vec<f32>) -> Result<()> {
        let count = self.rows().saturating_sub(first).min(BLOCK as u64) as usize;
        let dimensions = self.dimensions();
        block.resize(count * dimensions, 0.0);
        match self {
            Self::Vectors(vectors) => {
                block.copy_from_slice(&vectors.as_slice()[first as usize * dimensions..][..count * dimensions]);
            }
            Self::Synthetic(synthetic, _) => {
                let parts = std::sync::Mutex::new((first..).step_by(256).zip(block.chunks_mut(256 * dimensions)));
                run_workers(0, count.div_ceil(256), || {
                    loop {
                        let part = parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
                        let Some((first, out)) = part else { return Ok(()) };
                        synthetic.rows(first..first + (out.len() / dimensions) as u64, out);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Tells these vectors from others: a hash of their shape and of the first ones.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn fingerprint(&self) -> Result<String> {
        let (mut hash, mut block) = (blake3::Hasher::new(), Vec::new());
        self.read(0, &mut block)?;
        hash.update(&self.rows().to_le_bytes()).update(&(self.dimensions() as u64).to_le_bytes());
        hash.update(bytemuck::cast_slice(&block));
        Ok(short(&hash))
    }

    /// Calls `each` with every block in order.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn for_each_block(&self, mut each: impl FnMut(u64, &Vectors) -> Result<()>) -> Result<()> {
        let mut block = Vec::new();
        let mut first = 0;
        while first < self.rows() {
            self.read(first, &mut block)?;
            // The same memory again and again.
            let vectors = Vectors::new(self.dimensions(), block)?;
            each(first, &vectors)?;
            first += vectors.len() as u64;
            block = vectors.into_vec();
        }
        Ok(())
    }
}

/// An index to build, or to open where it was built before.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Where indexes of these vectors lie, each kind in a folder of its own.
    pub work: PathBuf,
    /// Its vectors.
    pub source: &'a Source,
    /// How it is searched.
    pub kind: IndexKind,
    /// How values are stored.
    pub element_type: ElementType,
    /// Threads of the build; 0 is all cores.
    pub threads: usize,
}

/// What building took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Tells these vectors from others.
    pub fingerprint: String,
    /// Number of vectors.
    pub rows: u64,
    /// Values in a vector.
    pub dimensions: usize,
    /// Processor seconds, those of drawing synthetic vectors included.
    pub cpu_seconds: f64,
    /// Seconds.
    pub seconds: f64,
    /// Bytes of the files by name.
    pub files: Vec<(String, u64)>,
}

impl Subject<'_> {
    /// Opens the index of the folder, after building it where it is not there.
    ///
    /// # Errors
    /// [`Error::Incompatible`] for a folder with an index of other vectors; those of building and opening.
    pub fn open(&self, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<(Box<dyn Index>, Built)> {
        let folder = self.folder();
        let report = folder.join(REPORT);
        let built: Built = match fs::read(&report) {
            Ok(bytes) => parse(&report, &bytes)?,
            Err(_) => self.build(&folder, progress, interrupt)?,
        };
        let fingerprint = self.source.fingerprint()?;
        if built.fingerprint != fingerprint {
            return Err(Error::Incompatible {
                path: folder,
                expected: format!("an index of the vectors {fingerprint}"),
                found: format!("one of {}", built.fingerprint),
                remedy: "give each set of vectors a folder of its own".into(),
            });
        }
        let matrix = Arc::new(Matrix::open(&folder.join("vectors"))?);
        let index: Box<dyn Index> = match self.kind {
            IndexKind::Flat => Box::new(Flat::new(matrix)),
            IndexKind::Hnsw => {
                let options =
                    HnswOptions { expansion_search: 64, max_concurrency: self.threads.max(crate::workers::cores()) };
                Box::new(Hnsw::open(&folder.join("graph"), matrix, options)?)
            }
            IndexKind::Quantized => Box::new(Quantized::open(&folder.join("codes"), matrix, Vec::new())?),
        };
        Ok((index, built))
    }

    /// The exact hits of `queries` in `f32`, searched for once and then kept.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`] for a file that was changed.
    pub fn truth(&self, queries: &Vectors, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<Truth> {
        let mut hash = blake3::Hasher::new();
        hash.update(self.source.fingerprint()?.as_bytes()).update(bytemuck::cast_slice(queries.as_slice()));
        let path = self.work.join(format!("truth-{}.json", short(&hash)));
        if let Ok(bytes) = fs::read(&path) {
            return parse(&path, &bytes);
        }
        let mut first = 0;
        let truth = Truth::of_vectors(queries, self.threads, |block| {
            interrupt.check()?;
            progress(Progress { done: first, total: Some(self.source.rows()) });
            self.source.read(first, block)?;
            first += (block.len() / self.source.dimensions()) as u64;
            Ok(())
        })?;
        keep(&path, &truth)?;
        Ok(truth)
    }

    fn folder(&self) -> PathBuf {
        self.work.join(format!("{}-{}", self.kind, self.element_type))
    }

    fn build(&self, folder: &Path, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<Built> {
        fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let fingerprint = self.source.fingerprint()?;
        let (start, cpu) = (Instant::now(), cpu_time());
        let path = folder.join("vectors");
        let (rows, dimensions) = (self.source.rows(), self.source.dimensions());
        let mut first = Vec::new();
        self.source.read(0, &mut first)?;
        let spec = MatrixSpec::new(dimensions, self.element_type).with_mean(mean(&first, dimensions));
        let mut writer = MatrixWriter::create(&path, spec)?;
        self.source.for_each_block(|done, block| {
            interrupt.check()?;
            progress(Progress { done, total: Some(rows) });
            writer.append(block)
        })?;
        writer.finish()?;
        match self.kind {
            IndexKind::Flat => {}
            IndexKind::Hnsw => {
                let builder = HnswBuilder { threads: self.threads, ..HnswBuilder::default() };
                builder.build(&Matrix::open(&path)?, &folder.join("graph"), progress, interrupt)?;
            }
            IndexKind::Quantized => {
                let builder = QuantizedBuilder { threads: self.threads, ..QuantizedBuilder::default() };
                builder.build(&Matrix::open(&path)?, &folder.join("codes"), progress, interrupt)?;
            }
        }
        let length = |name: &str| fs::metadata(folder.join(name)).map(|file| (name.to_owned(), file.len())).ok();
        let built = Built {
            fingerprint,
            rows,
            dimensions,
            cpu_seconds: (cpu_time() - cpu).as_secs_f64(),
            seconds: start.elapsed().as_secs_f64(),
            files: self.kind.files().iter().filter_map(|name| length(name)).collect(),
        };
        keep(&folder.join(REPORT), &built)?;
        Ok(built)
    }
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Corrupt {
        path: path.into(),
        expected: "what this program wrote; remove the file".into(),
        found: error.to_string(),
    })
}

fn keep(path: &Path, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec(value).map_err(|error| Error::io("write", path)(error.into()))?;
    let mut file = WholeFile::create(path)?;
    file.write_all(&json).map_err(Error::io("write", path))?;
    file.publish()
}

/// The first 16 digits of a hash.
fn short(hash: &blake3::Hasher) -> String {
    hash.finalize().to_hex().chars().take(16).collect()
}

fn mean(values: &[f32], dimensions: usize) -> Vec<f32> {
    let rows = (values.len() / dimensions).min(MEAN_ROWS);
    let mut mean = vec![0.0; dimensions];
    for row in values.chunks_exact(dimensions).take(rows) {
        mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / rows as f32);
    }
    mean
}
