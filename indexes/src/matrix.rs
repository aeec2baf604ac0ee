//! Rows of vectors in a file: written once in order, then mapped into memory.
//!
//! The bytes are specified in FORMAT.md, section `vectors`. Whatever the element type, a stored row *is* the `f32`
//! vector that [`Matrix::widen`] gives; all scores are defined on that vector.

mod header;
mod rows;
mod writer;

use std::ops::Range;
use std::path::Path;

use crate::{Access, ElementType, Error, MappedFile, Result, Vectors, dot};

use header::Header;
pub use header::MatrixSpec;
pub(crate) use rows::{Rows, f16_value, i8_value, split_scale};
pub use writer::MatrixWriter;

/// A finished matrix file, mapped read-only.
#[derive(Debug)]
pub struct Matrix {
    file: MappedFile,
    header: Header,
}

impl Matrix {
    /// Maps the matrix at `path`; the cost does not depend on the number of rows. The header is checked by its
    /// checksum and the rows by the file's length; whether the rows are those once written, only a hash can tell.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`] or, for another format version, [`Error::Incompatible`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path, Access::Sequential)?;
        let header = Header::decode(path, file.as_ref())?;
        Ok(Self { file, header })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Values in a row.
    pub fn dimensions(&self) -> usize {
        self.header.spec.dimensions
    }

    /// How rows are coded.
    pub fn spec(&self) -> &MatrixSpec {
        &self.header.spec
    }

    /// How values are stored.
    pub fn element_type(&self) -> ElementType {
        self.header.spec.element_type
    }

    /// The largest norm of a row, rounded up.
    pub fn max_norm(&self) -> f32 {
        self.header.max_norm
    }

    /// What the norm of a query is multiplied with to bound the sums in a score: the largest norm, and where rows
    /// are coded about a mean, also that of the mean, added and taken away again.
    pub(crate) fn sum_bound(&self) -> f64 {
        f64::from(self.max_norm()) + 2.0 * dot::norm(&self.header.spec.mean)
    }

    /// Bytes of all rows.
    pub fn stored_bytes(&self) -> u64 {
        self.rows() * self.header.spec.row_bytes() as u64
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Tells the kernel how rows will be read from now on: [`Access::Sequential`] (the default) or
    /// [`Access::Random`].
    ///
    /// # Errors
    /// [`Error::Io`] when the kernel refuses the advice.
    pub fn advise(&self, access: Access) -> Result<()> {
        self.file.advise(access)
    }

    /// Writes the vectors of `rows` to `out`, row-major.
    ///
    /// # Panics
    /// When `rows` ends after the last row, or `out` is not as long as the rows' values.
    pub fn widen(&self, rows: Range<u64>, out: &mut [f32]) {
        self.stored(rows).widen(out);
    }

    /// One row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: u64) -> Vec<f32> {
        let mut out = vec![0.0; self.dimensions()];
        self.widen(row..row + 1, &mut out);
        out
    }

    /// The stored form of `rows`.
    pub(crate) fn stored(&self, rows: Range<u64>) -> Rows<'_> {
        Rows::new(&self.header.spec, self.bytes(rows))
    }

    /// The bytes of `rows`.
    fn bytes(&self, rows: Range<u64>) -> &[u8] {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        let spec = &self.header.spec;
        // The header's check proved that the end of the last row is a length that memory can have.
        let at = |row: u64| spec.data_offset() + row as usize * spec.row_bytes();
        &self.file.as_ref()[at(rows.start)..at(rows.end)]
    }

    /// Where `row` is in the file.
    pub(crate) fn place(&self, row: u64) -> Range<usize> {
        let spec = &self.header.spec;
        let start = spec.data_offset() + row as usize * spec.row_bytes();
        start..start + spec.row_bytes()
    }

    /// The file itself, for advice.
    pub(crate) fn file(&self) -> &MappedFile {
        &self.file
    }

    /// The error for a row whose stored values are not numbers.
    pub(crate) fn damaged(&self, row: u64) -> Error {
        Error::Corrupt {
            path: self.path().to_path_buf(),
            expected: "finite values".into(),
            found: format!("others in row {row}"),
        }
    }
}

/// `count` queries that are no rows of `matrix` and yet are like them: each a row with a quarter of another one.
///
/// # Errors
/// [`Error::InvalidInput`] for a matrix without rows.
pub fn mixed_rows(matrix: &Matrix, count: usize) -> Result<Vectors> {
    const OTHER: f32 = 0.25;
    let (mut values, mut random) = (Vec::with_capacity(count * matrix.dimensions()), 1_u64);
    // A linear congruential generator (Knuth, MMIX) is random enough to choose rows.
    let mut row = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(random) * u128::from(matrix.rows())) >> 64) as u64
    };
    if matrix.rows() == 0 {
        return Err(Error::InvalidInput {
            what: format!("`{}`", matrix.path().display()),
            expected: "rows to make queries of".into(),
            found: "none".into(),
        });
    }
    for _ in 0..count {
        let (one, other) = (matrix.row(row()), matrix.row(row()));
        values.extend(one.iter().zip(&other).map(|(x, y)| (1.0 - OTHER) * x + OTHER * y));
    }
    Vectors::new(matrix.dimensions(), values)
}
