//! Building the codes of a matrix: train the lists, assign and code every row, then write list after list.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::assign::{Assigner, TOGETHER, code_all, largest_factors};
use super::coder::{Coder, Factors, Units, coordinates, row_bytes};
use super::file::{CodesWriter, Shape};
use super::kernel::BLOCK;
use super::train::{sample_rows, train};
use crate::progress::ascending;
use crate::workers::run_workers;
use crate::{Access, Error, Interrupt, MappedFile, Matrix, OnProgress, Progress, Result};

/// Rows that a worker takes at once.
const CLAIM_ROWS: u64 = 512;
/// Bytes of a row's factors while it waits to be put into its list.
const WAITING_FACTORS: usize = 8;

/// How to build the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizedBuilder {
    /// Rows of a list, in the mean: smaller lists find more in the same time, and their centroids take memory.
    pub rows_per_list: usize,
    /// Threads; 0 is all cores. The file does not depend on it.
    pub threads: usize,
}

/// Rows of a list, unless others are asked for.
pub const ROWS_PER_LIST: usize = 160;

impl Default for QuantizedBuilder {
    fn default() -> Self {
        Self { rows_per_list: ROWS_PER_LIST, threads: 0 }
    }
}

impl QuantizedBuilder {
    /// Bytes of memory that a build with the default lists needs, in the main.
    pub fn memory(rows: u64, dimensions: usize) -> u64 {
        let lists = rows.div_ceil(ROWS_PER_LIST as u64);
        // Centroids as they were and as they are, their codes and rows of eight bits, and the sample.
        let of_lists = lists.saturating_mul(dimensions as u64 * 10);
        let of_sample = sample_rows(rows, lists).saturating_mul(dimensions as u64 + 4);
        rows.saturating_mul(8).saturating_add(of_lists).saturating_add(of_sample)
    }

    /// Builds the codes of `matrix` and writes them to `path`, which readers accept only when all is durable. Needs
    /// eight bytes of memory a row, beside the centroids and the rows they are trained on (as rows of eight bits, 32 a
    /// list, up to two million), and room on the disk for the codes twice, where `path` is.
    /// Progress counts each row three times: when lists are trained, when it is coded, and when it is written.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for more rows than 32 bits count, [`Error::Io`], [`Error::Interrupted`].
    pub fn build(&self, matrix: &Matrix, path: &Path, progress: OnProgress<'_>, interrupt: &Interrupt) -> Result<()> {
        let total = matrix.rows() * 3;
        let progress = ascending(progress);
        let show = |done| progress(Progress { done, total: Some(total) });
        show(0);
        let lists = matrix.rows().div_ceil(self.rows_per_list.max(1) as u64).max(1) as usize;
        let mean = matrix.mean(interrupt)?;
        let mut signs = vec![0; Coder::sign_bytes(matrix.dimensions())];
        blake3::Hasher::new().update(b"hindsearch codes").finalize_xof().fill(&mut signs);
        let mut coder = Coder::new(mean, signs, Units::covering(Factors::default()));
        let trained = |step: Progress| show(step.done * matrix.rows() / step.total.unwrap_or(1).max(1));
        let centroids = train(matrix, &coder, lists, self.threads, &trained, interrupt)?;

        let run = Run { matrix, threads: self.threads, show: &show, interrupt };
        let waiting = Waiting::create(path, matrix)?;
        let assigner = Assigner::new(&centroids, coder.clone())?;
        let coded = run.code_rows(&assigner, &coder, &waiting)?;
        let of_centroids = largest_factors(&coder, centroids.fine.chunks_exact(centroids.dimensions));
        coder.set_units(Units::covering(coded.largest.larger(of_centroids)));
        run.write(path, &coder, &assigner, &coded.lists, &waiting.map()?)
    }
}

/// What the passes over all rows share.
struct Run<'a> {
    matrix: &'a Matrix,
    threads: usize,
    show: &'a (dyn Fn(u64) + Sync),
    interrupt: &'a Interrupt,
}

