//! Vectors in memory to and from NumPy's `.npy` files.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::import::npy::{MAGIC, header};
use crate::{Error, Result, VectorFile, Vectors, WholeFile};

/// Writes vectors under a temporary name and renames them to `path`, so that no partial file ever bears it.
///
/// # Errors
/// [`Error::Io`] when the folder or the disk refuses.
pub fn write_npy(path: &Path, vectors: &Vectors) -> Result<()> {
    let mut writer = NpyWriter::create(path, vectors.len() as u64, vectors.dimensions())?;
    writer.append(vectors.as_slice())?;
    writer.finish()
}

/// Writes vectors that need not be in memory together; the file gets its name when it is whole.
#[derive(Debug)]
pub struct NpyWriter {
    path: PathBuf,
    file: WholeFile,
    /// Values that are still to come.
    missing: u64,
}

impl NpyWriter {
    /// Begins a file for `rows` rows of `dimensions` values.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for more values than can be counted, [`Error::Io`] when the folder or the disk refuses.
    pub fn create(path: &Path, rows: u64, dimensions: usize) -> Result<Self> {
        let Some(missing) = rows.checked_mul(dimensions as u64) else {
            return Err(Error::InvalidInput {
                what: "rows of a NumPy file".into(),
                expected: "a number of values below 2^64".into(),
                found: format!("{rows} rows of {dimensions}"),
            });
        };
        let mut file = WholeFile::create(path)?;
        file.write_all(&header(rows, dimensions)).map_err(Error::io("write", path))?;
        Ok(Self { path: path.into(), file, missing })
    }

    /// Writes the next values, row-major.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for more values than the file was begun for, [`Error::Io`].
    pub fn append(&mut self, values: &[f32]) -> Result<()> {
        let Some(missing) = self.missing.checked_sub(values.len() as u64) else {
            return Err(self.unlike(format!("{} values more", values.len() as u64 - self.missing)));
        };
        self.missing = missing;
        write_values(&mut self.file, values).map_err(Error::io("write", &self.path))?;
        Ok(())
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when values are missing, [`Error::Io`].
    pub fn finish(self) -> Result<()> {
        if self.missing > 0 {
            return Err(self.unlike(format!("{} values fewer", self.missing)));
        }
        self.file.publish()
    }

    fn unlike(&self, found: String) -> Error {
        let what = format!("values for `{}`", self.path.display());
        Error::InvalidInput { what, expected: "as many as the file was begun for".into(), found }
    }
}

/// Writes values as little-endian `f32`.
pub(crate) fn write_values(out: &mut impl Write, values: &[f32]) -> std::io::Result<()> {
    for values in values.chunks(4096) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Reads a two-dimensional little-endian array of `f32` or half precision in C order.
///
/// # Errors
/// [`Error::Incompatible`] for a file of another form: what was expected and what was found; [`Error::Io`].
pub fn read_npy(path: &Path) -> Result<Vectors> {
    let mut start = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    match read {
        Ok(()) if start == MAGIC => {}
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(Error::io("read", path)(error)),
        _ => {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: "a NumPy array".into(),
                found: "other bytes".into(),
                remedy: "save it with `numpy.save`".into(),
            });
        }
    }
    let file = VectorFile::open(&[path.to_path_buf()], 0)?;
    file.read(0..file.rows())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::io("make", "a folder"))?;
        let path = folder.path().join("x.npy");
        let vectors = Vectors::new(3, (0..12).map(|x| x as f32 * 0.1).collect())?;
        write_npy(&path, &vectors)?;
        assert_eq!(read_npy(&path)?, vectors);
        Ok(())
    }

    #[test]
    fn a_file_is_written_by_parts_and_gets_its_name_only_when_all_are_there() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::io("make", "a folder"))?;
        let path = folder.path().join("x.npy");
        let mut short = NpyWriter::create(&path, 2, 3)?;
        short.append(&[1.0; 3])?;
        assert!(matches!(short.finish(), Err(Error::InvalidInput { .. })) && !path.exists());
        let mut whole = NpyWriter::create(&path, 2, 3)?;
        whole.append(&[1.0; 4])?;
        assert!(matches!(whole.append(&[1.0; 3]), Err(Error::InvalidInput { .. })));
        whole.append(&[2.0; 2])?;
        whole.finish()?;
        assert_eq!(read_npy(&path)?, Vectors::new(3, vec![1.0, 1.0, 1.0, 1.0, 2.0, 2.0])?);
        Ok(())
    }

    #[test]
    fn damage_is_named_and_never_a_panic() -> Result<()> {
        let folder = tempfile::tempdir().map_err(Error::io("make", "a folder"))?;
        let path = folder.path().join("x.npy");
        write_npy(&path, &Vectors::new(2, vec![1.0; 8])?)?;
        let whole = std::fs::read(&path).map_err(Error::io("read", &path))?;
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).map_err(Error::io("write", &path))?;
            assert!(matches!(read_npy(&path), Err(Error::Incompatible { .. })), "cut at {length}");
        }
        Ok(())
    }
}
