//! Token vectors to one vector a text.

use super::card::Pooling;
use super::encoder::{Batch, Hidden};
use crate::{Error, Result};

/// Pools the hidden states of `batch` and scales each vector to unit length if `normalize`. Gives rows x dimensions.
///
/// # Errors
/// [`Error::Runtime`] when a vector is not finite or has no direction.
pub fn pool(hidden: Hidden, batch: &Batch, pooling: Pooling, normalize: bool) -> Result<Vec<f32>> {
    let Hidden { data, dimensions, pooled } = hidden;
    let mut vectors = if pooled {
        data
    } else {
        let rows = data.chunks_exact(batch.length * dimensions).zip(batch.mask.chunks_exact(batch.length));
        match pooling {
            Pooling::Cls => rows.flat_map(|(tokens, _)| tokens[..dimensions].iter().copied()).collect(),
            Pooling::Mean => rows.flat_map(|(tokens, mask)| mean(tokens, mask, dimensions)).collect(),
        }
    };
    for vector in vectors.chunks_exact_mut(dimensions) {
        let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if !norm.is_finite() {
            return Err(useless("a vector with NaN or infinity".into()));
        }
        if normalize {
            if norm == 0.0 {
                return Err(useless("a vector of zeros".into()));
            }
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        }
    }
    Ok(vectors)
}

/// The mean over the tokens that the mask keeps.
fn mean(tokens: &[f32], mask: &[i64], dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0f32; dimensions];
    let kept = tokens.chunks_exact(dimensions).zip(mask).filter(|(_, mask)| **mask != 0);
    for (token, _) in kept {
        sum.iter_mut().zip(token).for_each(|(sum, x)| *sum += x);
    }
    let count = mask.iter().filter(|mask| **mask != 0).count().max(1) as f32;
    sum.iter_mut().for_each(|x| *x /= count);
    sum
}

fn useless(message: String) -> Error {
    Error::Runtime { runtime: "the model", action: "give usable vectors", message }
}
