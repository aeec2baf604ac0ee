//! Inverted lists of faiss: whole vectors, each in the list of its cell, with their ids beside them.

use std::ops::ControlFlow;

use super::super::cursor::{Cursor, Extent};
use super::super::places::{TableOfIds, for_each_id};
use super::super::{Coding, Contents};
use super::{AGAIN, Header, index};
use crate::Result;

/// Bytes of a list's entry in a table of sizes.
const SIZE: u64 = 8;

pub(super) fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Contents> {
    let header = Header::read(cursor)?;
    let cells = cursor.u64("the number of lists")?;
    cursor.u64("the lists searched")?;
    // The centres of the cells.
    index(cursor, depth + 1)?;
    direct_map(cursor)?;

    let letters = cursor.take::<4>("the letters of inverted lists")?;
    if &letters != b"ilar" {
        return Err(cursor.refuse(
            "inverted lists in the file itself (`ilar`)".into(),
            format!("`{}`", letters.escape_ascii()),
            "lists in a file of their own are not read: read the index in faiss, and write its vectors to a `.npy` file",
        ));
    }
    let coding = Coding::F32;
    let row_bytes = coding.row_bytes(header.dimensions) as u64;
    let (lists, code_size) = (cursor.u64("the number of lists")?, cursor.u64("the size of a code")?);
    if (lists, code_size) != (cells, row_bytes) {
        return Err(cursor.refuse(
            format!("{cells} lists of codes of {row_bytes} bytes"),
            format!("{lists} lists of codes of {code_size} bytes"),
            AGAIN,
        ));
    }
    let sizes = sizes(cursor, lists)?;

    // Every list is passed before anything is allocated for its rows.
    let mut extents = Vec::new();
    let mut rows = 0_u64;
    for size in sizes.into_iter().filter(|size| *size > 0) {
        let codes = cursor.skip("the vectors of a list", size, row_bytes)?;
        let ids = Extent { offset: cursor.skip("the ids of a list", size, 8)?, count: size };
        extents.push((codes, ids));
        rows = rows.saturating_add(size);
    }
    if rows != header.rows {
        return Err(cursor.refuse(format!("{} rows in lists", header.rows), rows.to_string(), AGAIN));
    }
    let mut table = TableOfIds::new(rows);
    for (codes, ids) in extents {
        for_each_id(cursor, ids, |at, id| {
            table.put(id, codes + at * row_bytes);
            ControlFlow::Continue(())
        })?;
    }
    let Header { dimensions, comparison, .. } = header;
    let format = "faiss inverted lists (IwFl)".into();
    Ok(Contents { format, comparison, rows, dimensions, coding, places: table.finish(cursor)? })
}

/// Passes the table from ids to lists, where there is one.
fn direct_map(cursor: &mut Cursor<'_>) -> Result<()> {
    const WHAT: &str = "the map from ids to lists";
    let kind = cursor.u8(WHAT)?;
    cursor.vector(WHAT, 8)?;
    match kind {
        0 | 1 => Ok(()),
        2 => cursor.vector(WHAT, 16).map(|_| ()),
        other => Err(cursor.refuse("a map of kind 0, 1 or 2".into(), format!("kind {other}"), AGAIN)),
    }
}

/// The number of rows in each list that has any.
fn sizes(cursor: &mut Cursor<'_>, lists: u64) -> Result<Vec<u64>> {
    const WHAT: &str = "sizes of lists";
    let letters = cursor.take::<4>(WHAT)?;
    let found = cursor.vector(WHAT, SIZE)?;
    // One number for each list, or pairs of a list and its size.
    let (count, every) = match &letters {
        b"full" => (Some(lists), 1),
        b"sprs" => (found.count.is_multiple_of(2).then_some(found.count), 2),
        _ => {
            return Err(cursor.refuse("`full` or `sprs`".into(), format!("`{}`", letters.escape_ascii()), AGAIN));
        }
    };
    if count != Some(found.count) {
        return Err(cursor.refuse(format!("{lists} {WHAT}"), found.count.to_string(), AGAIN));
    }
    let (mut sizes, mut numbers) = (Vec::new(), 0_u64);
    for_each_id(cursor, found, |_, size| {
        numbers += 1;
        if numbers.is_multiple_of(every) {
            sizes.push(size as u64);
        }
        ControlFlow::Continue(())
    })?;
    Ok(sizes)
}
