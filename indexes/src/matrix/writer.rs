//! Writing a matrix file, row after row, with checkpoints.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::header::Header;
use super::{Matrix, MatrixSpec, Rows, rows};
use crate::bytes::PAGE;
use crate::{Error, Result, Vectors, dot};

/// Rows read at once from a file.
const READ_ROWS: usize = 1024;

/// Writes a matrix file. Until [`finish`](Self::finish) the header page is empty and no reader accepts the file.
#[derive(Debug)]
pub struct MatrixWriter {
    path: PathBuf,
    file: BufWriter<File>,
    header: Header,
}

impl MatrixWriter {
    /// Starts an empty matrix at `path`, replacing a file that is there.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a spec that cannot be, [`Error::Io`].
    pub fn create(path: &Path, spec: MatrixSpec) -> Result<Self> {
        let file = File::create(path).map_err(Error::io("create", path))?;
        let mut writer = Self::new(path, file, spec)?;
        let blank = vec![0; writer.header.spec.data_offset()];
        writer.file.write_all(&blank).map_err(Error::io("write", path))?;
        Ok(writer)
    }

    /// Takes up an unfinished matrix after its first `rows` rows, which a [`checkpoint`](Self::checkpoint) reported;
    /// later rows are dropped. The kept rows are read once.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file holds fewer rows or others than numbers, [`Error::Io`].
    pub fn resume(path: &Path, spec: MatrixSpec, rows: u64) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path))?;
        let found = file.metadata().map_err(Error::io("read", path))?.len();
        let mut writer = Self::new(path, file, spec)?;
        let Some(length) = writer.header.spec.file_length(rows).filter(|length| *length <= found) else {
            return Err(Error::Corrupt {
                path: path.into(),
                expected: format!("{rows} rows of {} bytes", writer.header.spec.row_bytes()),
                found: format!("a file of {found} bytes"),
            });
        };
        let file = writer.file.get_mut();
        file.set_len(length).map_err(Error::io("truncate", path))?;
        // A finished file becomes unfinished again before it changes.
        file.write_all(&[0; PAGE]).map_err(Error::io("write", path))?;
        file.seek(SeekFrom::Start(writer.header.spec.data_offset() as u64)).map_err(Error::io("seek in", path))?;
        writer.measure(rows)?;
        Ok(writer)
    }

    fn new(path: &Path, file: File, spec: MatrixSpec) -> Result<Self> {
        let header = Header { spec: spec.checked()?, rows: 0, max_norm: 0.0 };
        Ok(Self { path: path.into(), file: BufWriter::with_capacity(1 << 20, file), header })
    }

    /// Reads the next `rows` rows of the file to learn their norms, and leaves the file after them.
    fn measure(&mut self, rows: u64) -> Result<()> {
        let row_bytes = self.header.spec.row_bytes();
        let mut buffer = AlignedBytes::new(READ_ROWS * row_bytes);
        while self.header.rows < rows {
            let count = (rows - self.header.rows).min(READ_ROWS as u64) as usize;
            let bytes = &mut buffer.bytes()[..count * row_bytes];
            self.file.get_mut().read_exact(bytes).map_err(Error::io("read", &self.path))?;
            self.count(bytes)?;
        }
        Ok(())
    }

    /// Counts coded rows that are in the file, or about to be.
    fn count(&mut self, coded: &[u8]) -> Result<()> {
        let Header { spec, rows, max_norm } = &mut self.header;
        let mut vectors = vec![0.0; coded.len() / spec.row_bytes() * spec.dimensions];
        Rows::new(spec, coded).widen(&mut vectors);
        for row in vectors.chunks_exact(spec.dimensions) {
            let norm = dot::norm(row);
            if !norm.is_finite() {
                return Err(Error::Corrupt {
                    path: self.path.clone(),
                    expected: "finite values".into(),
                    found: format!("others in row {rows}"),
                });
            }
            *max_norm = max_norm.max((norm as f32).next_up());
            *rows += 1;
        }
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Adds rows; all of them, or on bad input none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for vectors that [`Vectors::check`] refuses or values beyond the element type,
    /// [`Error::Io`].
    pub fn append(&mut self, vectors: &Vectors) -> Result<()> {
        vectors.check(self.header.spec.dimensions, "row", self.header.rows)?;
        let row_bytes = self.header.spec.row_bytes();
        let mut buffer = AlignedBytes::new(vectors.len() * row_bytes);
        let coded = buffer.bytes();
        for ((row, out), number) in vectors.rows().zip(coded.chunks_exact_mut(row_bytes)).zip(self.header.rows..) {
            rows::encode(&self.header.spec, number, row, out)?;
        }
        self.file.write_all(coded).map_err(Error::io("write", &self.path))?;
        self.count(coded)
    }

    /// Adds `rows` of another matrix: byte for byte, if it codes rows as this one does, else coded anew.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when one of the rows is no vector, [`Error::InvalidInput`] for one of other dimensions or with
    /// values beyond the element type, [`Error::Io`].
    ///
    /// # Panics
    /// When `rows` ends after the last row of `from`.
    pub fn copy(&mut self, from: &Matrix, rows: Range<u64>) -> Result<()> {
        for start in rows.clone().step_by(READ_ROWS) {
            let rows = start..rows.end.min(start + READ_ROWS as u64);
            let mut vectors = vec![0.0; (rows.end - rows.start) as usize * from.dimensions()];
            from.widen(rows.clone(), &mut vectors);
            let unsound = |row: &[f32]| !dot::norm(row).is_finite();
            if let Some(at) = vectors.chunks_exact(from.dimensions()).position(unsound) {
                return Err(from.damaged(rows.start + at as u64));
            }
            if *from.spec() != self.header.spec {
                self.append(&Vectors::new(from.dimensions(), vectors)?)?;
                continue;
            }
            let coded = from.bytes(rows);
            self.file.write_all(coded).map_err(Error::io("write", &self.path))?;
            self.count(coded)?;
        }
        Ok(())
    }

    /// Makes all rows so far durable and returns their number, for a later [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.file.flush().map_err(Error::io("write", &self.path))?;
        self.file.get_ref().sync_data().map_err(Error::io("sync", &self.path))?;
        Ok(self.header.rows)
    }

    /// Makes the rows durable, then writes the header, and returns the number of rows.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<u64> {
        let rows = self.checkpoint()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0)).map_err(Error::io("seek in", &self.path))?;
        file.write_all(&self.header.encode()).map_err(Error::io("write", &self.path))?;
        file.sync_all().map_err(Error::io("sync", &self.path))?;
        Ok(rows)
    }
}

/// Bytes that may be viewed as any element type.
struct AlignedBytes {
    words: Vec<u64>,
    length: usize,
}

impl AlignedBytes {
    fn new(length: usize) -> Self {
        Self { words: vec![0; length.div_ceil(size_of::<u64>())], length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}
