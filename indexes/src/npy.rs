//! Two-dimensional `f32` arrays in NumPy's `.npy` format, version 1.0 (NumPy Enhancement Proposal 1).

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result, Vectors, WholeFile};

const MAGIC: &[u8] = b"\x93NUMPY";

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
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}");
        // The data must begin at a multiple of 64: magic, version, length, header, line end.
        while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
            header.push(' ');
        }
        header.push('\n');
        let mut file = WholeFile::create(path)?;
        let start = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
        file.write_all(&start).map_err(Error::io("write", path))?;
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
        for values in values.chunks(4096) {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            self.file.write_all(&bytes).map_err(Error::io("write", &self.path))?;
        }
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

/// Reads a two-dimensional little-endian `f32` array in C order.
///
/// # Errors
/// [`Error::Corrupt`] for a file of another form: what was expected and what was found; [`Error::Io`].
pub fn read_npy(path: &Path) -> Result<Vectors> {
    let corrupt =
        |expected: &str, found: String| Error::Corrupt { path: path.into(), expected: expected.into(), found };
    let mut file = std::fs::File::open(path).map_err(Error::io("read", path))?;
    let mut start = [0; 10];
    file.read_exact(&mut start).map_err(|_| corrupt("a NumPy header", "a shorter file".into()))?;
    if !start.starts_with(MAGIC) || start[6] != 1 {
        return Err(corrupt("a NumPy file of version 1.0", format!("the bytes {:02x?}", &start[..8])));
    }
    let mut header = vec![0; usize::from(u16::from_le_bytes([start[8], start[9]]))];
    file.read_exact(&mut header).map_err(|_| corrupt("a whole header", "a shorter file".into()))?;
    let header = String::from_utf8_lossy(&header).into_owned();
    if !header.contains("'<f4'") || !header.contains("'fortran_order': False") {
        return Err(corrupt("little-endian f32 in C order", header.trim().to_owned()));
    }
    let shape: Option<(usize, usize)> = header
        .split_once("'shape': (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .and_then(|(shape, _)| shape.split_once(','))
        .and_then(|(rows, columns)| {
            Some((rows.trim().parse().ok()?, columns.trim().trim_end_matches(',').parse().ok()?))
        });
    let Some((rows, columns)) = shape else {
        return Err(corrupt("a shape of two numbers", header.trim().to_owned()));
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if rows.checked_mul(columns).and_then(|n| n.checked_mul(4)) != Some(bytes.len()) {
        return Err(corrupt(&format!("{rows} x {columns} values of 4 bytes"), format!("{} bytes", bytes.len())));
    }
    let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Vectors::new(columns, values)
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
            assert!(matches!(read_npy(&path), Err(Error::Corrupt { .. })), "cut at {length}");
        }
        Ok(())
    }
}
