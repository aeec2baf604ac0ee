//! Some rows of a matrix: the tokens whose predictions are wanted.

use candle_core::{Result, Tensor};

use super::placement::is_host;
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
    if !is_host(&x.tensor) {
        let rows = Tensor::from_slice(rows, rows.len(), x.tensor.device())?;
        return Ok(tape.push(&[x], false, x.tensor.index_select(&rows, 0)?, || {
            Box::new(move |gradient| {
                let nothing = Tensor::zeros((count, width), gradient.dtype(), gradient.device())?;
                Ok(vec![Some(nothing.index_add(&rows, gradient, 0)?)])
            })
        }));
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
