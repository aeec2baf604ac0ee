//! AVX2: look-ups of four coordinates by byte shuffles, 32 rows at once.

#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "registers in arrays, several of them by the same number")]

use std::arch::x86_64::*;

use super::table::LOOKUPS_OF_BYTE;
use super::{BLOCK, FACTOR_BYTES, Query, Sink, offer};

/// Queries that share the loads of codes.
const WIDTH: usize = 2;

/// Registers of 32 rows in a block.
const HALVES: usize = BLOCK / 32;

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

pub fn scan(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    debug_assert!(is_available());
    let (pairs, rest) = queries.as_chunks::<WIDTH>();
    // SAFETY: queries are made for this kernel only where it is available.
    unsafe {
        for (at, pair) in pairs.iter().enumerate() {
            scan_few(blocks, *pair, at * WIDTH, sink);
        }
        if let [query] = rest {
            scan_few(blocks, [*query], queries.len() - 1, sink);
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn scan_few<const Q: usize>(blocks: &[u8], queries: [&Query; Q], first: usize, sink: &mut impl Sink) {
    let bytes = queries[0].code_bytes();
    for (number, block) in blocks.chunks_exact((bytes + FACTOR_BYTES) * BLOCK).enumerate() {
        let (codes, factors) = block.split_at(bytes * BLOCK);
        let mut sums = [[0u16; BLOCK]; Q];
        for half in 0..HALVES {
            sum_half(codes, half, queries, &mut sums);
        }
        for q in 0..Q {
            offer(&sums[q], factors, queries[q], first + q, number, sink);
        }
    }
}

/// The sums of 32 rows of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_half<const Q: usize>(codes: &[u8], half: usize, queries: [&Query; Q], sums: &mut [[u16; BLOCK]; Q]) {
    let bytes = codes.len() / BLOCK;
    for q in 0..Q {
        assert!(queries[q].tables().len() >= bytes * 32, "all tables");
    }
    let nibble = _mm256_set1_epi8(0x0f);
    let mut both = [_mm256_setzero_si256(); Q];
    let mut odd = [_mm256_setzero_si256(); Q];
    let mut byte = 0;
    while byte < bytes {
        // Each byte of the code is two look-ups.
        let count = (bytes - byte).min(LOOKUPS_OF_BYTE / 2);
        let mut sums_8 = [_mm256_setzero_si256(); Q];
        for byte in byte..byte + count {
            // SAFETY: each byte of a code has a column of 64 bytes, and 32 bytes of tables.
            let column = unsafe { _mm256_loadu_si256(codes.as_ptr().add(byte * BLOCK + half * 32).cast()) };
            let low = _mm256_and_si256(column, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(column), nibble);
            for q in 0..Q {
                // SAFETY: as above.
                let (first, second) = unsafe {
                    let table = queries[q].tables().as_ptr().add(byte * 32);
                    (_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast()))
                };
                let low = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(first), low);
                let high = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(second), high);
                sums_8[q] = _mm256_add_epi8(sums_8[q], _mm256_add_epi8(low, high));
            }
        }
        for q in 0..Q {
            both[q] = _mm256_add_epi16(both[q], sums_8[q]);
            odd[q] = _mm256_add_epi16(odd[q], _mm256_srli_epi16::<8>(sums_8[q]));
        }
        byte += count;
    }
    for q in 0..Q {
        let even = _mm256_sub_epi16(both[q], _mm256_slli_epi16::<8>(odd[q]));
        // Even and odd rows in turn; the unpacking works within halves of a register.
        let low = _mm256_unpacklo_epi16(even, odd[q]);
        let high = _mm256_unpackhi_epi16(even, odd[q]);
        let out = &mut sums[q][half * 32..][..32];
        // SAFETY: 32 places of 16 bits take two registers.
        unsafe {
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_permute2x128_si256::<0x20>(low, high));
            _mm256_storeu_si256(out.as_mut_ptr().add(16).cast(), _mm256_permute2x128_si256::<0x31>(low, high));
        }
    }
}
