//! How likely were other tokens than the chosen one? Log-probabilities at some tokens of the vocabulary, and their gradients.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::logprobs::{LOGIT_ROWS, Logprobs};
use super::placement::{is_host, to_host, widened};

/// Some tokens of the vocabulary for each row, as many for all. An id beyond the vocabulary stands for none.
#[derive(Debug, Clone, Copy)]
pub struct Others<'a> {
    /// `[rows, width]`.
    pub ids: &'a [u32],
    /// How many for each row; 1 at least.
    pub width: usize,
}

/// A loss's gradients of the log-probabilities of other tokens.
#[derive(Debug, Clone, Copy)]
pub struct OtherSlopes<'a> {
    /// Which tokens.
    pub others: Others<'a>,
    /// `[rows, width]`.
    pub slopes: &'a [f32],
}

/// Those of a row.
pub(super) struct RowSlopes<'a> {
    ids: &'a [u32],
    slopes: &'a [f32],
}

impl<'a> OtherSlopes<'a> {
    pub(super) fn of(&self, row: usize) -> RowSlopes<'a> {
        let place = row * self.others.width..(row + 1) * self.others.width;
        RowSlopes { ids: &self.others.ids[place.clone()], slopes: &self.slopes[place] }
    }

    /// Gradients of logits in which a row's target has the slopes of all of its tokens: each is given its own.
    pub(super) fn moved(&self, gradient: &Tensor, targets: &[u32], first: usize, sharpness: f32) -> Result<Tensor> {
        let (rows, vocabulary) = gradient.dims2()?;
        let width = self.others.width + 1;
        let (mut ids, mut values) = (Vec::with_capacity(rows * width), Vec::with_capacity(rows * width));
        for (row, target) in targets.iter().enumerate().skip(first).take(rows) {
            let there: Vec<(usize, f32)> = self.of(row).there(vocabulary).collect();
            let all: f32 = there.iter().map(|(_, slope)| slope).sum();
            let places = there.len();
            ids.extend(there.iter().map(|(id, _)| *id as u32).chain([*target]));
            values.extend(there.iter().map(|(_, slope)| slope * sharpness).chain([-all * sharpness]));
            // Nothing is added to the first token for those that are not there.
            ids.resize(ids.len() + width - 1 - places, 0);
            values.resize(values.len() + width - 1 - places, 0.0);
        }
        let device = gradient.device();
        let values = Tensor::from_vec(values, (rows, width), device)?.to_dtype(gradient.dtype())?;
        gradient.scatter_add(&Tensor::from_vec(ids, (rows, width), device)?, &values, 1)
    }
}

impl RowSlopes<'_> {
    pub(super) fn there(&self, vocabulary: usize) -> impl Iterator<Item = (usize, f32)> {
        let all = self.ids.iter().map(|id| *id as usize).zip(self.slopes.iter().copied());
        all.filter(move |(id, _)| *id < vocabulary)
    }
}

impl Logprobs {
    /// Log-probabilities of other tokens, `[rows, width]`; negative infinity where there is none.
    ///
    /// # Errors
    /// Those of the tensors; ids that are not `width` for each row.
    pub fn of(&self, others: Others<'_>) -> Result<Vec<f32>> {
        let Others { ids, width } = others;
        if ids.len() != self.targets.len() * width {
            candle_core::bail!("expected {} rows of {width} ids, found {} ids", self.targets.len(), ids.len())
        }
        let mut out = vec![f32::NEG_INFINITY; ids.len()];
        let is_asked = |row: usize| ids[row * width..(row + 1) * width].iter().any(|id| (*id as usize) < self.width());
        self.rows(&is_asked, |row, logits| {
            let read = |id: &u32| match logits.get(*id as usize) {
                Some(logit) => logit * self.sharpness - self.normalisers[row],
                None => f32::NEG_INFINITY,
            };
            ids[row * width..(row + 1) * width].iter().map(read).collect::<Vec<f32>>()
        })?
        .into_iter()
        .for_each(|(row, found)| out[row * width..(row + 1) * width].copy_from_slice(&found));
        Ok(out)
    }

    /// The likeliest `k` tokens of each row with an id below `below`, likeliest first and ties by id, or fewer where there are not as many.
    ///
    /// # Errors
    /// Those of the tensors.
    pub fn likeliest(&self, k: usize, below: usize) -> Result<Vec<Vec<u32>>> {
        let found = self.rows(&|_| true, |_, logits| likeliest(&logits[..below.min(logits.len())], k))?;
        Ok(found.into_iter().map(|(_, ids)| ids).collect())
    }

    /// Tokens of the vocabulary.
    fn width(&self) -> usize {
        self.head.value().dim(0).unwrap_or(0)
    }

    /// Reads the logits of rows, in the order of these.
    fn rows<T: Send>(
        &self,
        wanted: &(dyn Fn(usize) -> bool + Sync),
        read: impl Fn(usize, &[f32]) -> T + Sync,
    ) -> Result<Vec<(usize, T)>> {
        let (count, vocabulary) = (self.targets.len(), self.width());
        let (mut all, mut spare) = (Vec::new(), Vec::new());
        for first in (0..count).step_by(LOGIT_ROWS) {
            if !(first..count.min(first + LOGIT_ROWS)).any(wanted) {
                continue;
            }
            let logits = self.block_on_host(first, std::mem::take(&mut spare))?;
            let rows = logits.par_chunks_exact(vocabulary).enumerate().map(|(row, logits)| (first + row, logits));
            all.par_extend(rows.filter(|(row, _)| wanted(*row)).map(|(row, logits)| (row, read(row, logits))));
            spare = if is_host(&self.hidden) { self.keep(first, logits) } else { logits };
        }
        Ok(all)
    }

    fn block_on_host(&self, first: usize, spare: Vec<f32>) -> Result<Vec<f32>> {
        if is_host(&self.hidden) {
            return self.block(first, spare);
        }
        to_host(&self.part(first, &widened(self.head.value())?)?.logits.flatten_all()?)
    }
}

/// Places of the greatest `k`, greatest first, ties by place.
fn likeliest(logits: &[f32], k: usize) -> Vec<u32> {
    let mut places: Vec<u32> = (0..logits.len() as u32).collect();
    let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if k < places.len() {
        places.select_nth_unstable_by(k, order);
        places.truncate(k);
    }
    places.sort_unstable_by(order);
    places
}
