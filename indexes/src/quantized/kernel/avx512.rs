//! AVX-512 with byte permutations (VBMI): a look-up of six coordinates for 64 rows is one instruction.

#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "registers in arrays, several of them by the same number")]

use std::arch::x86_64::*;

use super::table::{LOOKUPS_OF_BYTE, Line};
use super::{BLOCK, Estimates, FACTOR_BYTES, Query, QueryParts, Sink};

/// Queries that share the loads of codes.
const WIDTH: usize = 2;
/// Blocks that share the loads of tables.
const BLOCKS: usize = 2;
/// Groups whose look-ups, four each, sum up to a byte.
const GROUPS_OF_BYTE: usize = 2;
const _: () = assert!(GROUPS_OF_BYTE * 4 == LOOKUPS_OF_BYTE);
/// Queries from which on it pays to make the look-ups of top bits once for all.
const TOPS_PAY: usize = 8;

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

pub fn scan(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    debug_assert!(is_available());
    // SAFETY: queries are made for this kernel only where it is available.
    unsafe { scan_all(blocks, queries, sink) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn scan_all(blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
    let codes = match queries.len() {
        0..TOPS_PAY => Codes::bare(blocks, queries[0].code_bytes()),
        _ => Codes::with_tops(blocks, queries[0].code_bytes()),
    };
    let (pairs, rest) = queries.as_chunks::<WIDTH>();
    for (at, pair) in pairs.iter().enumerate() {
        scan_few(&codes, *pair, at * WIDTH, sink);
    }
    if let [query] = rest {
        scan_few(&codes, [*query], queries.len() - 1, sink);
    }
}

/// Blocks as the queries meet them.
struct Codes<'a> {
    blocks: &'a [u8],
    groups: usize,
    /// By block and group the look-ups of top bits, if they were made.
    tops: Vec<Line>,
}

impl<'a> Codes<'a> {
    fn bare(blocks: &'a [u8], code_bytes: usize) -> Self {
        Self { blocks, groups: code_bytes / 3, tops: Vec::new() }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn with_tops(blocks: &'a [u8], code_bytes: usize) -> Self {
        let bare = Self::bare(blocks, code_bytes);
        let mut tops = vec![Line([0; BLOCK]); bare.count() * bare.groups];
        for block in 0..bare.count() {
            for group in 0..bare.groups {
                let [.., found] = look_ups(bare.block(block), group);
                // SAFETY: 64 writable bytes.
                unsafe { _mm512_storeu_si512(tops[block * bare.groups + group].0.as_mut_ptr().cast(), found) };
            }
        }
        Self { tops, ..bare }
    }

    fn stride(&self) -> usize {
        (self.groups * 3 + FACTOR_BYTES) * BLOCK
    }

    /// Number of blocks.
    fn count(&self) -> usize {
        self.blocks.len() / self.stride()
    }

    fn block(&self, number: usize) -> &'a [u8] {
        &self.blocks[number * self.stride()..][..self.stride()]
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn scan_few<const Q: usize>(codes: &Codes<'_>, queries: [&Query; Q], first: usize, sink: &mut impl Sink) {
    let (count, mut number) = (codes.count(), 0);
    while number + BLOCKS <= count {
        match codes.tops.is_empty() {
            true => estimate_blocks::<Q, BLOCKS, false>(codes, number, queries, first, sink),
            false => estimate_blocks::<Q, BLOCKS, true>(codes, number, queries, first, sink),
        }
        number += BLOCKS;
    }
    while number < count {
        estimate_blocks::<Q, 1, false>(codes, number, queries, first, sink);
        number += 1;
    }
}

/// The four look-ups of a group of a block. They take no notice of the highest two bits of each byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_ups(block: &[u8], group: usize) -> [__m512i; 4] {
    let columns = &block[group * 3 * BLOCK..][..3 * BLOCK];
    // SAFETY: three columns of 64 bytes.
    let [x, y, z] = unsafe {
        let columns = columns.as_ptr();
        [
            _mm512_loadu_si512(columns.cast()),
            _mm512_loadu_si512(columns.add(BLOCK).cast()),
            _mm512_loadu_si512(columns.add(2 * BLOCK).cast()),
        ]
    };
    // c ? a : b, bit by bit.
    const PICK: i32 = 0xe4;
    let (two, four) = (_mm512_set1_epi8(0x03), _mm512_set1_epi8(0x0f));
    let tops = _mm512_ternarylogic_epi32::<PICK>(_mm512_srli_epi16::<6>(x), _mm512_srli_epi16::<4>(y), two);
    [x, y, z, _mm512_ternarylogic_epi32::<PICK>(tops, _mm512_srli_epi16::<2>(z), four)]
}

/// A block, and the columns of look-ups of its top bits, if they were made.
#[derive(Clone, Copy)]
struct Block<'a> {
    bytes: &'a [u8],
    tops: &'a [Line],
}

/// `Q` queries with `B` blocks from `number` on, all sums in registers. Plain loops: what closures hold is not compiled
/// for these instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn estimate_blocks<const Q: usize, const B: usize, const TOPS: bool>(
    codes: &Codes<'_>,
    number: usize,
    queries: [&Query; Q],
    first: usize,
    sink: &mut impl Sink,
) {
    let groups = codes.groups;
    let mut tables = [queries[0].tables(); Q];
    for q in 0..Q {
        tables[q] = queries[q].tables();
        assert!(tables[q].len() >= groups * 256, "all tables");
    }
    let mut blocks = [Block { bytes: &[], tops: &[] }; B];
    for b in 0..B {
        blocks[b].bytes = codes.block(number + b);
        if TOPS {
            blocks[b].tops = &codes.tops[(number + b) * groups..][..groups];
        }
    }
    // Sums of both bytes of each 16 bits, the high one weighing 256, and sums of the high ones alone.
    let mut both = [[_mm512_setzero_si512(); B]; Q];
    let mut odd = [[_mm512_setzero_si512(); B]; Q];
    let mut group = 0;
    while group < groups {
        let mut bytes = [[_mm512_setzero_si512(); B]; Q];
        add_group::<Q, B, TOPS>(blocks, tables, group, &mut bytes);
        if group + 1 < groups {
            add_group::<Q, B, TOPS>(blocks, tables, group + 1, &mut bytes);
        }
        for q in 0..Q {
            for b in 0..B {
                both[q][b] = _mm512_add_epi16(both[q][b], bytes[q][b]);
                odd[q][b] = _mm512_add_epi16(odd[q][b], _mm512_srli_epi16::<8>(bytes[q][b]));
            }
        }
        group += GROUPS_OF_BYTE;
    }
    for b in 0..B {
        let (mean, code) = load_factors(&blocks[b].bytes[groups * 3 * BLOCK..]);
        for q in 0..Q {
            let even = _mm512_sub_epi16(both[q][b], _mm512_slli_epi16::<8>(odd[q][b]));
            let found = estimate(even, odd[q][b], &mean, &code, queries[q].parts());
            let passed = reached(&found, sink.threshold(first + q));
            if passed != 0 {
                let mut estimates: Estimates = [0.0; BLOCK];
                for quarter in 0..4 {
                    // SAFETY: each quarter of the estimates has room for sixteen.
                    unsafe { _mm512_storeu_ps(estimates.as_mut_ptr().add(16 * quarter), found[quarter]) };
                }
                sink.take(first + q, number + b, passed, &estimates);
            }
        }
    }
}

