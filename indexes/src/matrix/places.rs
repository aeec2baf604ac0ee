//! Where is each row in the file?
//!
//! Most element types put a whole row after the other. Those with two planes have groups of [`GROUP_ROWS`] rows: what
//! every search reads of each of them, then the rest of each of them.

use std::ops::Range;

use super::MatrixSpec;
use crate::ElementType;
use crate::bytes::PAGE;

/// Rows of a group: with any number of values that four divides, both its parts are whole pages.
pub(super) const GROUP_ROWS: u64 = 1024;

/// The stored bytes of rows, plane by plane.
#[derive(Clone, Copy)]
pub(crate) struct Planes<'a> {
    /// What every search reads: whole rows, where there is no second plane.
    pub coarse: &'a [u8],
    /// The rest of the rows that matter; empty where there is no second plane.
    pub fine: &'a [u8],
}

impl MatrixSpec {
    /// Bytes of a stored row, in all planes.
    pub fn row_bytes(&self) -> usize {
        self.coarse_bytes() + self.fine_bytes()
    }

    /// Bytes of a row in the first plane; where rows are coded about a mean they begin with their scale.
    pub(crate) fn coarse_bytes(&self) -> usize {
        let scale = if self.element_type.is_centred() { size_of::<f32>() } else { 0 };
        scale + self.dimensions * self.element_type.bytes() - self.fine_bytes()
    }

    /// Bytes of a row in the second plane; 0 if there is none.
    pub(crate) fn fine_bytes(&self) -> usize {
        if self.element_type == ElementType::I16 { self.dimensions } else { 0 }
    }

    /// Rows that stand together: a plane's bytes of one group are without a gap.
    fn group_rows(&self) -> u64 {
        if self.fine_bytes() > 0 { GROUP_ROWS } else { u64::MAX }
    }

    /// The parts of `rows` that lie in one group each.
    pub(super) fn runs(&self, rows: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let (group, mut start) = (self.group_rows(), rows.start);
        std::iter::from_fn(move || {
            let run = start..(start / group + 1).saturating_mul(group).min(rows.end);
            start = run.end;
            (run.start < run.end).then_some(run)
        })
    }

    /// The first row of the group that `row` is in, or `row` itself where rows have one plane.
    pub(super) fn group_start(&self, row: u64) -> u64 {
        if self.fine_bytes() > 0 { row - row % GROUP_ROWS } else { row }
    }

    /// Where the first row begins: after the header page and the mean.
    pub(super) fn data_offset(&self) -> usize {
        PAGE + (self.mean.len() * size_of::<f32>()).next_multiple_of(PAGE)
    }

    /// Where `row` begins in the first plane. It must be one that a file can have, or the next.
    pub(super) fn coarse_at(&self, row: u64) -> u64 {
        let start = self.group_start(row);
        let before = start * self.row_bytes() as u64 + (row - start) * self.coarse_bytes() as u64;
        self.data_offset() as u64 + before
    }

    /// Where `row` begins in the second plane.
    pub(super) fn fine_at(&self, row: u64) -> u64 {
        let start = self.group_start(row);
        self.coarse_at(start) + GROUP_ROWS * self.coarse_bytes() as u64 + (row - start) * self.fine_bytes() as u64
    }

    /// The length of a file of `rows` rows coded about a mean, where the element type needs one.
    pub(crate) fn length_of(&self, rows: u64) -> u64 {
        let checked = self.clone().checked().ok();
        checked.and_then(|spec| spec.file_length(rows)).unwrap_or(u64::MAX)
    }

    /// The length of a file of `rows` rows, if a file can have it. The last group has all of its first plane.
    pub(super) fn file_length(&self, rows: u64) -> Option<u64> {
        let places = if self.fine_bytes() > 0 { rows.checked_next_multiple_of(GROUP_ROWS)? } else { rows };
        let coarse = places.checked_mul(self.coarse_bytes() as u64)?;
        let fine = rows.checked_mul(self.fine_bytes() as u64)?;
        let length = coarse.checked_add(fine)?.checked_add(self.data_offset() as u64)?;
        i64::try_from(length).is_ok().then_some(length)
    }
}
