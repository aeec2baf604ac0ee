//! NEON: look-ups of four coordinates by byte tables, 16 rows at once.

#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::table::LOOKUPS_OF_BYTE;
use super::{BLOCK, FACTOR_BYTES, Query, Sink, offer};

/// Registers of 16 rows in a block.
const QUARTERS: usize = BLOCK / 16;

pub fn scan(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    let bytes = queries[0].code_bytes();
    for (at, query) in queries.iter().enumerate() {
        for (number, block) in blocks.chunks_exact((bytes + FACTOR_BYTES) * BLOCK).enumerate() {
            let (codes, factors) = block.split_at(bytes * BLOCK);
            let mut sums = [0u16; BLOCK];
            for quarter in 0..QUARTERS {
                sum_quarter(codes, quarter, query, &mut sums);
            }
            offer(&sums, factors, query, at, number, sink);
        }
    }
}

/// The sums of 16 rows of a block.
#[inline]
fn sum_quarter(codes: &[u8], quarter: usize, query: &Query, sums: &mut [u16; BLOCK]) {
    let bytes = codes.len() / BLOCK;
    let tables = query.tables();
    assert!(tables.len() >= bytes * 32, "all tables");
    // SAFETY: NEON is part of the architecture. Each byte of a code has a column of 64 bytes and 32 bytes of tables,
    // and sixteen sums have room for two registers of eight.
    unsafe {
        let nibble = vdupq_n_u8(0x0f);
        let (mut low, mut high) = (vdupq_n_u16(0), vdupq_n_u16(0));
        let mut byte = 0;
        while byte < bytes {
            // Each byte of the code is two look-ups.
            let end = (byte + LOOKUPS_OF_BYTE / 2).min(bytes);
            let mut sums_8 = vdupq_n_u8(0);
            while byte < end {
                let column = vld1q_u8(codes.as_ptr().add(byte * BLOCK + quarter * 16));
                let table = tables.as_ptr().add(byte * 32);
                let first = vqtbl1q_u8(vld1q_u8(table), vandq_u8(column, nibble));
                let second = vqtbl1q_u8(vld1q_u8(table.add(16)), vshrq_n_u8::<4>(column));
                sums_8 = vaddq_u8(sums_8, vaddq_u8(first, second));
                byte += 1;
            }
            low = vaddw_u8(low, vget_low_u8(sums_8));
            high = vaddw_high_u8(high, sums_8);
        }
        vst1q_u16(sums.as_mut_ptr().add(quarter * 16), low);
        vst1q_u16(sums.as_mut_ptr().add(quarter * 16 + 8), high);
    }
}
