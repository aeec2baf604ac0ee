//! Rows of vectors in a file: written once in order, then mapped into memory.
//!
//! The bytes are specified in FORMAT.md, section `vectors`. Whatever the element type, a stored row *is* the `f32`
//! vector that [`Matrix::widen`] gives; all scores are defined on that vector.

mod block;
mod encode;
mod header;
mod picked;
mod places;
mod rows;
mod writer;

use std::ops::Range;
use std::path::Path;

use crate::{Access, ElementType, Error, Interrupt, MappedFile, Result, Vectors, dot};

pub(crate) use block::Block;
use header::Header;
pub use header::MatrixSpec;
pub(crate) use places::Planes;
pub(crate) use rows::{Rows, f16_value, i8_value, split_scale};
pub use writer::MatrixWriter;

/// Rows that a mean is taken from, at most.
const MEAN_ROWS: u64 = 1 << 16;

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
    /// are coded about a mean, also that of the mean, added and taken away again. Of rows in two planes it is that of
    /// whole rows; `dot::reach` covers what the first plane alone may be larger.
    pub(crate) fn sum_bound(&self) -> f64 {
        f64::from(self.max_norm()) + 2.0 * dot::norm(&self.header.spec.mean)
    }

    /// Bytes that a scan of all rows reads: of rows in two planes, those of the first.
    pub fn scanned_bytes(&self) -> u64 {
        self.rows() * self.header.spec.coarse_bytes() as u64
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
        assert_eq!(out.len() as u64, (rows.end - rows.start) * self.dimensions() as u64, "values of rows {rows:?}");
        let mut rest = out;
        for run in self.runs(rows) {
            let (out, after) = rest.split_at_mut((run.end - run.start) as usize * self.dimensions());
            self.stored(run).widen(out);
            rest = after;
        }
    }

    /// The mean of rows evenly spread over the matrix.
    pub(crate) fn mean(&self, interrupt: &Interrupt) -> Result<Vec<f32>> {
        let mut sums = vec![0f64; self.dimensions()];
        let (mut vector, mut count) = (vec![0.0; self.dimensions()], 0f64);
        for row in self.spread(MEAN_ROWS) {
            interrupt.check()?;
            self.widen(row..row + 1, &mut vector);
            sums.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += f64::from(*x));
            count += 1.0;
        }
        Ok(sums.iter().map(|sum| (sum / count.max(1.0)) as f32).collect())
    }

    /// Up to `most` rows, evenly spread.
    pub(crate) fn spread(&self, most: u64) -> impl Iterator<Item = u64> + use<> {
        (0..self.rows()).step_by(usize::try_from(self.rows().div_ceil(most).max(1)).unwrap_or(usize::MAX))
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

    /// The parts of `rows` that are each stored without a gap, as [`stored`](Self::stored) needs them.
    pub(crate) fn runs(&self, rows: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        self.header.spec.runs(rows)
    }

    /// The stored form of `rows`, which are one run.
    pub(crate) fn stored(&self, rows: Range<u64>) -> Rows<'_> {
        Rows::new(&self.header.spec, self.planes(rows))
    }

    /// The bytes of `rows`, which are one run.
    fn planes(&self, rows: Range<u64>) -> Planes<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        let spec = &self.header.spec;
        let count = (rows.end - rows.start) as usize;
        debug_assert!(spec.runs(rows.clone()).count() <= 1, "rows {rows:?} are not one run");
        // The header's check proved that the end of the last row is a length that memory can have.
        let bytes = |at: u64, row_bytes: usize| &self.file.as_ref()[at as usize..][..count * row_bytes];
        let fine =
            if spec.fine_bytes() > 0 && count > 0 { bytes(spec.fine_at(rows.start), spec.fine_bytes()) } else { &[] };
        Planes { coarse: bytes(spec.coarse_at(rows.start), spec.coarse_bytes()), fine }
    }

    /// Where the first plane of `row` is in the file.
    pub(crate) fn place(&self, row: u64) -> Range<usize> {
        let start = self.header.spec.coarse_at(row) as usize;
        start..start + self.header.spec.coarse_bytes()
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