impl Run<'_> {
    /// Codes every row into `waiting`, and gives the list of each.
    fn code_rows(&self, assigner: &Assigner<'_>, coder: &Coder, waiting: &Waiting) -> Result<Coded> {
        let Self { matrix, show, interrupt, .. } = self;
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(matrix.rows()));
        let parts = run_workers(self.threads, usize::MAX, || {
            let dimensions = matrix.dimensions();
            let mut vectors = vec![0.0; CLAIM_ROWS as usize * dimensions];
            let mut rotated = vec![0.0; TOGETHER * coordinates(dimensions)];
            let mut records = vec![0; CLAIM_ROWS as usize * waiting.record];
            let (mut lists, mut largest) = (Vec::new(), Factors::default());
            loop {
                let first = next.fetch_add(CLAIM_ROWS, Ordering::Relaxed);
                if first >= matrix.rows() {
                    return Ok((lists, largest));
                }
                interrupt.check()?;
                let rows = first..(first + CLAIM_ROWS).min(matrix.rows());
                let count = (rows.end - rows.start) as usize;
                let vectors = &mut vectors[..count * dimensions];
                matrix.widen(rows, vectors);
                let mut of_rows = Vec::with_capacity(count);
                let records_together = records.chunks_mut(TOGETHER * waiting.record);
                for (vectors, records) in vectors.chunks(TOGETHER * dimensions).zip(records_together) {
                    let rotated = coder.rotate_all(vectors, &mut rotated);
                    let rows = vectors.chunks_exact(dimensions).zip(rotated.chunks_exact(coordinates(dimensions)));
                    for ((vector, rotated), record) in rows.zip(records.chunks_exact_mut(waiting.record)) {
                        let (factors, code) = record.split_at_mut(WAITING_FACTORS);
                        let found = coder.encode(vector, rotated, code);
                        factors[..4].copy_from_slice(&found.mean.to_le_bytes());
                        factors[4..].copy_from_slice(&found.code.to_le_bytes());
                        largest = largest.larger(found);
                    }
                    of_rows.extend(assigner.nearest(vectors, rotated).into_iter().map(|nearest| nearest.list));
                }
                waiting.put(first, &records[..count * waiting.record])?;
                lists.push((first, of_rows));
                show(done.fetch_add(count as u64, Ordering::Relaxed) + count as u64);
            }
        })?;
        let mut coded = Coded { lists: vec![0; matrix.rows() as usize], largest: Factors::default() };
        for (part, largest) in parts {
            coded.largest = coded.largest.larger(largest);
            for (first, part) in part {
                coded.lists[first as usize..][..part.len()].copy_from_slice(&part);
            }
        }
        Ok(coded)
    }

    /// Writes the file, list after list; `waiting` has the codes in row order.
    fn write(
        &self,
        path: &Path,
        coder: &Coder,
        assigner: &Assigner<'_>,
        lists: &[u32],
        waiting: &MappedFile,
    ) -> Result<()> {
        let Self { matrix, show, interrupt, .. } = self;
        let centroids = assigner.centroids();
        let mut directory = vec![0u64; centroids.lists() + 1];
        lists.iter().for_each(|list| directory[*list as usize + 1] += 1);
        for list in 0..centroids.lists() {
            directory[list + 1] += directory[list];
        }
        let mut next = directory.clone();
        let mut rows = vec![0u32; lists.len()];
        for (row, list) in lists.iter().enumerate() {
            rows[next[*list as usize] as usize] = row as u32;
            next[*list as usize] += 1;
        }
        drop(next);
        let shape = Shape {
            dimensions: matrix.dimensions(),
            rows: matrix.rows(),
            slots: rows.len() as u64,
            lists: centroids.lists() as u64,
        };
        let mut writer = CodesWriter::create(path, shape, coder, &directory)?;
        writer.put_centroids(&code_all(coder, &centroids.fine), assigner.stored())?;
        let record = record_bytes(matrix);
        let mut block = vec![0; row_bytes(matrix.dimensions()) * BLOCK];
        let number = |bytes: &[u8], at: usize| f32::from_bits(crate::bytes::u32_at(bytes, at));
        for (at, rows) in rows.chunks(BLOCK).enumerate() {
            block.fill(0);
            for (lane, row) in rows.iter().enumerate() {
                let record = &waiting.as_ref()[*row as usize * record..][..record];
                let factors = Factors { mean: number(record, 0), code: number(record, 4) };
                coder.put(&mut block, lane, &record[WAITING_FACTORS..], factors);
            }
            writer.put(&block)?;
            if at % 1024 == 0 {
                interrupt.check()?;
                show(matrix.rows() * 2 + (at * BLOCK) as u64);
            }
        }
        writer.finish(&rows)?;
        show(matrix.rows() * 3);
        Ok(())
    }
}

/// What coding all rows gave.
struct Coded {
    /// By row.
    lists: Vec<u32>,
    largest: Factors,
}

/// Bytes of a row that waits: its factors and its code.
fn record_bytes(matrix: &Matrix) -> usize {
    WAITING_FACTORS + coordinates(matrix.dimensions()) / 8
}

/// Codes in row order, in a file without a name: it goes with the process.
struct Waiting {
    file: File,
    path: std::path::PathBuf,
    /// Bytes of a row.
    record: usize,
}

impl Waiting {
    fn create(beside: &Path, matrix: &Matrix) -> Result<Self> {
        let folder = beside.parent().unwrap_or(Path::new("."));
        let file = tempfile::tempfile_in(folder).map_err(Error::io("write in", folder))?;
        Ok(Self { file, path: folder.into(), record: record_bytes(matrix) })
    }

    fn put(&self, first: u64, records: &[u8]) -> Result<()> {
        let at = first * self.record as u64;
        self.file.write_all_at(records, at).map_err(Error::io("write in", &self.path))
    }

    fn map(self) -> Result<MappedFile> {
        MappedFile::of(self.file, &self.path, Access::Random)
    }
}
