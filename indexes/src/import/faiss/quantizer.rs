//! The scalar quantiser of faiss.

use super::super::coding::ByteRange;
use super::super::cursor::Cursor;
use super::super::{Coding, Contents, Places};
use super::{AGAIN, Header};
use crate::Result;

pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Contents> {
    const WHAT: &str = "the header of a scalar quantiser";
    let Header { dimensions, rows, comparison } = Header::read(cursor)?;
    let kind = cursor.i32(WHAT)?;
    // How ranges were estimated.
    cursor.take::<8>(WHAT)?;
    let (own, code_size) = (cursor.u64(WHAT)?, cursor.u64(WHAT)?);
    let trained = cursor.vector("trained values", 4)?;
    let ranges = match kind {
        0 => 2 * dimensions as u64,
        2 => 2,
        _ => 0,
    };
    let (name, coding) = match kind {
        4 => ("fp16", Coding::F16),
        7 => ("bf16", Coding::Bf16),
        0 | 2 if trained.count != ranges => {
            return Err(cursor.refuse(format!("{ranges} trained values"), trained.count.to_string(), AGAIN));
        }
        0 | 2 => {
            // The lowest value of each dimension, or of all, then the widths.
            let values = cursor.f32s(trained.offset, ranges as usize)?;
            let (lows, widths) = values.split_at(values.len() / 2);
            let ranges = lows.iter().zip(widths).map(|(low, width)| ByteRange { low: *low, width: *width });
            (
                if kind == 0 { "8 bit" } else { "8 bit, one range" },
                Coding::Bytes(ranges.cycle().take(dimensions).collect()),
            )
        }
        other => {
            return Err(cursor.refuse(
                "a scalar quantiser of fp16, bf16 or 8 bit".into(),
                kind_name(other),
                "import the vectors that it was made from: so few bits are too coarse to make another index from",
            ));
        }
    };
    let expected = coding.row_bytes(dimensions) as u64;
    if (own, code_size) != (dimensions as u64, expected) {
        return Err(cursor.refuse(
            format!("{dimensions} values in {expected} bytes"),
            format!("{own} values in {code_size} bytes"),
            AGAIN,
        ));
    }
    let bytes = u128::from(rows) * u128::from(expected);
    let found = cursor.u64("the number of bytes of codes")?;
    if u128::from(found) != bytes {
        return Err(cursor.refuse(
            format!("{bytes} bytes of codes, {rows} rows of {expected}"),
            found.to_string(),
            AGAIN,
        ));
    }
    let offset = cursor.skip("codes", found, 1)?;
    let format = format!("faiss scalar quantiser (IxSQ, {name})");
    Ok(Contents { format, comparison, rows, dimensions, coding, places: Places::InOrder(offset) })
}

fn kind_name(kind: i32) -> String {
    const NAMES: [&str; 9] = [
        "8 bit",
        "4 bit",
        "8 bit, one range",
        "4 bit, one range",
        "fp16",
        "8 bit direct",
        "6 bit",
        "bf16",
        "8 bit signed",
    ];
    match usize::try_from(kind).ok().and_then(|kind| NAMES.get(kind)) {
        Some(name) => (*name).to_owned(),
        None => format!("kind {kind}"),
    }
}
