//! Vectors that exist already, taken from files in place of embedding: streamed, and only with the right passages.

use std::path::Path;

use hindsearch_indexes::{Comparison, MatrixWriter, Progress, Tally, VectorFile, Vectors, norm};
use serde::{Deserialize, Serialize};

use super::pairing::Pairing;
use super::state::State;
use super::vectors::{MEAN_SAMPLE, WINDOW, writer};
use super::{BuildOptions, Run, Stage, held_out};
use crate::embed::Embedder;
use crate::{Error, Result};

/// Bytes of vectors between two checkpoints: the most that a kill costs, read again in a moment.
const CHECKPOINT: usize = 128 << 20;
/// How far from 1 the length of a unit vector may be: one scaled in half precision, or read from codes of 8 bits, is a
/// little off.
pub(super) const LENGTH_TOLERANCE: f64 = 0.01;

/// Where the vectors of an index come from that were not embedded by this program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The files, in order.
    pub files: Vec<String>,
    /// Their format.
    pub format: String,
    /// What kind of numbers they hold.
    pub values: Tally,
    /// How well they fit the passages.
    pub pairing: Pairing,
}

/// The files of `options`, where there are any: readable, and of as many dimensions as the model gives.
pub(super) fn open(options: &BuildOptions, embedder: &Embedder) -> Result<Option<VectorFile>> {
    if options.vectors.is_empty() {
        return Ok(None);
    }
    let file = VectorFile::open(&options.vectors, embedder.dimensions())?;
    if file.dimensions() == embedder.dimensions() {
        return Ok(Some(file));
    }
    Err(Error::Incompatible {
        what: named(file.path_of(0)),
        expected: format!("{} values a row, as {} gives", embedder.dimensions(), embedder.card().id),
        found: format!("{} ({})", file.dimensions(), file.format()),
        remedy: "name the model that made the vectors (`--model`)".into(),
    })
}

/// Copies the rows that are not durable yet and finishes the matrix. Gives the number of rows copied.
pub(super) fn copy_all(run: &Run<'_>, file: &VectorFile, embedder: &Embedder, state: &mut State) -> Result<u64> {
    let mut writer = writer(run, embedder.dimensions(), state, || mean(file))?;
    let first = state.rows;
    let show = |done| (run.on_stage)(Stage::Vectors, Progress { done, total: Some(file.rows()) });
    show(first);
    let length = length(file, embedder)?;
    let mut waiting = 0;
    while writer.rows() < file.rows() {
        if let Err(stopped) = run.interrupt.check() {
            save(run, &mut writer, state)?;
            return Err(stopped.into());
        }
        let row = writer.rows();
        let vectors = file.read(row..file.rows().min(row + WINDOW as u64))?;
        check(file, &vectors, row, length)?;
        writer.append(&vectors)?;
        state.values.add(&vectors);
        waiting += size_of_val(vectors.as_slice());
        if waiting >= CHECKPOINT {
            save(run, &mut writer, state)?;
            waiting = 0;
        }
        show(writer.rows());
    }
    save(run, &mut writer, state)?;
    writer.finish()?;
    Ok(state.rows - first)
}

fn save(run: &Run<'_>, writer: &mut MatrixWriter, state: &mut State) -> Result<()> {
    state.rows = writer.checkpoint()?;
    state.save(&run.staging)
}

/// The length that all rows must have, where they must have one.
fn length(file: &VectorFile, embedder: &Embedder) -> Result<Option<f64>> {
    if embedder.card().normalize {
        return Ok(Some(1.0));
    }
    // Distances rank as inner products do only among vectors of one length.
    match file.comparison() {
        Comparison::Distance if file.rows() > 0 => Ok(Some(norm(file.read(0..1)?.as_slice()))),
        _ => Ok(None),
    }
}

fn check(file: &VectorFile, vectors: &Vectors, first: u64, length: Option<f64>) -> Result<()> {
    let path = file.path_of(first);
    vectors.check(file.dimensions(), &format!("{}, row", named(path)), first)?;
    let Some(length) = length else { return Ok(()) };
    let compared = if file.comparison() == Comparison::Distance { "distance" } else { "cosine" };
    for (row, number) in vectors.rows().zip(first..) {
        let found = norm(row);
        if (found / length - 1.0).abs() > LENGTH_TOLERANCE {
            return Err(Error::Incompatible {
                what: format!("{}, row {number}", named(path)),
                expected: format!(
                    "a vector of length {length:.3}, as among such alone {compared} and inner product rank alike"
                ),
                found: format!("length {found:.4}"),
                remedy: "scale the rows to length 1 (`x / numpy.linalg.norm(x, axis=1, keepdims=True)`) and import \
                         those, or name the model that made them (`--model`)"
                    .into(),
            });
        }
    }
    Ok(())
}

/// The mean of rows spread over the file.
fn mean(file: &VectorFile) -> Result<Vec<f32>> {
    let rows: Vec<u64> = held_out::rows(file.rows(), MEAN_SAMPLE).collect();
    let mut mean = vec![0.0; file.dimensions()];
    for row in &rows {
        let vector = file.read(*row..row + 1)?;
        mean.iter_mut().zip(vector.as_slice()).for_each(|(sum, x)| *sum += x / rows.len() as f32);
    }
    Ok(mean)
}

/// A path for messages.
pub(super) fn named(path: &Path) -> String {
    format!("`{}`", path.display())
}
