//! How are sequences read for what comes after some of their tokens, and the beginning that siblings share only once?

use candle_core::Tensor;

use super::cache::{Cache, Reading, go_on};
use crate::Result;
use crate::decoder::Decoder;

/// A sequence, and the places after which predictions are wanted: one at least, in order.
#[derive(Debug, Clone)]
pub(crate) struct Sequence<'a> {
    pub tokens: &'a [u32],
    pub rows: Vec<usize>,
}

impl Sequence<'_> {
    /// Tokens that are read: what comes behind the last row is not.
    pub fn length(&self) -> usize {
        self.rows.last().map_or(0, |last| last + 1)
    }
}

/// Sequences that follow each other and begin with the same tokens.
struct Family {
    first: usize,
    count: usize,
    /// Tokens that they share, before any row that is wanted.
    shared: usize,
}

/// `[rows, hidden]`: the last hidden states of all rows, sequence by sequence. No graph is kept. Where sequences that follow each other
/// begin alike, that is read once; the numbers are those of [`Decoder::forward`].
///
/// # Errors
/// Those of the tensors.
pub(crate) fn hidden_states(decoder: &Decoder, sequences: &[Sequence<'_>]) -> Result<Tensor> {
    let families = families(sequences);
    let mut shared: Vec<Cache> = families.iter().map(|_| Cache::new(decoder)).collect();
    let mut begins: Vec<Reading<'_>> = families
        .iter()
        .zip(&mut shared)
        .filter(|(family, _)| family.shared > 0)
        .map(|(family, cache)| Reading { cache, tokens: sequences[family.first].tokens[..family.shared].to_vec() })
        .collect();
    if !begins.is_empty() {
        go_on(decoder, &mut begins)?;
        for Reading { cache, tokens } in &mut begins {
            cache.tokens.append(tokens);
        }
    }
    let mut caches = Vec::with_capacity(sequences.len());
    for (family, cache) in families.iter().zip(&shared) {
        // The last of a family takes what was read; most have one.
        caches.extend((0..family.count).map(|_| cache.prefix(family.shared)));
    }
    let (mut rows, mut first) = (Vec::new(), 0);
    let mut readings = Vec::with_capacity(sequences.len());
    for (sequence, cache) in sequences.iter().zip(&mut caches) {
        let before = cache.tokens.len();
        rows.extend(sequence.rows.iter().map(|row| (first + row - before) as u32));
        first += sequence.length() - before;
        readings.push(Reading { cache, tokens: sequence.tokens[before..sequence.length()].to_vec() });
    }
    let x = go_on(decoder, &mut readings)?;
    decoder.finish(&x, &rows)
}

fn families(sequences: &[Sequence<'_>]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for (number, sequence) in sequences.iter().enumerate() {
        let own = sequence.rows.first().copied().unwrap_or(0);
        if let Some(family) = families.last_mut() {
            let begin = &sequences[family.first].tokens[..family.shared];
            let common = begin.iter().zip(sequence.tokens).take_while(|(a, b)| a == b).count().min(own);
            // To lose more of what the others share than this one gains would not pay.
            if common > 0 && common * (family.count + 1) > family.shared * family.count {
                (family.shared, family.count) = (common, family.count + 1);
                continue;
            }
        }
        families.push(Family { first: number, count: 1, shared: own });
    }
    for family in families.iter_mut().filter(|family| family.count == 1) {
        family.shared = 0;
    }
    families
}
