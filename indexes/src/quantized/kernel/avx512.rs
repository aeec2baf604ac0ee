//! AVX-512 with byte permutations (VBMI): a look-up of six coordinates for 64 rows is one instruction.

#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "registers in arrays, several of them by the same number")]

use std::arch::x86_64::*;

use super::{BLOCK, Estimates, FACTOR_BYTES, Query, QueryParts, Sink, WIDTH};

/// Blocks that share the loads of tables.
const BLOCKS: usize = 2;

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

pub fn scan(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    debug_assert!(is_available());
    // SAFETY: queries are made for this kernel only where it is available.
    match queries {
        [a, b] => unsafe { scan_all::<2>(blocks, [a, b], sink) },
        [a] => unsafe { scan_all::<1>(blocks, [a], sink) },
        _ => unreachable!("one or {WIDTH} queries"),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn scan_all<const Q: usize>(blocks: &[u8], queries: [&Query; Q], sink: &mut impl Sink) {
    let stride = (queries[0].code_bytes() + FACTOR_BYTES) * BLOCK;
    let mut pairs = blocks.chunks_exact(BLOCKS * stride);
    let mut number = 0;
    for pair in pairs.by_ref() {
        let (a, b) = pair.split_at(stride);
        some::<Q, BLOCKS>([a, b], queries, number, sink);
        number += BLOCKS;
    }
    if !pairs.remainder().is_empty() {
        some::<Q, 1>([pairs.remainder()], queries, number, sink);
    }
}

/// `Q` queries with `B` blocks, all sums in registers. Plain loops: what closures hold is not compiled for these
/// instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn some<const Q: usize, const B: usize>(blocks: [&[u8]; B], queries: [&Query; Q], number: usize, sink: &mut impl Sink) {
    let groups = queries[0].code_bytes() / 3;
    for q in 0..Q {
        assert!(queries[q].tables().len() >= groups * 256, "all tables");
    }
    for b in 0..B {
        assert!(blocks[b].len() >= groups * 3 * BLOCK + BLOCK * FACTOR_BYTES, "whole blocks");
    }
    let (low, middle, high) = (_mm512_set1_epi8(0x03), _mm512_set1_epi8(0x0c), _mm512_set1_epi8(0x30));
    // Sums of both bytes of each 16 bits, the high one weighing 256, and sums of the high ones alone.
    let mut both = [[_mm512_setzero_si512(); B]; Q];
    let mut odd = [[_mm512_setzero_si512(); B]; Q];
    for group in 0..groups {
        let mut indexes = [[_mm512_setzero_si512(); 4]; B];
        for b in 0..B {
            // SAFETY: the block holds three columns of 64 bytes for each group, see above.
            let [x, y, z] = unsafe {
                let columns = blocks[b].as_ptr().add(group * 3 * BLOCK);
                [
                    _mm512_loadu_si512(columns.cast()),
                    _mm512_loadu_si512(columns.add(BLOCK).cast()),
                    _mm512_loadu_si512(columns.add(2 * BLOCK).cast()),
                ]
            };
            let tops = _mm512_and_si512(_mm512_srli_epi16::<6>(x), low);
            // a | (b & c)
            let tops = _mm512_ternarylogic_epi32::<0xf8>(tops, _mm512_srli_epi16::<4>(y), middle);
            let tops = _mm512_ternarylogic_epi32::<0xf8>(tops, _mm512_srli_epi16::<2>(z), high);
            indexes[b] = [x, y, z, tops];
        }
        for q in 0..Q {
            // SAFETY: four tables of 64 bytes for each group, see above.
            let [s, t, u, v] = unsafe {
                let tables = queries[q].tables().as_ptr().add(group * 256);
                [
                    _mm512_loadu_si512(tables.cast()),
                    _mm512_loadu_si512(tables.add(64).cast()),
                    _mm512_loadu_si512(tables.add(128).cast()),
                    _mm512_loadu_si512(tables.add(192).cast()),
                ]
            };
            for b in 0..B {
                let [x, y, z, tops] = indexes[b];
                let sums = _mm512_add_epi8(
                    _mm512_add_epi8(_mm512_permutexvar_epi8(x, s), _mm512_permutexvar_epi8(y, t)),
                    _mm512_add_epi8(_mm512_permutexvar_epi8(z, u), _mm512_permutexvar_epi8(tops, v)),
                );
                both[q][b] = _mm512_add_epi16(both[q][b], sums);
                odd[q][b] = _mm512_add_epi16(odd[q][b], _mm512_srli_epi16::<8>(sums));
            }
        }
    }
    for b in 0..B {
        let (mean, code) = load_factors(&blocks[b][groups * 3 * BLOCK..]);
        for q in 0..Q {
            let even = _mm512_sub_epi16(both[q][b], _mm512_slli_epi16::<8>(odd[q][b]));
            let mut estimates: Estimates = [0.0; BLOCK];
            let passed = estimate(even, odd[q][b], &mean, &code, queries[q].parts(), sink.threshold(q), &mut estimates);
            if passed != 0 {
                sink.take(q, number + b, passed, &estimates);
            }
        }
    }
}

/// Both factors of the 64 rows, widened.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_factors(factors: &[u8]) -> ([__m512; 4], [__m512; 4]) {
    assert!(factors.len() >= FACTOR_BYTES * BLOCK, "both factors of all rows");
    let mut both = [[_mm512_setzero_ps(); 4]; 2];
    for which in 0..2 {
        for quarter in 0..4 {
            // SAFETY: within the bytes of the factors.
            let halves = unsafe { _mm256_loadu_si256(factors.as_ptr().add(which * 2 * BLOCK + quarter * 32).cast()) };
            both[which][quarter] = _mm512_cvtph_ps(halves);
        }
    }
    (both[0], both[1])
}

