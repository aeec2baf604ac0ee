//! How do an index's vectors leave again, for NumPy or for faiss?

use std::io::Write;
use std::path::Path;

use crate::import::{faiss, npy};
use crate::npy::write_values;
use crate::{Error, Interrupt, Matrix, OnProgress, Progress, Result, WholeFile};

/// Bytes of values widened at once.
const BUFFER: usize = 4 << 20;

/// The form of a file of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A NumPy array of `f32`.
    Npy,
    /// A flat faiss index by inner product, `IndexFlatIP`.
    Faiss,
}

impl ExportFormat {
    /// The form that a file's name asks for: `.npy`, or `.faiss` and `.index`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "npy" => Some(Self::Npy),
            "faiss" | "index" => Some(Self::Faiss),
            _ => None,
        }
    }
}

/// Writes the vectors that the rows of `matrix` stand for, as `f32` in row order. Progress in rows. Nothing has the name
/// `path` before it is whole.
///
/// # Errors
/// [`Error::InvalidInput`] for dimensions beyond those that faiss counts, [`Error::Corrupt`] for rows that are no
/// numbers, [`Error::Io`], [`Error::Interrupted`].
pub fn export_vectors(
    matrix: &Matrix,
    path: &Path,
    format: ExportFormat,
    on_progress: OnProgress<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let (rows, dimensions) = (matrix.rows(), matrix.dimensions());
    let header = match format {
        ExportFormat::Npy => npy::header(rows, dimensions),
        ExportFormat::Faiss => faiss::flat_header(rows, dimensions)?,
    };
    let mut file = WholeFile::create(path)?;
    file.write_all(&header).map_err(Error::io("write", path))?;
    let at_once = (BUFFER / (4 * dimensions)).max(1);
    let mut values = vec![0.0; at_once * dimensions];
    for first in (0..rows).step_by(at_once) {
        interrupt.check()?;
        let end = rows.min(first + at_once as u64);
        let values = &mut values[..(end - first) as usize * dimensions];
        matrix.widen(first..end, values);
        if let Some(at) = values.iter().position(|x| !x.is_finite()) {
            return Err(matrix.damaged(first + (at / dimensions) as u64));
        }
        write_values(&mut file, values).map_err(Error::io("write", path))?;
        on_progress(Progress { done: end, total: Some(rows) });
    }
    file.publish()
}
