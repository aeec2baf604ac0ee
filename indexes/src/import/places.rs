//! Where does a file that orders its rows by an id keep each of them?

use std::ops::ControlFlow;

use super::cursor::{Cursor, Extent};
use super::{BUFFER, Coding};
use crate::Result;

/// Where rows begin in a file.
#[derive(Debug)]
pub(super) enum Places {
    /// One after the other from this byte on.
    InOrder(u64),
    /// Each at its own place.
    Table(Vec<u64>),
}

/// A place that no row has.
const NOWHERE: u64 = u64::MAX;

impl Places {
    fn of(&self, row: u64, row_bytes: u64) -> u64 {
        match self {
            Self::InOrder(start) => start + row * row_bytes,
            Self::Table(table) => table.get(row as usize).copied().unwrap_or(NOWHERE),
        }
    }

    /// The places by id: the vector at place `i` belongs to the row that `ids` names there.
    pub fn renamed(self, cursor: &Cursor<'_>, ids: Extent, coding: &Coding, dimensions: usize) -> Result<Self> {
        // Most maps say nothing: row i is i.
        let mut same = true;
        for_each_id(cursor, ids, |at, id| {
            same = u64::try_from(id).ok() == Some(at);
            if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if same {
            return Ok(self);
        }
        let row_bytes = coding.row_bytes(dimensions) as u64;
        let mut table = TableOfIds::new(ids.count);
        for_each_id(cursor, ids, |at, id| {
            table.put(id, self.of(at, row_bytes));
            ControlFlow::Continue(())
        })?;
        table.finish(cursor)
    }
}

/// A table under construction. The caller has checked that the file holds as many rows.
pub(super) struct TableOfIds {
    table: Vec<u64>,
    least: i64,
    greatest: i64,
    strangers: u64,
    twice: u64,
}

impl TableOfIds {
    pub fn new(rows: u64) -> Self {
        Self { table: vec![NOWHERE; rows as usize], least: i64::MAX, greatest: i64::MIN, strangers: 0, twice: 0 }
    }

    pub fn put(&mut self, id: i64, place: u64) {
        (self.least, self.greatest) = (self.least.min(id), self.greatest.max(id));
        match usize::try_from(id).ok().and_then(|id| self.table.get_mut(id)) {
            Some(slot) if *slot == NOWHERE => *slot = place,
            Some(_) => self.twice += 1,
            None => self.strangers += 1,
        }
    }

    /// The table, if every row has exactly one place.
    pub fn finish(self, cursor: &Cursor<'_>) -> Result<Places> {
        if self.strangers == 0 && self.twice == 0 {
            return Ok(Places::Table(self.table));
        }
        let rows = self.table.len();
        Err(cursor.refuse(
            format!("the ids of {rows} passages, 0 to {}, each once", rows.saturating_sub(1)),
            format!(
                "ids from {} to {}: {} outside of these, {} more than once",
                self.least, self.greatest, self.strangers, self.twice
            ),
            "ids must be the passages' rows in the corpus: write the vectors in corpus order (`index.reconstruct_batch` \
             takes ids) to a `.npy` file and import that",
        ))
    }
}

/// Reads ids a buffer at a time; stops where `put` breaks.
pub(super) fn for_each_id(
    cursor: &Cursor<'_>,
    ids: Extent,
    mut put: impl FnMut(u64, i64) -> ControlFlow<()>,
) -> Result<()> {
    const SIZE: usize = size_of::<i64>();
    let at_once = BUFFER / SIZE;
    let mut buffer = vec![0; SIZE * at_once.min(ids.count as usize)];
    let mut done = 0;
    while done < ids.count {
        let now = (ids.count - done).min(at_once as u64);
        let bytes = &mut buffer[..now as usize * SIZE];
        cursor.parts().read_at(ids.offset + done * SIZE as u64, bytes)?;
        for (at, id) in (done..).zip(bytes.as_chunks().0) {
            if put(at, i64::from_le_bytes(*id)).is_break() {
                return Ok(());
            }
        }
        done += now;
    }
    Ok(())
}