/// Even and odd rows in turn: place 2i of the first half is even row i, place 2i + 1 the odd one.
const TURNS: [[i16; 32]; 2] = {
    let mut turns = [[0; 32]; 2];
    let mut at = 0;
    while at < 32 {
        let place = at / 2 + at % 2 * 32;
        turns[0][at as usize] = place;
        turns[1][at as usize] = place + 16;
        at += 1;
    }
    turns
};

/// Estimates from the sums of even and odd rows, and which of them reach the threshold. They are stored only where
/// one does.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn estimate(
    even: __m512i,
    odd: __m512i,
    mean: &[__m512; 4],
    code: &[__m512; 4],
    parts: &QueryParts,
    threshold: f32,
    estimates: &mut Estimates,
) -> u64 {
    let (per_unit, at_zero) = (_mm512_set1_ps(parts.per_unit), _mm512_set1_ps(parts.at_zero));
    let (mean_unit, base) = (_mm512_set1_ps(parts.mean_unit), _mm512_set1_ps(parts.base));
    let threshold = _mm512_set1_ps(threshold);
    // SAFETY: 64 readable bytes.
    let turns = unsafe { [_mm512_loadu_si512(TURNS[0].as_ptr().cast()), _mm512_loadu_si512(TURNS[1].as_ptr().cast())] };
    let low = _mm512_permutex2var_epi16(even, turns[0], odd);
    let high = _mm512_permutex2var_epi16(even, turns[1], odd);
    let sums = [
        _mm512_castsi512_si256(low),
        _mm512_extracti64x4_epi64::<1>(low),
        _mm512_castsi512_si256(high),
        _mm512_extracti64x4_epi64::<1>(high),
    ];
    let mut found = [_mm512_setzero_ps(); 4];
    let mut passed = 0u64;
    for quarter in 0..4 {
        let sums = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(sums[quarter]));
        let of_sum = _mm512_fmadd_ps(per_unit, sums, at_zero);
        let of_mean = _mm512_fmadd_ps(mean[quarter], mean_unit, base);
        found[quarter] = _mm512_fmadd_ps(code[quarter], of_sum, of_mean);
        passed |= u64::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(found[quarter], threshold)) << (16 * quarter);
    }
    if passed != 0 {
        for quarter in 0..4 {
            // SAFETY: each quarter of the estimates has room for sixteen.
            unsafe { _mm512_storeu_ps(estimates.as_mut_ptr().add(16 * quarter), found[quarter]) };
        }
    }
    passed
}