/// Adds the four look-ups of a group to `bytes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn add_group<const Q: usize, const B: usize, const TOPS: bool>(
    blocks: [Block<'_>; B],
    tables: [&[u8]; Q],
    group: usize,
    bytes: &mut [[__m512i; B]; Q],
) {
    let mut indexes = [[_mm512_setzero_si512(); 4]; B];
    for b in 0..B {
        if TOPS {
            // SAFETY: a block has three columns of 64 bytes for each group, and `tops` one.
            indexes[b] = unsafe {
                let columns = blocks[b].bytes.as_ptr().add(group * 3 * BLOCK);
                [
                    _mm512_loadu_si512(columns.cast()),
                    _mm512_loadu_si512(columns.add(BLOCK).cast()),
                    _mm512_loadu_si512(columns.add(2 * BLOCK).cast()),
                    _mm512_loadu_si512(blocks[b].tops.as_ptr().add(group).cast()),
                ]
            };
        } else {
            indexes[b] = look_ups(blocks[b].bytes, group);
        }
    }
    for q in 0..Q {
        // SAFETY: four tables of 64 bytes for each group, see above.
        let [s, t, u, v] = unsafe {
            let tables = tables[q].as_ptr().add(group * 256);
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
            bytes[q][b] = _mm512_add_epi8(bytes[q][b], sums);
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

/// Estimates from the sums of even and odd rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn estimate(even: __m512i, odd: __m512i, mean: &[__m512; 4], code: &[__m512; 4], parts: &QueryParts) -> [__m512; 4] {
    let (per_unit, at_zero) = (_mm512_set1_ps(parts.per_unit), _mm512_set1_ps(parts.at_zero));
    let (mean_unit, base) = (_mm512_set1_ps(parts.mean_unit), _mm512_set1_ps(parts.base));
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
    for quarter in 0..4 {
        let sums = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(sums[quarter]));
        let of_sum = _mm512_fmadd_ps(per_unit, sums, at_zero);
        let of_mean = _mm512_fmadd_ps(mean[quarter], mean_unit, base);
        found[quarter] = _mm512_fmadd_ps(code[quarter], of_sum, of_mean);
    }
    found
}

/// Which of the rows reach `threshold`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reached(found: &[__m512; 4], threshold: f32) -> u64 {
    let threshold = _mm512_set1_ps(threshold);
    let mut passed = [0; 4];
    for quarter in 0..4 {
        passed[quarter] = u32::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(found[quarter], threshold));
    }
    _mm512_kunpackd(u64::from(_mm512_kunpackw(passed[3], passed[2])), u64::from(_mm512_kunpackw(passed[1], passed[0])))
}
