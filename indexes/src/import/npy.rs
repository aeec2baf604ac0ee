//! The header of NumPy's `.npy` files, versions 1 to 3 (NumPy Enhancement Proposal 1).

use super::cursor::Cursor;
use super::{Coding, Comparison, Contents, MAX_DIMENSIONS, Places};
use crate::Result;

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes of a header, at most: that of a plain array has about a hundred.
const LONGEST: u64 = 1 << 16;
const SAVE: &str = "save it again: `numpy.save(path, numpy.ascontiguousarray(x, dtype='<f4'))`";

/// The bytes before the values of `rows` x `dimensions` `f32` values in C order.
pub(crate) fn header(rows: u64, dimensions: usize) -> Vec<u8> {
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}");
    // The data must begin at a multiple of 64: magic, version, length, header, line end.
    while !(MAGIC.len() + 4 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// Reads a file that begins with [`MAGIC`].
pub(super) fn contents(mut cursor: Cursor<'_>) -> Result<Contents> {
    let [.., major, _] = cursor.take::<8>("a NumPy header")?;
    let length = match major {
        1 => u64::from(u16::from_le_bytes(cursor.take("a NumPy header")?)),
        2 | 3 => u64::from(u32::from_le_bytes(cursor.take("a NumPy header")?)),
        other => return Err(cursor.refuse("`.npy` version 1, 2 or 3".into(), format!("version {other}"), SAVE)),
    };
    if length > LONGEST {
        return Err(cursor.refuse(format!("a NumPy header of at most {LONGEST} bytes"), format!("{length}"), SAVE));
    }
    let start = cursor.skip("a NumPy header", length, 1)?;
    let mut text = vec![0; length as usize];
    cursor.parts().read_at(start, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let Some(array) = Array::parse(&text) else {
        return Err(cursor.refuse("a NumPy header of one array".into(), shown(&text), SAVE));
    };
    let coding = match (array.kind, array.fortran) {
        ("<f4", false) => Coding::F32,
        ("<f2", false) => Coding::F16,
        _ => return Err(cursor.refuse("`<f4` or `<f2` values in C order".into(), shown(&text), SAVE)),
    };
    let &[rows, dimensions] = array.shape.as_slice() else {
        return Err(cursor.refuse("an array of two dimensions".into(), shown(&text), SAVE));
    };
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(cursor.refuse(format!("1 to {MAX_DIMENSIONS} values a row"), dimensions.to_string(), SAVE));
    }
    let what = format!("{rows} rows of {dimensions} values");
    let offset = cursor.skip(&what, rows, dimensions * coding.value_bytes())?;
    cursor.finish()?;
    Ok(Contents {
        format: format!("NumPy array ({})", array.kind.trim_start_matches('<')),
        comparison: Comparison::InnerProduct,
        rows,
        dimensions: dimensions as usize,
        coding,
        places: Places::InOrder(offset),
    })
}

/// What the header's dictionary says.
struct Array<'a> {
    kind: &'a str,
    fortran: bool,
    shape: Vec<u64>,
}

impl<'a> Array<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let member = |name: &str| Some(text.split_once(&format!("'{name}':"))?.1.trim_start());
        let kind = member("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
        let fortran = match member("fortran_order")? {
            value if value.starts_with("False") => false,
            value if value.starts_with("True") => true,
            _ => return None,
        };
        let shape = member("shape")?.strip_prefix('(')?.split_once(')')?.0.trim_end_matches([',', ' ']);
        let shape = shape.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
        Some(Self { kind, fortran, shape })
    }
}

/// A header's text, fit for a message.
fn shown(text: &str) -> String {
    format!("`{}`", text.trim().chars().take(200).collect::<String>().escape_debug())
}
