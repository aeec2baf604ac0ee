//! A few rows here and there, for one query.
//!
//! Touching a page of a mapped file makes it count as memory of the process, and the pages around it too. Of a file of
//! many gigabytes candidates would sooner or later map all. So rows of large files are read instead: a system call a
//! row, which costs less than the fault of a page that is mapped anew.

use super::{Block, Matrix, Planes, Rows};
use crate::Result;

/// Rows that are read at most; more are mapped, and read on the way to all.
const MOST_READ: usize = 1 << 14;

/// Rows of a matrix by their place in a list.
pub(crate) struct Picked<'a> {
    matrix: &'a Matrix,
    rows: &'a [u64],
    /// Those of a large file; of the second plane only what [`widen`](Self::widen) read.
    read: Option<Block>,
}

impl Matrix {
    /// Makes `rows` ready for comparisons.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be read.
    pub(crate) fn pick<'a>(&'a self, rows: &'a [u64]) -> Result<Picked<'a>> {
        if !self.file.is_large() || rows.len() > MOST_READ {
            return Ok(Picked { matrix: self, rows, read: None });
        }
        let mut block = Block::zeros(self.spec(), rows.len());
        let [coarse, _] = block.planes_mut();
        for (row, bytes) in rows.iter().zip(coarse.chunks_exact_mut(self.spec().coarse_bytes())) {
            self.file.read_at(self.place(*row).start, bytes)?;
        }
        Ok(Picked { matrix: self, rows, read: Some(block) })
    }
}

impl Picked<'_> {
    /// The stored form of the row at this place; of its second plane only what was widened.
    pub fn stored(&self, at: usize) -> Rows<'_> {
        let spec = self.matrix.spec();
        match &self.read {
            None => self.matrix.stored(self.rows[at]..self.rows[at] + 1),
            Some(block) => {
                let (Planes { coarse, fine }, coarse_bytes, fine_bytes) =
                    (block.planes(), spec.coarse_bytes(), spec.fine_bytes());
                let coarse = &coarse[at * coarse_bytes..][..coarse_bytes];
                Rows::new(spec, Planes { coarse, fine: &fine[at * fine_bytes..][..fine_bytes] })
            }
        }
    }

    /// Writes the vector of the row at this place.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be read.
    pub fn widen(&mut self, at: usize, out: &mut [f32]) -> Result<()> {
        let bytes = self.matrix.spec().fine_bytes();
        if let Some(block) = &mut self.read
            && bytes > 0
        {
            let [_, fine] = block.planes_mut();
            let place = self.matrix.spec().fine_at(self.rows[at]) as usize;
            self.matrix.file.read_at(place, &mut fine[at * bytes..][..bytes])?;
        }
        self.stored(at).widen(out);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::{MatrixSpec, MatrixWriter};
    use super::*;
    use crate::{ElementType, Vectors};

    #[test]
    fn rows_that_are_read_are_those_that_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let values: Vec<f32> = (0..3000 * 20).map(|at| ((at * 7919) % 1009) as f32 / 1009.0 - 0.3).collect();
        for element_type in [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16] {
            let path = folder.path().join(element_type.to_string());
            let mut writer = MatrixWriter::create(&path, MatrixSpec::new(20, element_type)).unwrap();
            writer.append(&Vectors::new(20, values.clone()).unwrap()).unwrap();
            writer.finish().unwrap();
            let matrix = Matrix::open(&path).unwrap();
            let rows = [2999, 0, 1023, 1024, 1, 2047];
            let mut mapped = Picked { matrix: &matrix, rows: &rows, read: None };
            let mut read = matrix.pick(&rows).unwrap();
            assert!(read.read.is_some());
            let (mut one, mut other) = (vec![0.0; 20], vec![0.0; 20]);
            for (at, row) in rows.into_iter().enumerate() {
                assert_eq!(mapped.stored(at).bytes(), read.stored(at).bytes(), "{element_type}: row {row}");
                mapped.widen(at, &mut one).unwrap();
                read.widen(at, &mut other).unwrap();
                assert_eq!(one, other, "{element_type}: row {row}");
                assert_eq!(one, matrix.row(row));
            }
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_and_no_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        let mut writer = MatrixWriter::create(&path, MatrixSpec::new(20, ElementType::I16)).unwrap();
        writer.append(&Vectors::new(20, vec![0.5; 2000 * 20]).unwrap()).unwrap();
        writer.finish().unwrap();
        let matrix = Matrix::open(&path).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(20_000).unwrap();
        let error = matrix.pick(&[1, 1999]).err().unwrap();
        assert!(error.to_string().contains("vectors"), "{error}");
    }
}
