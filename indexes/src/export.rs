//! How do an index's vectors leave again, for NumPy or for faiss?

use std::io::Write;
use std::path::Path;

use crate::import::{faiss, npy};
use crate::npy::write_values;
use crate::{Error, Flat, Index, Interrupt, OnProgress, Progress, Result, Sharded, WholeFile};

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

/// Writes the vectors that the rows of `index` stand for, as `f32` in row order, those that are deleted left out. Progress
/// in rows. Nothing has the name `path` before it is whole.
///
/// # Errors
/// [`Error::InvalidInput`] for dimensions beyond those that faiss counts, [`Error::Corrupt`] for rows that are no
/// numbers, [`Error::Io`], [`Error::Interrupted`].
pub fn export_vectors(
    index: &Sharded<Flat>,
    path: &Path,
    format: ExportFormat,
    on_progress: OnProgress<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let (rows, dimensions) = (index.len(), index.dimensions());
    let header = match format {
        ExportFormat::Npy => npy::header(rows, dimensions),
        ExportFormat::Faiss => faiss::flat_header(rows, dimensions)?,
    };
    let mut file = WholeFile::create(path)?;
    file.write_all(&header).map_err(Error::io("write", path))?;
    let at_once = (BUFFER / (4 * dimensions)).max(1);
    let (mut values, mut done) = (vec![0.0; at_once * dimensions], 0);
    for (_, part) in index.parts() {
        let (matrix, live) = (part.matrix(), part.live());
        for first in (0..matrix.rows()).step_by(at_once) {
            interrupt.check()?;
            let rows_here = first..matrix.rows().min(first + at_once as u64);
            let values = &mut values[..(rows_here.end - first) as usize * dimensions];
            matrix.widen(rows_here.clone(), values);
            for (row, vector) in rows_here.zip(values.chunks_exact(dimensions)).filter(|(row, _)| live.contains(*row)) {
                if vector.iter().any(|x| !x.is_finite()) {
                    return Err(matrix.damaged(row));
                }
                write_values(&mut file, vector).map_err(Error::io("write", path))?;
                done += 1;
            }
            on_progress(Progress { done, total: Some(rows) });
        }
    }
    file.publish()
}
