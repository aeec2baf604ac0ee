//! Writing a matrix file, row after row, with checkpoints.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::block::Block;
use super::header::Header;
use super::places::GROUP_ROWS;
use super::{Matrix, MatrixSpec, Planes, Rows};
use crate::bytes::PAGE;
use crate::{Error, Result, Vectors, dot};

/// Writes a matrix file. Until [`finish`](Self::finish) the header page is empty and no reader accepts the file.
#[derive(Debug)]
pub struct MatrixWriter {
    path: PathBuf,
    file: BufWriter<File>,
    header: Header,
    group: Group,
}

/// The rows of the last group until it is full, where rows are in two planes. The file stands at the group's start.
#[derive(Debug, Default)]
struct Group {
    coarse: Vec<u8>,
    fine: Vec<u8>,
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
        writer.read(rows)?;
        Ok(writer)
    }

    fn new(path: &Path, file: File, spec: MatrixSpec) -> Result<Self> {
        let header = Header { spec: spec.checked()?, rows: 0, max_norm: 0.0 };
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { path: path.into(), file, header, group: Group::default() })
    }

    /// Reads the first `rows` rows of the file to learn their norms, and leaves the file where the next row goes; the
    /// rows of a group that is not full are kept, to be written again with those that fill it.
    fn read(&mut self, rows: u64) -> Result<()> {
        while self.header.rows < rows {
            let first = self.header.rows;
            let spec = &self.header.spec;
            let mut block = Block::zeros(spec, (rows - first).min(GROUP_ROWS) as usize);
            let places = [spec.coarse_at(first), spec.fine_at(first)];
            for (place, bytes) in places.into_iter().zip(block.planes_mut()).filter(|(_, bytes)| !bytes.is_empty()) {
                let file = self.file.get_mut();
                file.seek(SeekFrom::Start(place)).map_err(Error::io("seek in", &self.path))?;
                file.read_exact(bytes).map_err(Error::io("read", &self.path))?;
            }
            if spec.group_start(rows) == first {
                let Planes { coarse, fine } = block.planes();
                self.group = Group { coarse: coarse.to_vec(), fine: fine.to_vec() };
            }
            self.count(block.planes())?;
        }
        let spec = &self.header.spec;
        let next = spec.coarse_at(spec.group_start(rows));
        self.file.get_mut().seek(SeekFrom::Start(next)).map_err(Error::io("seek in", &self.path))?;
        Ok(())
    }

    /// Adds coded rows.
    fn add(&mut self, planes: Planes<'_>) -> Result<()> {
        self.put(planes).map_err(Error::io("write", &self.path))?;
        self.count(planes)
    }

    /// Writes rows, or keeps them until their group is full.
    fn put(&mut self, Planes { coarse, fine }: Planes<'_>) -> io::Result<()> {
        let spec = &self.header.spec;
        let (coarse_bytes, fine_bytes) = (spec.coarse_bytes(), spec.fine_bytes());
        if fine_bytes == 0 {
            return self.file.write_all(coarse);
        }
        for (coarse, fine) in coarse.chunks_exact(coarse_bytes).zip(fine.chunks_exact(fine_bytes)) {
            self.group.coarse.extend_from_slice(coarse);
            self.group.fine.extend_from_slice(fine);
            if self.group.fine.len() as u64 == GROUP_ROWS * fine_bytes as u64 {
                self.file.write_all(&self.group.coarse)?;
                self.file.write_all(&self.group.fine)?;
                self.group.coarse.clear();
                self.group.fine.clear();
            }
        }
        Ok(())
    }

    /// Writes the rows of a group that is not full to their places, and goes back to its start.
    fn put_group(&mut self) -> io::Result<()> {
        if self.group.fine.is_empty() {
            return Ok(());
        }
        let spec = &self.header.spec;
        let start = spec.coarse_at(spec.group_start(self.header.rows));
        let missing =
            (spec.fine_at(self.header.rows) - start) as usize - self.group.coarse.len() - self.group.fine.len();
        self.file.write_all(&self.group.coarse)?;
        self.file.write_all(&vec![0; missing])?;
        self.file.write_all(&self.group.fine)?;
        self.file.seek(SeekFrom::Start(start))?;
        Ok(())
    }

    /// Counts coded rows that are in the file, or about to be.
    fn count(&mut self, planes: Planes<'_>) -> Result<()> {
        let Header { spec, rows, max_norm } = &mut self.header;
        let (coarse_bytes, fine_bytes) = (spec.coarse_bytes(), spec.fine_bytes());
        let mut vector = vec![0.0; spec.dimensions];
        for at in 0..planes.coarse.len() / coarse_bytes {
            let coarse = &planes.coarse[at * coarse_bytes..][..coarse_bytes];
            let fine = &planes.fine[at * fine_bytes..][..fine_bytes];
            Rows::new(spec, Planes { coarse, fine }).widen(&mut vector);
            let norm = dot::norm(&vector);
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
        let block = self.header.spec.encode(vectors.as_slice(), self.header.rows)?;
        self.add(block.planes())
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
        for start in rows.clone().step_by(GROUP_ROWS as usize) {
            let rows = start..rows.end.min(start + GROUP_ROWS);
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
            for run in from.runs(rows) {
                self.add(from.planes(run))?;
            }
        }
        Ok(())
    }

    /// Makes all rows so far durable and returns their number, for a later [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.put_group().and_then(|()| self.file.flush()).map_err(Error::io("write", &self.path))?;
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
