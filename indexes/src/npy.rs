//! Two-dimensional `f32` arrays in NumPy's `.npy` format, version 1.0 (NumPy Enhancement Proposal 1).

use std::io::{Read, Write};
use std::path::Path;

use crate::{Error, Result, Vectors, WholeFile};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Writes vectors under a temporary name and renames them to `path`, so that no partial file ever bears it.
///
/// # Errors
/// [`Error::Io`] when the folder or the disk refuses.
pub fn write_npy(path: &Path, vectors: &Vectors) -> Result<()> {
    let shape = format!("({}, {})", vectors.len(), vectors.dimensions());
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    // The data must begin at a multiple of 64: magic, version, length, header, line end.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = WholeFile::create(path)?;
    let mut write = || -> std::io::Result<()> {
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for values in vectors.as_slice().chunks(4096) {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            file.write_all(&bytes)?;
        }
        Ok(())
    };
    write().map_err(Error::io("write", path))?;
    file.publish()
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
