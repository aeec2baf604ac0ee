//! Some rows of a matrix: the tokens whose predictions are wanted.

use candle_core::Result;

use super::tape::{Tape, Value};
use super::tensor::{tensor, view};

/// Rows `rows` of `x`, in their order; each is named once at most.
///
/// # Errors
/// Those of the tensors; rows that are not there.
pub fn select_rows(tape: &Tape, x: &Value, rows: &[u32]) -> Result<Value> {
    let (count, width) = x.tensor.dims2()?;
    if let Some(wrong) = rows.iter().find(|row| **row as usize >= count) {
        candle_core::bail!("row {wrong} is not one of {count}")
    }
    let place = move |row: u32| row as usize * width..(row as usize + 1) * width;
    let values = view(&x.tensor)?;
    let out: Vec<f32> = rows.iter().flat_map(|row| values[place(*row)].iter().copied()).collect();
    Ok(tape.push(&[x], false, tensor(out, (rows.len(), width))?, || {
        let rows = rows.to_vec();
        Box::new(move |gradient| {
            let gradient = view(gradient)?;
            let mut out = vec![0.0; count * width];
            for (row, gradient) in rows.into_iter().zip(gradient.chunks_exact(width)) {
                out[place(row)].copy_from_slice(gradient);
            }
            Ok(vec![Some(tensor(out, (count, width))?)])
        })
    }))
}
