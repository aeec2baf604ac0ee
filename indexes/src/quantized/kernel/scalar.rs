//! The definition of an estimate, one row after the other.

use super::{BLOCK, FACTOR_BYTES, Query, Sink, offer};

pub fn scan(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    let bytes = queries[0].code_bytes();
    for (number, block) in blocks.chunks_exact((bytes + FACTOR_BYTES) * BLOCK).enumerate() {
        let (codes, factors) = block.split_at(bytes * BLOCK);
        for (at, query) in queries.iter().enumerate() {
            let mut sums = [query.bias(); BLOCK];
            for (column, weights) in codes.chunks_exact(BLOCK).zip(query.weights().chunks_exact(8)) {
                for (sum, byte) in sums.iter_mut().zip(column) {
                    for (bit, weight) in weights.iter().enumerate() {
                        *sum = sum.wrapping_add_signed(i16::from(byte >> bit & 1) * weight);
                    }
                }
            }
            offer(&sums, factors, query, at, number, sink);
        }
    }
}
