//! Vectors in memory to and from NumPy's `.npy` files.

use std::io::Write;
use std::path::Path;

use crate::import::npy::{MAGIC, header};
use crate::{Error, Result, VectorFile, Vectors, WholeFile};

/// Writes vectors under a temporary name and renames them to `path`, so that no partial file ever bears it.
///
/// # Errors
/// [`Error::Io`] when the folder or the disk refuses.
pub fn write_npy(path: &Path, vectors: &Vectors) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(&header(vectors.len() as u64, vectors.dimensions())).map_err(Error::io("write", path))?;
    write_values(&mut file, vectors.as_slice()).map_err(Error::io("write", path))?;
    file.publish()
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
